"""What is said about tuning: a headline, what was chosen, what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparksplit.comparison.numbers import Quantity, compact, count, duration
from sparksplit.comparison.record import ComparedRun
from sparksplit.comparison.tuning.choice import node_seconds
from sparksplit.comparison.tuning.record import TunedWay, Tuning
from sparksplit.comparison.tuning.space import RATE, value_at
from sparksplit.comparison.tuning.tries import name_of


def headline(tuning: Tuning | None, config: Mapping[str, Any]) -> str:
    """Whether the answer is about ways that were tuned. config: the comparison's."""
    if tuning is not None:
        keys = dict.fromkeys(name_of(key) for way in tuning.ways for key in way.ranges)
        what = "learning rates" if len(keys) == 1 else f"tries ({', '.join(keys)})"
        return f"Tuned: each way has the best of {tuning.tries} {what} on its number of nodes, by the validation rows."
    ways = config.get("strategies") or []
    if any(isinstance(way, Mapping) and value_at(way, RATE) is not None for way in ways):
        rates = "the rates as they were given"
    else:
        rate = value_at(config, RATE)
        rates = "one rate for all" + (f" ({compact(rate)})" if isinstance(rate, float) else "")
    return (
        f"Untuned: {rates}. Ways want different rates, so that this answer may be about the rate and not about the "
        "ways; `tune: 8` tries eight for each."
    )


def of_way(way: TunedWay, tuning: Tuning) -> str:
    """Which values a way has, and whether others should be tried."""
    quantity = Quantity(tuning.metric)
    where = _where(way)
    also = f" (and {', '.join(way.also)})" if way.also else ""
    if way.chosen is None:
        return f"{where}{also} keeps the values that were given: all {len(way.tries)} tries diverged."
    best = way.tries[way.chosen]
    return (
        f"{where}{also} has {values(best.values)}: {quantity.label} {quantity.value(best.metric)} of the validation "
        f"rows{_others(way, quantity)}{_edge(way)}."
    )


def doubts(tuning: Tuning) -> Iterator[str]:
    """For which ways other values should be tried."""
    edges = [f"{_where(way)} ({', '.join(map(name_of, way.edges))})" for way in tuning.ways if way.edges]
    if edges:
        yield (
            f"The best lies at the end of what was tried, and a better one may lie beyond, for {'; '.join(edges)}: "
            "give a wider range in `tune.keys`."
        )
    lost = [_where(way) for way in tuning.ways if way.chosen is None]
    if lost:
        yield f"All tries diverged, so that the values that were given are kept, for {'; '.join(lost)}."


def _where(way: TunedWay) -> str:
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


def _edge(way: TunedWay) -> str:
    if not way.edges:
        return ""
    ends = " and ".join(f"{name_of(key)} ({_range(way, key)})" for key in way.edges)
    return f"; the best may lie beyond what was tried of {ends}: give a wider range in `tune.keys`"


def _range(way: TunedWay, key: str) -> str:
    tried = [one.values[key] for one in way.tries]
    return f"{compact(min(tried))} to {compact(max(tried))}"


def cost(tuning: Tuning, compared: Sequence[ComparedRun] = ()) -> str:
    """What tuning took. compared: the finished runs of the comparison, to set it beside."""
    lost = f", without {count(tuning.diverged)} that diverged" if tuning.diverged else ""
    beside = f"; the runs that are compared took {duration(node_seconds(compared))}" if compared else ""
    return (
        f"Tuning took {count(tuning.runs)} runs on {'seeds' if len(tuning.seeds) > 1 else 'a seed'} of their own, "
        f"{count(tuning.passes)} passes and {duration(tuning.node_seconds)} of node time{lost}{beside}."
    )
