"""What the records of all runs say together: the content of results.json."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from hdfs_io.manifest import Manifest
from hdfs_io.prepared import PreparedDataSet
from sparksplit import __version__
from sparksplit.comparison import answer, costs, scale
from sparksplit.comparison.config import CompareConfig
from sparksplit.comparison.content import (
    Answer,
    DataFacts,
    Epochs,
    Interval,
    Machine,
    Metric,
    Pair,
    Results,
    Row,
    Target,
    ToTarget,
)
from sparksplit.comparison.intervals import interval
from sparksplit.comparison.plan import SINGLE
from sparksplit.comparison.record import ComparedRun, DivergedRun, Measured
from sparksplit.training import metrics, report
from sparksplit.training.config import TrainConfig

AnyRun = ComparedRun | DivergedRun
Group = tuple[str, int, bool]
"""(way, nodes, virtual)"""

FORMAT_VERSION = 3
"""The version of results.json and of the records in runs/; those of another version are not used."""
BASE: Group = (SINGLE, 1, False)
"""What all are compared with: one node that trains with the comparison's own keys."""
_TARGET = 0.95
"""How much of the way from `single`'s first value to its best, on the validation rows, the default target asks for."""


def results(
    config: CompareConfig,
    run: TrainConfig,
    data: PreparedDataSet,
    records: Sequence[AnyRun],
    measured: Measured,
    created: str,
    config_hash: str,
) -> Results:
    """The content of results.json.

    run: any run's configuration. records: those of all runs, including diverged ones. created: when, in ISO 8601.
    config_hash: the output's.
    """
    manifest = data.manifest
    metric = metric_of(config, manifest)
    records = [_judged(record, metric) for record in records]
    trained = finished(records)
    groups = _groups(records)
    target = _target(config, groups, metric)
    table = [_row(group, members, groups, metric, target) for group, members in groups.items()]
    real, virtual = ([record for record in trained if record.virtual == which] for which in (False, True))
    model = costs.cost_model(table, real, virtual, measured)
    found = Results(
        format_version=FORMAT_VERSION,
        command="compare",
        sparksplit=__version__,
        created=created,
        config_hash=config_hash,
        config=config.model_dump(mode="json"),
        data=DataFacts(data.path, data.digest, {name: split.rows for name, split in manifest.splits.items()}),
        model=config.model.build,
        metric=metric,
        epochs=Epochs(
            config.epochs,
            run.epochs,
            None if run.epochs == config.epochs else "every number of nodes must divide them",
        ),
        seeds=[config.seed + place for place in range(config.seeds)],
        nodes=config.nodes,
        target=target,
        machine=machine(measured.gpus or []),
        versions=report.versions(),
        runs=real,
        virtual=virtual,
        diverged=[record for record in records if record.diverged is not None],
        table=table,
        pairs=_pairs(groups, metric),
        cost_model=model,
        scale=scale.scale(table, model),
        answer=Answer([], "", ""),
    )
    return replace(found, answer=answer.answer(found))


