"""The sentences about the hyperparameter search: its edges and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sparksplit.comparison.comparison_record import ComparedRun
from sparksplit.comparison.numbers import compact, count, duration
from sparksplit.comparison.tuning.choice import node_seconds
from sparksplit.comparison.tuning.tries import name_of
from sparksplit.comparison.tuning.tuning_record import TunedStrategy, Tuning


def kept(tuning: Tuning) -> Iterator[str]:
    """Yield a sentence on the strategies that keep their values, because all tries diverged."""
    lost = [
        f"`{tuned.name}` on {tuned.nodes}{' virtual' if tuned.virtual else ''}"
        for tuned in tuning.strategies
        if tuned.chosen is None
    ]
    if lost:
        yield f"All tries diverged, so that the values that were given are kept, for {'; '.join(lost)}."


def edges_of(tuned: TunedStrategy) -> list[str]:
    """Return the keys whose best value is the lowest or the highest tried value, with the end of their range.

    Examples: `learning rate 5.62, the highest tried of a range up to 10` and `H 128, the end of its range`.
    """
    values = {} if tuned.chosen is None else tuned.tries[tuned.chosen].values
    edges = []
    for key in tuned.edges:
        is_low = values[key] == min(one.values[key] for one in tuned.tries)
        best, end = compact(values[key]), compact(tuned.ranges[key][0 if is_low else 1])
        which = "the lowest tried of a range down to" if is_low else "the highest tried of a range up to"
        edges.append(f"{name_of(key)} {best}, {'the end of its range' if best == end else f'{which} {end}'}")
    return edges


def cost(tuning: Tuning, compared: Sequence[ComparedRun] = ()) -> str:
    """Return the cost of the search, in words. compared: the finished runs of the comparison, whose time is added as a
    reference."""
    lost = f", without {count(tuning.diverged)} that diverged" if tuning.diverged else ""
    beside = f"; the runs that are compared took {duration(node_seconds(compared))}" if compared else ""
    return (
        f"Tuning took {count(tuning.runs)} runs on {'seeds' if len(tuning.seeds) > 1 else 'a seed'} of their own, "
        f"{count(tuning.passes)} passes and {duration(tuning.node_seconds)} of node time{lost}{beside}."
    )
