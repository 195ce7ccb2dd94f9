"""The lines of the table: a line for each strategy on each number of nodes."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import fmean

from sparksplit.comparison.analysis.runs import (
    BASE,
    Group,
    Groups,
    finished,
    median,
    on_one_node,
    reached,
    timed,
    training_seconds,
    value_of,
)
from sparksplit.comparison.comparison_record import ComparedRun, Place
from sparksplit.comparison.content import Deciding, Target
from sparksplit.comparison.content_table import Interval, Row, ToTarget
from sparksplit.comparison.intervals import interval


def row(
    group: Group,
    groups: Groups,
    metric: Deciding,
    target: Target | None,
    passes: Collection[int],
    place: Place | None,
) -> Row:
    """A line of the table. passes: the grid. place: where times must have been measured to count."""
    name, nodes, virtual = group
    members = groups[group]
    done, here, alone = finished(members), timed(members, place), timed(groups.get(BASE, []), place)
    first = done[0] if done else None
    values = interval([value_of(member, metric) for member in done], metric.resolution) if done else (None, None, None)
    seconds, low, high = geometric(list(map(training_seconds, here)))
    base, _, _ = geometric(list(map(training_seconds, alone)))
    return Row(
        name=name,
        nodes=nodes,
        virtual=virtual,
        runs=len(done),
        diverged=len(members) - len(done),
        timed=len(here),
        hosts=len(set(first.hosts)) if first else None,
        strategy=first.strategy if first else None,
        passes=first.passes if first else None,
        updates=first.updates if first else None,
        syncs=first.syncs if first else None,
        bytes_per_node=fmean(member.sync_bytes_per_node for member in done) if done else None,
        seconds=seconds,
        rows_per_second=first.passes * first.rows / max(seconds, 1e-9) if first and seconds is not None else None,
        efficiency=base / (nodes * seconds) if base is not None and seconds else None,
        to_target=None if target is None or not done else _to_target(members, metric, target, passes, place),
        time=_times(here) if here else None,
        metric=Interval(*values),
        controls=[control[0] for control in on_one_node(group, groups)],
        seconds_low=low,
        seconds_high=high,
        handoff=fmean(handed) if (handed := [run.handoff.seconds for run in here if run.handoff]) else None,
    )


def geometric(seconds: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the geometric mean of seconds, and its 95 % confidence interval; (None, None, None) without seconds.

    The speed-ups are geometric means of ratios, so they are the ratios of these means if both rows have the same seeds.
    The interval is unknown if a value is 0, or for fewer than two different values: equal values show only that the
    seeds made no difference.
    """
    if not seconds:
        return None, None, None
    least = min(seconds)
    if least <= 0 or least == max(seconds):
        return max(0.0, least), None, None
    mean, low, high = (None if end is None else math.exp(end) for end in interval(list(map(math.log, seconds))))
    return mean, low, high


def _to_target(
    members: Sequence[object], metric: Deciding, target: Target, passes: Collection[int], place: Place | None
) -> ToTarget:
    done = [member for member in members if isinstance(member, ComparedRun) and member.diverged is None]
    hits = [reached(member, target, metric.higher_is_better, passes) for member in done]
    lost = [math.inf] * (len(members) - len(done))
    here = [member.is_timed_in(place) and not member.virtual for member in done]
    reached_by = sum(hit is not None for hit in hits)
    found = [hit[1] for hit, is_here in zip(hits, here, strict=True) if is_here and hit is not None]
    seconds, low, high = geometric(found if reached_by == len(members) else [])
    return ToTarget(
        seconds=seconds,
        passes=median([*(math.inf if hit is None else hit[0] for hit in hits), *lost]),
        reached=reached_by,
        of=len(members),
        low=low,
        high=high,
    )


def _times(members: Sequence[ComparedRun]) -> dict[str, float]:
    """Return the mean seconds of the runs, by activity."""

    def mean(name: str) -> float:
        return fmean(getattr(member.seconds, name) for member in members)

    sync, waiting = mean("sync"), mean("waiting")
    return {
        "reading": mean("feed"),
        "hand-off": fmean(member.seconds.handoff or 0.0 for member in members),
        "compute": max(0.0, mean("train") - sync),
        "waiting": waiting,
        "synchronising": max(0.0, sync - waiting),
        "other": mean("start") + mean("warmup") + mean("validation"),
    }
