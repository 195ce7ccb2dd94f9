"""The groups, values and places of runs, and when runs reached the target.

All runs are looked at after the same passes: the grid.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from sparksplit.comparison.comparison_record import ComparedRun, DivergedRun, Place
from sparksplit.comparison.content import Deciding, MetricRange, Target
from sparksplit.comparison.plan import SINGLE

AnyRun = ComparedRun | DivergedRun
Group = tuple[str, int, bool]
"""(name, nodes, virtual)"""
Groups = Mapping[Group, Sequence[AnyRun]]

BASE: Group = (SINGLE, 1, False)
"""The strategy that all strategies are compared with: one node with the comparison's own keys."""
ALL_RUNS = "all runs"
REFERENCE = "`single` on seeds of its own"
_TARGET = 0.95
"""The default target, as a share of the way from `single`'s first value to its best value on the validation rows."""


def grouped(records: Sequence[AnyRun]) -> dict[Group, list[AnyRun]]:
    """Group runs by strategy and number of nodes. Real nodes come first, then fewer nodes."""
    groups: dict[Group, list[AnyRun]] = {}
    for record in records:
        groups.setdefault((record.name, record.nodes, record.virtual), []).append(record)
    return dict(sorted(groups.items(), key=lambda item: (item[0][2], item[0][1])))


def finished(members: Sequence[AnyRun]) -> list[ComparedRun]:
    """Return the runs that did not diverge."""
    return [member for member in members if isinstance(member, ComparedRun) and member.diverged is None]


def value_of(record: ComparedRun, metric: Deciding) -> float:
    """Return the metric on the test rows; without test rows, on the validation rows at the end. Raise ValueError if it
    is not finite."""
    value = _final(record, metric)
    if value is None:
        raise ValueError(f"{record.key} has no finite {metric.name}")
    return value


def _final(record: ComparedRun, metric: Deciding) -> float | None:
    if metric.split == "test":
        return record.metrics.test[metric.name]
    return (record.metrics.validation or {})[metric.name][-1]


def judged(record: AnyRun, metric: Deciding) -> AnyRun:
    """Return the record, marked as diverged if its metric is not finite at the end."""
    if isinstance(record, DivergedRun) or _final(record, metric) is not None:
        return record
    return replace(record, diverged=f"its {metric.name} is not finite at the end")


def on_one_node(group: Group, groups: Groups) -> list[Group]:
    """Return the groups on one node, besides `single`, that a strategy on several real nodes is compared with.

    The strategy's own controls are among them. Groups with a diverged run are left out.
    """
    _, nodes, virtual = group
    if nodes == 1 or virtual:
        return []
    on_one = [other for other in groups if other[1:] == (1, False) and other != BASE]
    return [other for other in on_one if len(finished(groups[other])) == len(groups[other])]


# Places.


def main_place(records: Sequence[AnyRun]) -> Place | None:
    """Return the place that holds the times of most runs on real nodes, the first of equal places; None if unknown."""
    known = [run.place for run in finished(records) if not run.virtual and run.place is not None]

    def held(place: Place) -> int:
        return sum(place.holds(other) for other in known)

    return max(dict.fromkeys(known), key=held, default=None)


def timed(members: Sequence[AnyRun], place: Place | None) -> list[ComparedRun]:
    """Return the finished runs on real nodes whose times may be compared, as times of `place`."""
    return [member for member in finished(members) if not member.virtual and member.is_timed_in(place)]


def training_seconds(record: ComparedRun) -> float:
    """Seconds of training, including exchanges and waiting for rows; without start, compiling and validation."""
    return record.history[-1].seconds if record.history else 0.0


# The target.


def grid(groups: Groups) -> list[int]:
    """Return the passes after which every finished run on real nodes was validated. Without real nodes, runs on virtual
    nodes count."""
    runs = [member for members in groups.values() for member in finished(members)]
    real = [run for run in runs if not run.virtual]
    points = [{point.passes for point in run.history if point.validation is not None} for run in real or runs]
    return sorted(set.intersection(*points)) if points else []


def _curve(record: ComparedRun, name: str, passes: Collection[int] | None) -> Iterator[tuple[int, float, float]]:
    """Yield (passes, seconds, value) on the validation rows. passes: the passes to look at; None: all."""
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
    """Return the target; None if no run was validated. given: the configured target. references: the finished
    references. passes: the grid."""
    name = metric.name
    every = [member for members in groups.values() for member in finished(members)]
    runs = references or every
    # The first value of a run counts, even if the grid begins later.
    ends = [([value for *_, value in _curve(run, name, None)], _best(run, metric, passes)) for run in runs]
    pairs = [(curve[0], best) for curve, best in ends if curve and best is not None]
    if not pairs:
        return None
    if given is not None:
        return Target(name, given, "configuration")
    begin, best = fmean(pair[0] for pair in pairs), fmean(pair[1] for pair in pairs)
    # Not rounded: a target just past the best value would never be reached.
    value = begin + _TARGET * (best - begin)
    return Target(name, min(value, best) if best > begin else max(value, best), REFERENCE if references else ALL_RUNS)


def _best(record: ComparedRun, metric: Deciding, passes: Collection[int]) -> float | None:
    values = [value for *_, value in _curve(record, metric.name, passes)]
    return (max(values) if metric.higher_is_better else min(values)) if values else None


def reached(
    record: ComparedRun, target: Target, higher: bool, passes: Collection[int] | None = None
) -> tuple[float, float] | None:
    """Return (passes, seconds) after which the run was first seen to reach the target on the validation rows; None if
    it did not. passes: the passes to look at; None: all."""
    for after, seconds, value in _curve(record, target.metric, passes):
        if value >= target.value if higher else value <= target.value:
            return after, seconds
    return None


def median(values: Sequence[float]) -> float | None:
    """Return the median of values that may be infinite; None if the median is infinite, or without values."""
    middle = statistics.median(values) if values else math.inf
    return middle if math.isfinite(middle) else None


# The metric's range.


def range_of(references: Sequence[ComparedRun], groups: Groups, metric: Deciding) -> MetricRange | None:
    """Return the range that differences of the metric are measured by; None if unknown.

    references: the finished references, which give the range. Without them, the range is from the worst first value to
    the best last value of all runs, on the validation rows. The range of an untrained model would be larger.
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
