"""How sure an answer is: what is decided, after which looks, and what it would take to decide the rest."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.comparison.analysis.frontier import goal_of
from sparksplit.comparison.analysis.verdicts import seeds_to_decide
from sparksplit.comparison.content import Metric, Pair, Results
from sparksplit.comparison.numbers import Quantity, count

_MOST_SEEDS = 1000
"""More are not counted up."""


def certainty(results: Results, quantity: Quantity) -> str:
    """In sentences."""
    metric, seeds = results.metric, len(results.seeds)
    where = f"{quantity.label} of the {metric.split} rows"
    if metric.split != "test":
        where += " (there are no test rows; the target comes from them too)"
    if seeds < 2:
        return (
            f"One seed for each way ({where}): no interval can be told, so no difference is decided, in quality or in "
            "time. Five seeds (`seeds: 5`) decide most."
        )
    margin = quantity.difference(metric.margin).lstrip("+")
    pairs = [pair for pair in results.pairs if not pair.virtual]
    goal = goal_of(results.table)
    times = [pair for pair in results.times if pair.what == goal]
    decided = sum(verdict != "undecided" for verdict in (*(p.verdict for p in pairs), *(t.verdict for t in times)))
    lost = sum(row.diverged for row in results.table if not row.virtual)
    left = f", less {count(lost)} that diverged" if lost else ""
    step = metric.resolution
    least = quantity.difference(step).lstrip("+")
    wide = f", and reach at least {least}, the least that can differ, to each side" if step else ""
    return (
        f"{seeds} seeds for each way, the same for all{left}; differences in {where}, and in the logarithm of time, "
        f"are paired, with 95 % intervals{wide}. In quality they count as none only where the whole interval lies "
        f"within {margin}. {decided} of {len(pairs) + len(times)} differences are decided, all together: in 95 of 100 "
        f"such comparisons nothing is called better, worse, faster or slower that is not.{_looked(results)}"
        f"{_needed(pairs, metric, len(pairs) + len(times))}"
    )


def _looked(results: Results) -> str:
    """That there were several looks, each of which has a part of the chance of being wrong."""
    if len(results.looks) < 2:
        return ""
    return (
        f" It was to be looked after {', '.join(map(str, results.looks))} seeds, until all is decided: verdicts are "
        f"those of the look after {len(results.seeds)}, for its part of the chance of being wrong."
    )


def undecided(results: Results) -> int:
    """How many of the differences on nodes at hand are not decided, and might be with more seeds."""
    goal = goal_of(results.table)
    learnt = [pair.verdict for pair in results.pairs if not pair.virtual and not _takes_rows(pair, results.metric)]
    return [*learnt, *(pair.verdict for pair in results.times if pair.what == goal)].count("undecided")


def _gap(pair: Pair, metric: Metric) -> float:
    """How far a difference's mean is from what is to be ruled out first."""
    return max(abs(pair.mean), metric.margin + (1 if metric.higher_is_better else -1) * pair.mean)


def _takes_rows(pair: Pair, metric: Metric) -> bool:
    """Whether no number of seeds decides a difference if its mean stays as it is: it can be told on more rows only."""
    return pair.low is not None and _gap(pair, metric) <= (metric.resolution or 0.0)


def _needed(pairs: Sequence[Pair], metric: Metric, questions: int) -> str:
    """How many seeds would decide what is not, if the differences stay as they are; and what no number of them would.

    questions: how many differences are judged together.
    """
    step = metric.resolution or 0.0
    found: list[int | None] = []
    never = 0
    for pair in pairs:
        if pair.verdict != "undecided" or pair.low is None or pair.high is None:
            continue
        if _takes_rows(pair, metric):
            never += 1
        else:
            reach = (pair.high - pair.low) / 2
            found.append(seeds_to_decide(reach, _gap(pair, metric), pair.seeds, questions, _MOST_SEEDS))
    text = ""
    if found:
        numbers = [number for number in found if number is not None]
        some = f"about {count(max(numbers))}" if len(numbers) == len(found) else f"more than {count(_MOST_SEEDS)}"
        text = f" It would take {some} seeds to decide how {'the others' if never else 'all ways'} learn (`max_seeds`)."
    if never:
        least = Quantity(metric.name).difference(step).lstrip("+")
        text = (
            f" {count(never)} of the undecided no number of seeds decides if their means stay as they are, within "
            f"{least}, the least that can differ: that takes more {metric.split} rows, or a larger `margin`.{text}"
        )
    return text
