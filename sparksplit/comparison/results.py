"""What the records of all runs say together: the content of results.json."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hdfs_io.manifest import Manifest
from hdfs_io.prepared import PreparedDataSet
from sparksplit import __version__
from sparksplit.comparison import answer, costs, metrics, scale
from sparksplit.comparison.config import CompareConfig
from sparksplit.comparison.intervals import interval
from sparksplit.comparison.plan import SINGLE
from sparksplit.training import report
from sparksplit.training.config import TrainConfig

Record = Mapping[str, Any]
Row = dict[str, Any]
Group = tuple[str, int, bool]
"""(way, nodes, virtual)"""

FORMAT_VERSION = 3
"""Of results.json and of the records in runs/: those of another version are not taken for one's own."""
BASE: Group = (SINGLE, 1, False)
"""What all are compared with: one node that trains with the comparison's own keys."""
_TARGET = 0.95
"""The part of `single`'s way to its best value on the validation rows that the default target asks for."""


def results(
    config: CompareConfig,
    run: TrainConfig,
    data: PreparedDataSet,
    records: Sequence[Record],
    measured: Mapping[str, Any],
    made: Mapping[str, str],
) -> dict[str, Any]:
    """The content of results.json.

    run: any run's configuration. records: of all runs, those that diverged among them. measured: probe and sweeps.
    made: created (when) and config_hash (of the output).
    """
    manifest = data.manifest
    rows = {name: split.rows for name, split in manifest.splits.items()}
    metric = metric_of(config, manifest)
    records = [record if "diverged" in record else _judged(record, metric) for record in records]
    trained = finished(records)
    groups = _groups(records)
    target = _target(config, groups, metric)
    table = [_row(group, members, groups, metric, target) for group, members in groups.items()]
    pairs = _pairs(groups, metric)
    real = [record for record in trained if not record["virtual"]]
    model = costs.cost_model(table, real, [record for record in trained if record["virtual"]], measured, metric)
    content: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "command": "compare",
        "sparksplit": __version__,
        **made,
        "config": config.model_dump(mode="json"),
        "data": {
            "path": data.path,
            "digest": data.digest,
            "rows": rows,
        },
        "model": config.model.build,
        "metric": metric,
        "epochs": {
            "asked": config.epochs,
            "run": run.epochs,
            "reason": None if run.epochs == config.epochs else "every number of nodes must divide them",
        },
        "seeds": [config.seed + place for place in range(config.seeds)],
        "nodes": config.nodes,
        "target": target,
        "machine": machine() | {"gpus": measured.get("gpus", [])},
        "versions": report.versions(),
        "runs": real,
        "virtual": [record for record in trained if record["virtual"]],
        "diverged": [record for record in records if "diverged" in record],
        "table": table,
        "pairs": pairs,
        "cost_model": model,
        "scale": scale.scale(table, model),
    }
    return content | {"answer": answer.answer(content)}


