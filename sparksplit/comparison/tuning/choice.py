"""Choose the best of the tried values for each strategy, on the validation rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean

from sparksplit.comparison.comparison_record import ComparedRun, DivergedRun
from sparksplit.comparison.content import Deciding
from sparksplit.comparison.plan import Run
from sparksplit.comparison.tuning.space import Values, extremes
from sparksplit.comparison.tuning.tries import Group, Try
from sparksplit.comparison.tuning.tuning_record import Tried, TunedStrategy, Tuning
from sparksplit.training.metric_facts import LOSS

Records = Mapping[str, ComparedRun | DivergedRun]
"""Records by the run's key."""


def tuning(tries: Sequence[Try], records: Records, metric: Deciding, runs: Sequence[Run]) -> Tuning:
    """Return the outcome of `tries`. metric: the metric that decides. runs: the comparison's runs."""
    tuned = [
        _tuned(group, list(of_group), records, metric, runs)
        for group, of_group in groupby(tries, lambda one: one.group)
    ]
    done = [record for record in records.values() if isinstance(record, ComparedRun)]
    return Tuning(
        metric=metric.name,
        tries=len(tuned[0].tries),
        seeds=[run.config.seed for run in tries[0].runs],
        strategies=tuned,
        runs=len(records),
        diverged=len(records) - len(done),
        passes=sum(record.passes for record in done),
        node_seconds=node_seconds(done),
    )


def best(tries: Sequence[Try], found: Tuning) -> dict[Group, Values]:
    """Return the best values of each strategy, except strategies whose tries all diverged."""
    values = {group: [one.values for one in of_group] for group, of_group in groupby(tries, lambda one: one.group)}
    return {
        (tuned.name, tuned.nodes, tuned.virtual): values[tuned.name, tuned.nodes, tuned.virtual][tuned.chosen]
        for tuned in found.strategies
        if tuned.chosen is not None
    }


def node_seconds(records: Sequence[ComparedRun]) -> float:
    """Return the node time in seconds: each run's time from start to end, times its processes. One process plays all
    virtual nodes."""
    return round(sum(run.seconds.total * (1 if run.virtual else run.nodes) for run in records), 1)


def _tuned(
    group: Group, tries: Sequence[Try], records: Records, metric: Deciding, runs: Sequence[Run]
) -> TunedStrategy:
    results = [_tried(one, records, metric.name) for one in tries]
    chosen = choice(results, metric.higher_is_better)
    ranges = tries[0].runs[0].ranges
    others = {run.group for run in runs if run.tuned_as == group and run.group != group}
    return TunedStrategy(
        name=group[0],
        nodes=group[1],
        virtual=group[2],
        ranges={key: [span.low, span.high] for key, span in ranges.items()},
        tries=results,
        chosen=chosen,
        edges=[] if chosen is None else extremes([one.values for one in tries], chosen),
        also=[f"`{name}` on {nodes}" for name, nodes, _ in sorted(others, key=lambda other: other[1])],
    )


def _tried(one: Try, records: Records, metric: str) -> Tried:
    results = [records[run.key] for run in one.runs]
    return Tried(values=dict(one.values), metric=_mean(results, metric), loss=_mean(results, LOSS))


def _mean(records: Sequence[ComparedRun | DivergedRun], metric: str) -> float | None:
    """Return the mean of the metric at the end of the runs; None if it is missing or not finite in a run."""
    values = [
        (record.metrics.validation or {})[metric][-1] if isinstance(record, ComparedRun) else None for record in records
    ]
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def choice(tries: Sequence[Tried], higher_is_better: bool) -> int | None:
    """Return the index of the best try; None if all tries diverged.

    The metric decides. Few rows often make metrics equal: then the lowest loss decides, and then the order.
    """
    sign = -1 if higher_is_better else 1
    places = [place for place, one in enumerate(tries) if one.metric is not None]

    def rank(place: int) -> tuple[float, float]:
        metric, loss = tries[place].metric, tries[place].loss
        return math.inf if metric is None else sign * metric, math.inf if loss is None else loss

    return min(places, key=rank, default=None)