def machine(gpus: list[str]) -> Machine:
    """What the driver's host is. gpus: a node's."""
    return Machine(
        cores=os.cpu_count(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        processor=_processor(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        gpus=gpus,
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def metric_of(config: CompareConfig, manifest: Manifest) -> Metric:
    """The `metric` of results.json: what decides, on which rows, and which of its values are better.

    Raises ConfigError if no run measures it, or if its direction cannot be told or is given wrongly.
    """
    names = metrics.measured(config.metrics, manifest)
    if config.metric not in (None, metrics.LOSS, *names):
        known = ", ".join([metrics.LOSS, *names])
        raise config.error("metric", f"must be one of {known} (is {config.metric!r})")
    name, better = metrics.deciding(config.metric, names), config.metric_better
    higher = metrics.higher_is_better(name)
    if higher is None and better is None:
        raise config.error(
            "metric_better", f"must be lower or higher: whether a higher {name} is better cannot be told from its name"
        )
    if higher is not None and better is not None and higher != (better == "higher"):
        raise config.error("metric_better", f"is {better}, but a {'higher' if higher else 'lower'} {name} is better")
    labels = math.prod(manifest.label.shape) if manifest.label is not None else 1
    split = "test" if manifest.splits["test"].rows else "validation"
    return Metric(
        name=name,
        higher_is_better=better == "higher" if higher is None else higher,
        margin=config.margin,
        split=split,
        resolution=metrics.resolution(name, manifest.splits[split].rows * labels),
    )


def value_of(record: ComparedRun, metric: Metric) -> float:
    """The metric on the test rows; if there are none, on the validation rows at the end."""
    value = _final(record, metric)
    if value is None:
        raise ValueError(f"{record.key} has no finite {metric.name}")
    return value


def _final(record: ComparedRun, metric: Metric) -> float | None:
    if metric.split == "test":
        return record.metrics.test[metric.name]
    return (record.metrics.validation or {})[metric.name][-1]


def _judged(record: AnyRun, metric: Metric) -> AnyRun:
    """The record, turned into a diverged one if what is compared is not a finite number at its end."""
    if isinstance(record, DivergedRun) or _final(record, metric) is not None:
        return record
    return replace(record, diverged=f"its {metric.name} is not finite at the end")


def _curve(record: ComparedRun, name: str) -> list[tuple[int, float, float]]:
    """(passes, seconds, value) on the validation rows."""
    return [
        (point.passes, point.seconds, value)
        for point in record.history
        if point.validation is not None and (value := point.validation[name]) is not None
    ]


def _target(config: CompareConfig, groups: Mapping[Group, Sequence[AnyRun]], metric: Metric) -> Target | None:
    """value, and by: where it comes from (the configuration, `single`, or all runs if none of `single` finished)."""
    name = metric.name
    alone = finished(groups.get(BASE, []))
    every = [member for members in groups.values() for member in finished(members)]
    curves = [[value for *_, value in _curve(record, name)] for record in alone or every]
    curves = [curve for curve in curves if curve]
    if not curves:
        return None
    if config.target is not None:
        return Target(name, config.target, "configuration")
    best = fmean(max(curve) if metric.higher_is_better else min(curve) for curve in curves)
    begin = fmean(curve[0] for curve in curves)
    by = SINGLE if alone else "all runs"
    # Not rounded: a target a hair's breadth past the best value would never be reached.
    value = begin + _TARGET * (best - begin)
    return Target(name, min(value, best) if best > begin else max(value, best), by)


def reached(record: ComparedRun, target: Target, higher: bool) -> tuple[float, float] | None:
    """(passes, seconds) after which the run first reached the target on the validation rows; None if it did not."""
    for passes, seconds, value in _curve(record, target.metric):
        if value >= target.value if higher else value <= target.value:
            return passes, seconds
    return None


def _groups(records: Sequence[AnyRun]) -> dict[Group, list[AnyRun]]:
    found: dict[Group, list[AnyRun]] = {}
    for record in records:
        found.setdefault((record.way, record.nodes, record.virtual), []).append(record)
    return dict(sorted(found.items(), key=lambda item: (item[0][2], item[0][1])))


def finished(members: Sequence[AnyRun]) -> list[ComparedRun]:
    """Those that did not diverge."""
    return [member for member in members if isinstance(member, ComparedRun) and member.diverged is None]


def training_seconds(record: ComparedRun) -> float:
    """Seconds of training, including exchanges and waiting for rows; without start, compiling and validation."""
    return record.history[-1].seconds if record.history else 0.0


def _row(
    group: Group,
    members: Sequence[AnyRun],
    groups: Mapping[Group, Sequence[AnyRun]],
    metric: Metric,
    target: Target | None,
) -> Row:
    """A line of the table."""
    way, nodes, virtual = group
    done = finished(members)
    first = done[0] if done else None
    values = interval([value_of(member, metric) for member in done], metric.resolution) if done else (None, None, None)
    seconds = fmean(map(training_seconds, done)) if done and not virtual else None
    alone = finished(groups.get(BASE, []))
    return Row(
        way=way,
        nodes=nodes,
        virtual=virtual,
        runs=len(done),
        diverged=len(members) - len(done),
        hosts=len(set(first.hosts)) if first else None,
        strategy=first.strategy if first else None,
        passes=first.passes if first else None,
        updates=first.updates if first else None,
        syncs=first.syncs if first else None,
        bytes_per_node=fmean(member.sync_bytes_per_node for member in done) if done else None,
        seconds=seconds,
        rows_per_second=first.passes * first.rows / max(seconds, 1e-9) if first and seconds is not None else None,
        efficiency=fmean(map(training_seconds, alone)) / (nodes * seconds) if alone and seconds else None,
        to_target=_to_target(done, len(members), metric, target) if done and target is not None else None,
        time=_times(done) if done and not virtual else None,
        metric=Interval(*values),
    )


def _to_target(done: Sequence[ComparedRun], of: int, metric: Metric, target: Target) -> ToTarget:
    found = [reached(member, target, metric.higher_is_better) for member in done]
    hits = [hit for hit in found if hit is not None]
    return ToTarget(
        seconds=fmean(hit[1] for hit in hits) if hits and not done[0].virtual else None,
        passes=fmean(hit[0] for hit in hits) if hits else None,
        reached=len(hits),
        of=of,
    )


def _times(members: Sequence[ComparedRun]) -> dict[str, float]:
    """Where the seconds went, as means over the runs."""

    def mean(name: str) -> float:
        return fmean(getattr(member.seconds, name) for member in members)

    sync, waiting = mean("sync"), mean("waiting")
    return {
        "reading": mean("feed"),
        "hand-off": 0.0,
        "compute": max(0.0, mean("train") - sync),
        "waiting": waiting,
        "synchronising": max(0.0, sync - waiting),
        "other": mean("start") + mean("warmup") + mean("validation"),
    }


def _pairs(groups: Mapping[Group, Sequence[AnyRun]], metric: Metric) -> list[Pair]:
    """Each way against `single`, and against `batch` on as many nodes; paired by seed."""
    found = []
    for group in groups:
        _, nodes, virtual = group
        for other in dict.fromkeys((BASE, ("batch", nodes, virtual))):
            if other in groups and group != other:
                found.append(_pair(group, other, groups, metric))
    return [pair for pair in found if pair.seeds]


def _pair(group: Group, other: Group, groups: Mapping[Group, Sequence[AnyRun]], metric: Metric) -> Pair:
    """seeds: those with which both finished. of: those that both were given."""
    values = [{member.seed: value_of(member, metric) for member in finished(groups[one])} for one in (group, other)]
    seeds = sorted(values[0].keys() & values[1].keys())
    given = {member.seed for member in groups[group]} & {member.seed for member in groups[other]}
    sign = 1 if metric.higher_is_better else -1
    mean, low, high = interval([values[0][seed] - values[1][seed] for seed in seeds], metric.resolution)
    better, worse = (low, high) if sign > 0 else (None if high is None else -high, None if low is None else -low)
    return Pair(
        way=group[0],
        nodes=group[1],
        virtual=group[2],
        against=other[0],
        against_nodes=other[1],
        quantity=metric.name,
        seeds=len(seeds),
        of=len(given),
        mean=mean,
        low=low,
        high=high,
        verdict=verdict(better, worse, metric.margin),
    )


def verdict(low: float | None, high: float | None, margin: float) -> str:
    """What an interval of differences says, where above 0 is better: `no difference` only if it lies within the margin.

    An interval of no width away from 0 says that the seeds made no difference, not how sure the difference is.
    """
    if low is None or high is None or (low == high != 0):
        return "undecided"
    if -margin <= low and high <= margin:
        return "no difference"
    if low > 0:
        return "better"
    return "worse" if high < 0 else "undecided"
