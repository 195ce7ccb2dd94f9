"""The sentences about the hyperparameter search: the choice, its doubts and its cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sparksplit.comparison.comparison_record import ComparedRun
from sparksplit.comparison.numbers import compact, count, duration
from sparksplit.comparison.tuning.choice import node_seconds
from sparksplit.comparison.tuning.tries import name_of
from sparksplit.comparison.tuning.tuning_record import TunedStrategy, Tuning


def doubts(tuning: Tuning) -> Iterator[str]:
    """Yield a sentence for each kind of doubt about the chosen values."""
    edges = [f"{where(tuned)} ({' and '.join(edges_of(tuned))})" for tuned in tuning.strategies if tuned.edges]
    if edges:
        yield (
            f"A better value may lie beyond the best that was tried, for {'; '.join(edges)}: "
            f"{_remedy(tuned for tuned in tuning.strategies if tuned.edges)}."
        )
    lost = [where(tuned) for tuned in tuning.strategies if tuned.chosen is None]
    if lost:
        yield f"All tries diverged, so that the values that were given are kept, for {'; '.join(lost)}."


def where(tuned: TunedStrategy) -> str:
    """A strategy and its nodes, such as `epoch` on 4 virtual."""
    return f"`{tuned.name}` on {tuned.nodes}{' virtual' if tuned.virtual else ''}"


def edges_of(tuned: TunedStrategy) -> list[str]:
    """Return the keys whose best value is the lowest or the highest tried value, with the end of their range.

    Examples: `learning rate 5.62, the highest tried of a range up to 10` and `H 128, the end of its range`.
    """
    best = {} if tuned.chosen is None else tuned.tries[tuned.chosen].values
    edges = []
    for key in tuned.edges:
        side, end, is_end = _edge(tuned, key)
        which = "the end of its range" if is_end else f"the {side} tried of a range {_towards(side)} {compact(end)}"
        edges.append(f"{name_of(key)} {compact(best[key])}, {which}")
    return edges


def _towards(side: str) -> str:
    return "up to" if side == "highest" else "down to"


def _edge(tuned: TunedStrategy, key: str) -> tuple[str, float, bool]:
    """(lowest or highest, this end of the range, whether the best value is this end)"""
    assert tuned.chosen is not None
    best = tuned.tries[tuned.chosen].values[key]
    low, high = tuned.ranges[key]
    side, end = ("lowest", low) if best == min(one.values[key] for one in tuned.tries) else ("highest", high)
    return side, end, compact(best) == compact(end)


def _remedy(strategies: Iterable[TunedStrategy]) -> str:
    """Return how to find a better value: within the range, or beyond it."""
    used_up = {_edge(tuned, key)[2] for tuned in strategies for key in tuned.edges}
    if used_up == {True}:
        return "give a wider range in `tune.keys`"
    return "try more values (`tune.tries`), or give a wider range in `tune.keys`"


def cost(tuning: Tuning, compared: Sequence[ComparedRun] = ()) -> str:
    """Return the cost of the search, in words. compared: the finished runs of the comparison, whose time is added as a
    reference."""
    lost = f", without {count(tuning.diverged)} that diverged" if tuning.diverged else ""
    beside = f"; the runs that are compared took {duration(node_seconds(compared))}" if compared else ""
    return (
        f"Tuning took {count(tuning.runs)} runs on {'seeds' if len(tuning.seeds) > 1 else 'a seed'} of their own, "
        f"{count(tuning.passes)} passes and {duration(tuning.node_seconds)} of node time{lost}{beside}."
    )