def machine() -> dict[str, Any]:
    """What the driver's host is; `gpus` are those of a node."""
    return {
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def metric_names(given: Sequence[str] | None, manifest: Manifest) -> list[str]:
    """The metrics that a run measures beside the loss. given: those of its configuration."""
    has_classes = manifest.label is not None and manifest.label.classes is not None
    return ["accuracy" if has_classes else "mean_absolute_error"] if given is None else list(given)


def metric_of(config: CompareConfig, manifest: Manifest) -> dict[str, Any]:
    """The `metric` of results.json: what decides, on which rows, and which of its values are better.

    Raises ConfigError where nobody measures it, and where its direction cannot be told or is given wrongly.
    """
    names = metric_names(config.metrics, manifest)
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
    return {
        "name": name,
        "higher_is_better": better == "higher" if higher is None else higher,
        "margin": config.margin,
        "split": split,
        "resolution": metrics.resolution(name, manifest.splits[split].rows * labels),
    }


def value_of(record: Record, metric: Mapping[str, Any]) -> float:
    """The metric on the test rows; on the validation rows, at the end, where there are no test rows."""
    value = _final(record, metric)
    if value is None:
        raise ValueError(f"{record['key']} has no finite {metric['name']}")
    return float(value)


def _final(record: Record, metric: Mapping[str, Any]) -> float | None:
    name, found = metric["name"], record["metrics"]
    value: float | None = found["test"][name] if metric["split"] == "test" else found["validation"][name][-1]
    return value


def _judged(record: Record, metric: Mapping[str, Any]) -> Record:
    """The record, as one of those that diverged where what is compared is no finite number at its end."""
    if _final(record, metric) is not None:
        return record
    return {**record, "diverged": f"its {metric['name']} is not finite at the end"}


def _curve(record: Record, name: str) -> list[tuple[float, float, float]]:
    """(passes, seconds, value) on the validation rows."""
    return [
        (point["passes"], point["seconds"], point["validation"][name])
        for point in record["history"]
        if "validation" in point and point["validation"][name] is not None
    ]


def _target(
    config: CompareConfig, groups: Mapping[Group, Sequence[Record]], metric: Mapping[str, Any]
) -> dict[str, Any] | None:
    """value, and by: what it comes from (the configuration, `single`, or all runs where none of `single` finished)."""
    name = metric["name"]
    alone = finished(groups.get(BASE, []))
    every = [member for members in groups.values() for member in finished(members)]
    curves = [[value for *_, value in _curve(record, name)] for record in alone or every]
    curves = [curve for curve in curves if curve]
    if not curves:
        return None
    if config.target is not None:
        return {"metric": name, "value": config.target, "by": "configuration"}
    best = fmean(max(curve) if metric["higher_is_better"] else min(curve) for curve in curves)
    begin = fmean(curve[0] for curve in curves)
    by = SINGLE if alone else "all runs"
    # Not rounded: what is a hair's breadth past the best value is never reached.
    value = begin + _TARGET * (best - begin)
    return {"metric": name, "value": min(value, best) if best > begin else max(value, best), "by": by}


def reached(record: Record, target: Mapping[str, Any], higher: bool) -> tuple[float, float] | None:
    """(passes, seconds) after which the run first reached the target on the validation rows; None where it did not."""
    for passes, seconds, value in _curve(record, target["metric"]):
        if value >= target["value"] if higher else value <= target["value"]:
            return passes, seconds
    return None


def _groups(records: Sequence[Record]) -> dict[Group, list[Record]]:
    found: dict[Group, list[Record]] = {}
    for record in records:
        found.setdefault((record["way"], record["nodes"], record["virtual"]), []).append(record)
    return dict(sorted(found.items(), key=lambda item: (item[0][2], item[0][1])))


def finished(members: Sequence[Record]) -> list[Record]:
    """Those that did not diverge."""
    return [member for member in members if "diverged" not in member]


def training_seconds(record: Record) -> float:
    """Seconds of training, exchanges and waiting for rows among them; without start, compiling and validation."""
    history = record["history"]
    return float(history[-1]["seconds"]) if history else 0.0


def _row(
    group: Group,
    members: Sequence[Record],
    groups: Mapping[Group, Sequence[Record]],
    metric: Mapping[str, Any],
    target: Mapping[str, Any] | None,
) -> Row:
    """A line of the table: means over the runs that finished, and how many did not. None for what no run tells."""
    way, nodes, virtual = group
    done = finished(members)
    row: Row = {
        "way": way,
        "nodes": nodes,
        "virtual": virtual,
        "runs": len(done),
        "diverged": len(members) - len(done),
        **dict.fromkeys(("hosts", "strategy", "passes", "updates", "syncs", "bytes_per_node")),
        **dict.fromkeys(("seconds", "rows_per_second", "efficiency", "to_target", "time")),
        "metric": dict.fromkeys(("mean", "low", "high")),
    }
    if not done:
        return row
    first, seconds = done[0], fmean(map(training_seconds, done))
    mean, low, high = interval([value_of(member, metric) for member in done], metric["resolution"])
    row |= {
        "hosts": len(set(first["hosts"])),
        **{name: first[name] for name in ("strategy", "passes", "updates", "syncs")},
        "bytes_per_node": fmean(member["sync_bytes_per_node"] for member in done),
        "metric": {"mean": mean, "low": low, "high": high},
    }
    if not virtual:
        alone = finished(groups.get(BASE, []))
        row |= {
            "seconds": seconds,
            "rows_per_second": first["passes"] * first["rows"] / max(seconds, 1e-9),
            "efficiency": fmean(map(training_seconds, alone)) / (nodes * seconds) if alone and seconds else None,
            "time": _times(done),
        }
    if target is not None:
        found = [reached(member, target, metric["higher_is_better"]) for member in done]
        hits = [hit for hit in found if hit is not None]
        row["to_target"] = {
            "seconds": fmean(hit[1] for hit in hits) if hits and not virtual else None,
            "passes": fmean(hit[0] for hit in hits) if hits else None,
            "reached": len(hits),
            "of": len(members),
        }
    return row


def _times(members: Sequence[Record]) -> dict[str, float]:
    """Where the seconds went, as means over the runs."""

    def mean(name: str) -> float:
        return fmean(member["seconds"].get(name, 0.0) for member in members)

    sync, waiting = mean("sync"), mean("waiting")
    return {
        "reading": mean("feed"),
        "hand-off": 0.0,
        "compute": max(0.0, mean("train") - sync),
        "waiting": waiting,
        "synchronising": max(0.0, sync - waiting),
        "other": mean("start") + mean("warmup") + mean("validation"),
    }


def _pairs(groups: Mapping[Group, Sequence[Record]], metric: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each way against `single`, and against `batch` on as many nodes; paired by seed."""
    found = []
    for group in groups:
        _, nodes, virtual = group
        for other in dict.fromkeys((BASE, ("batch", nodes, virtual))):
            if other in groups and group != other:
                found.append(_pair(group, other, groups, metric))
    return [pair for pair in found if pair["seeds"]]


def _pair(
    group: Group, other: Group, groups: Mapping[Group, Sequence[Record]], metric: Mapping[str, Any]
) -> dict[str, Any]:
    """seeds: those with which both finished. of: those that both were given."""
    values = [{member["seed"]: value_of(member, metric) for member in finished(groups[one])} for one in (group, other)]
    seeds = sorted(values[0].keys() & values[1].keys())
    given = {member["seed"] for member in groups[group]} & {member["seed"] for member in groups[other]}
    sign = 1 if metric["higher_is_better"] else -1
    mean, low, high = interval([values[0][seed] - values[1][seed] for seed in seeds], metric["resolution"])
    better, worse = (low, high) if sign > 0 else (None if high is None else -high, None if low is None else -low)
    return {
        "way": group[0],
        "nodes": group[1],
        "virtual": group[2],
        "against": other[0],
        "against_nodes": other[1],
        "quantity": metric["name"],
        "seeds": len(seeds),
        "of": len(given),
        "mean": mean,
        "low": low,
        "high": high,
        "verdict": verdict(better, worse, float(metric["margin"])),
    }


def verdict(low: float | None, high: float | None, margin: float) -> str:
    """What an interval of differences says, where above 0 is better: `no difference` only within the margin.

    An interval of no width beside 0 says that the seeds made no difference, not how sure the difference is.
    """
    if low is None or high is None or (low == high != 0):
        return "undecided"
    if -margin <= low and high <= margin:
        return "no difference"
    if low > 0:
        return "better"
    return "worse" if high < 0 else "undecided"
