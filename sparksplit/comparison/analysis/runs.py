"""What runs say: groups of them, their values, where their times were measured, and when they reached the target.

Runs of all strategies are looked at after the same passes: the grid.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from sparksplit.comparison.content import Deciding, MetricRange, Target
from sparksplit.comparison.plan import SINGLE
from sparksplit.comparison.record import ComparedRun, DivergedRun, Place

AnyRun = ComparedRun | DivergedRun
Group = tuple[str, int, bool]
"""(name, nodes, virtual)"""
Groups = Mapping[Group, Sequence[AnyRun]]

BASE: Group = (SINGLE, 1, False)
"""What all are compared with: one node that trains with the comparison's own keys."""
ALL_RUNS = "all runs"
REFERENCE = "`single` on seeds of its own"
_TARGET = 0.95
"""How much of the way from `single`'s first value to its best, on the validation rows, the default target asks for."""


def grouped(records: Sequence[AnyRun]) -> dict[Group, list[AnyRun]]:
    """Runs of the same strategy on as many nodes; real ones first, then by the number of nodes."""
    found: dict[Group, list[AnyRun]] = {}
    for record in records:
        found.setdefault((record.name, record.nodes, record.virtual), []).append(record)
    return dict(sorted(found.items(), key=lambda item: (item[0][2], item[0][1])))


def finished(members: Sequence[AnyRun]) -> list[ComparedRun]:
    """Those that did not diverge."""
    return [member for member in members if isinstance(member, ComparedRun) and member.diverged is None]


def value_of(record: ComparedRun, metric: Deciding) -> float:
    """The metric on the test rows; if there are none, on the validation rows at the end."""
    value = _final(record, metric)
    if value is None:
        raise ValueError(f"{record.key} has no finite {metric.name}")
    return value


def _final(record: ComparedRun, metric: Deciding) -> float | None:
    if metric.split == "test":
        return record.metrics.test[metric.name]
    return (record.metrics.validation or {})[metric.name][-1]


def judged(record: AnyRun, metric: Deciding) -> AnyRun:
    """The record, turned into a diverged one if what is compared is not a finite number at its end."""
    if isinstance(record, DivergedRun) or _final(record, metric) is not None:
        return record
    return replace(record, diverged=f"its {metric.name} is not finite at the end")


def on_one_node(group: Group, groups: Groups) -> list[Group]:
    """What a strategy on several nodes is compared with besides `single`: all that one node can do, its own controls
    among it. Not what diverged in some of its runs."""
    _, nodes, virtual = group
    if nodes == 1 or virtual:
        return []
    found = [own for own in groups if own[1:] == (1, False) and own != BASE]
    return [own for own in found if len(finished(groups[own])) == len(groups[own])]


# Where.


def main_place(records: Sequence[AnyRun]) -> Place | None:
    """Where most of the real runs were measured; of several, where the first of them was. None if none says it."""
    known = [run.place for run in finished(records) if not run.virtual and run.place is not None]
    return Counter(known).most_common(1)[0][0] if known else None


def timed(members: Sequence[AnyRun], place: Place | None) -> list[ComparedRun]:
    """The finished real runs whose times may be compared: those measured in `place`."""
    return [member for member in finished(members) if not member.virtual and member.place == place]


def training_seconds(record: ComparedRun) -> float:
    """Seconds of training, including exchanges and waiting for rows; without start, compiling and validation."""
    return record.history[-1].seconds if record.history else 0.0


# When.


def grid(groups: Groups) -> list[int]:
    """The passes after which every finished real run was validated (without real ones: every virtual one), in order."""
    runs = [member for members in groups.values() for member in finished(members)]
    real = [run for run in runs if not run.virtual]
    points = [{point.passes for point in run.history if point.validation is not None} for run in real or runs]
    return sorted(set.intersection(*points)) if points else []


def _curve(record: ComparedRun, name: str, passes: Collection[int] | None) -> Iterator[tuple[int, float, float]]:
    """(passes, seconds, value) on the validation rows; only after `passes` if they are given."""
    for point in record.history:
        if point.validation is not None and (passes is None or point.passes in passes):
            value = point.validation[name]
            if value is not None:
                yield point.passes, point.seconds, value


def target_of(
    given: float | None,
    groups: Groups,
    references: Sequence[ComparedRun],
    metric: Deciding,
    passes: Collection[int],
) -> Target | None:
    """The target. given: the configuration's. references: the finished ones. passes: the grid. None if no run was
    validated there."""
    name = metric.name
    every = [member for members in groups.values() for member in finished(members)]
    runs = references or every
    # A run that ended begins with its first value, wherever the grid begins.
    ends = [([value for *_, value in _curve(run, name, None)], _best(run, metric, passes)) for run in runs]
    pairs = [(curve[0], best) for curve, best in ends if curve and best is not None]
    if not pairs:
        return None
    if given is not None:
        return Target(name, given, "configuration")
    begin, best = fmean(pair[0] for pair in pairs), fmean(pair[1] for pair in pairs)
    # Not rounded: a target a hair's breadth past the best value would never be reached.
    value = begin + _TARGET * (best - begin)
    return Target(name, min(value, best) if best > begin else max(value, best), REFERENCE if references else ALL_RUNS)


def _best(record: ComparedRun, metric: Deciding, passes: Collection[int]) -> float | None:
    values = [value for *_, value in _curve(record, metric.name, passes)]
    return (max(values) if metric.higher_is_better else min(values)) if values else None


def reached(
    record: ComparedRun, target: Target, higher: bool, passes: Collection[int] | None = None
) -> tuple[float, float] | None:
    """(passes, seconds) after which the run was first seen to have reached the target on the validation rows; None if
    it was not. passes: those after which it is looked at; None: all."""
    for after, seconds, value in _curve(record, target.metric, passes):
        if value >= target.value if higher else value <= target.value:
            return after, seconds
    return None


def median(values: Sequence[float]) -> float | None:
    """The median of values of which some may be infinite; None where it is infinite, or there are none."""
    found = statistics.median(values) if values else math.inf
    return found if math.isfinite(found) else None


# How far.


def range_of(references: Sequence[ComparedRun], groups: Groups, metric: Deciding) -> MetricRange | None:
    """By what differences of the metric are measured; None where nothing tells it.

    references: the finished ones, which tell it. Without them it is from the worst first to the best last value of all
    runs on the validation rows, which an untrained model's would exceed.
    """
    known = [
        (before, value_of(run, metric))
        for run in references
        if (before := (run.untrained or {}).get(metric.name)) is not None
    ]
    if known:
        return MetricRange(fmean(pair[0] for pair in known), fmean(pair[1] for pair in known), REFERENCE)
    curves = [
        [value for *_, value in _curve(run, metric.name, None)]
        for members in groups.values()
        for run in finished(members)
    ]
    curves = [curve for curve in curves if curve]
    if not curves:
        return None
    worst, best = (min, max) if metric.higher_is_better else (max, min)
    return MetricRange(worst(curve[0] for curve in curves), best(curve[-1] for curve in curves), ALL_RUNS)
