"""What is said about tuning: what was chosen, what is doubtful about it, what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sparksplit.comparison.numbers import Quantity, compact, count, duration
from sparksplit.comparison.record import ComparedRun
from sparksplit.comparison.tuning.choice import node_seconds
from sparksplit.comparison.tuning.record import TunedWay, Tuning
from sparksplit.comparison.tuning.tries import name_of


def of_way(way: TunedWay, tuning: Tuning) -> str:
    """Which values a way has, and whether others should be tried."""
    quantity = Quantity(tuning.metric)
    who = where(way)
    also = f" (and {', '.join(way.also)})" if way.also else ""
    if way.chosen is None:
        return f"{who}{also} keeps the values that were given: all {len(way.tries)} tries diverged."
    best = way.tries[way.chosen]
    return (
        f"{who}{also} has {values(best.values)}: {quantity.label} {quantity.value(best.metric)} of the validation "
        f"rows{_others(way, quantity)}{_beyond(way)}."
    )


def doubts(tuning: Tuning) -> Iterator[str]:
    """For which ways other values should be tried."""
    edges = [f"{where(way)} ({' and '.join(edges_of(way))})" for way in tuning.ways if way.edges]
    if edges:
        yield (
            f"A better value may lie beyond the best that was tried, for {'; '.join(edges)}: "
            f"{_remedy(way for way in tuning.ways if way.edges)}."
        )
    lost = [where(way) for way in tuning.ways if way.chosen is None]
    if lost:
        yield f"All tries diverged, so that the values that were given are kept, for {'; '.join(lost)}."


def where(way: TunedWay) -> str:
    """Such as `epoch` on 4 virtual."""
    return f"`{way.way}` on {way.nodes}{' virtual' if way.virtual else ''}"


def values(own: Mapping[str, float]) -> str:
    """Such as `learning rate 0.1, H 32`."""
    return ", ".join(f"{name_of(key)} {compact(value)}" for key, value in own.items())


def _others(way: TunedWay, quantity: Quantity) -> str:
    """How much there was to choose: what the others came to."""
    known = [one.metric for place, one in enumerate(way.tries) if one.metric is not None and place != way.chosen]
    lost = sum(one.metric is None for one in way.tries)
    parts = []
    if known:
        parts.append(f"the others {quantity.value(min(known))} to {quantity.value(max(known))}")
    if lost:
        parts.append(f"{lost} diverged")
    return f" ({', '.join(parts)})" if parts else ""


def _beyond(way: TunedWay) -> str:
    if not way.edges:
        return ""
    return f"; a better value may lie beyond {' and '.join(edges_of(way))}: {_remedy([way])}"


def edges_of(way: TunedWay) -> list[str]:
    """Of which keys the best is the lowest or the highest value that was tried, and what was left of the range. Such
    as `learning rate 5.62, the highest tried of a range up to 10` and `H 128, the end of its range`."""
    best = {} if way.chosen is None else way.tries[way.chosen].values
    found = []
    for key in way.edges:
        side, end, is_end = _edge(way, key)
        which = "the end of its range" if is_end else f"the {side} tried of a range {_towards(side)} {compact(end)}"
        found.append(f"{name_of(key)} {compact(best[key])}, {which}")
    return found


def _towards(side: str) -> str:
    return "up to" if side == "highest" else "down to"


def _edge(way: TunedWay, key: str) -> tuple[str, float, bool]:
    """(lowest or highest, that end of the range, whether the best value is that end)"""
    assert way.chosen is not None
    best = way.tries[way.chosen].values[key]
    low, high = way.ranges[key]
    side, end = ("lowest", low) if best == min(one.values[key] for one in way.tries) else ("highest", high)
    return side, end, compact(best) == compact(end)


def _remedy(ways: Iterable[TunedWay]) -> str:
    """What finds a better value if there is one: within the range, or beyond it."""
    used_up = {_edge(way, key)[2] for way in ways for key in way.edges}
    if used_up == {True}:
        return "give a wider range in `tune.keys`"
    return "try more values (`tune.tries`), or give a wider range in `tune.keys`"


def cost(tuning: Tuning, compared: Sequence[ComparedRun] = ()) -> str:
    """What tuning took. compared: the finished runs of the comparison, to set it beside."""
    lost = f", without {count(tuning.diverged)} that diverged" if tuning.diverged else ""
    beside = f"; the runs that are compared took {duration(node_seconds(compared))}" if compared else ""
    return (
        f"Tuning took {count(tuning.runs)} runs on {'seeds' if len(tuning.seeds) > 1 else 'a seed'} of their own, "
        f"{count(tuning.passes)} passes and {duration(tuning.node_seconds)} of node time{lost}{beside}."
    )
