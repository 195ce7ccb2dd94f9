"""How sure an answer is: what is decided, after which looks, and what it would take to decide the rest."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.comparison.analysis.frontier import goal_of
from sparksplit.comparison.analysis.verdicts import UNDECIDED
from sparksplit.comparison.content import Results
from sparksplit.comparison.content_table import Pair
from sparksplit.comparison.needed import more_rows, more_seeds, needs, takes_rows
from sparksplit.comparison.numbers import Quantity, count

_WHY = {
    "windows": "windows over time are no independent sample",
    "text": "sequences of a text are no independent sample",
    "features": "rows that `cut.by: features` keeps together are no independent sample",
    "key": "rows that `cut.by: key` keeps together are no independent sample",
    "time": "rows that are cut by time are no independent sample",
}
"""Why nothing is known of how far rows are chance, by what the manifest says about them."""


def certainty(results: Results, quantity: Quantity) -> str:
    """In sentences."""
    metric, seeds = results.metric, len(results.seeds)
    where = f"{quantity.label} of the {metric.split} rows"
    if metric.split != "test":
        where += " (there are no test rows; the target comes from them too)"
    if seeds < 2:
        return (
            f"One seed for each strategy ({where}): no interval can be told, so no difference is decided, in quality "
            "or in time. Five seeds (`seeds: 5`) decide most."
        )
    margin = quantity.difference(metric.margin).lstrip("+")
    pairs = [pair for pair in results.pairs if not pair.virtual]
    goal = goal_of(results.table)
    times = [pair for pair in results.times if pair.what == goal]
    decided = sum(verdict != UNDECIDED for verdict in (*(p.verdict for p in pairs), *(t.verdict for t in times)))
    lost = sum(row.diverged for row in results.table if not row.virtual)
    left = f", less {count(lost)} that diverged" if lost else ""
    step = metric.resolution
    least = quantity.difference(step).lstrip("+")
    seen = step and set(least) & set("123456789")  # that of an AUC may be too small to be shown
    wide = f", and reach at least {least}, the least that can differ, to each side" if seen else ""
    return (
        f"{seeds} seeds for each strategy, the same for all{left}; differences in {where}, and in the logarithm of "
        f"time, are paired, with 95 % intervals{wide}.{_of_rows(results, pairs)} In quality they count as none only "
        f"where the whole interval lies within {margin}. {decided} of {len(pairs) + len(times)} differences are "
        "decided, all together: in 95 of 100 such comparisons nothing is called better, worse, faster or slower that "
        f"is not.{_looked(results)}{_needed(pairs, results)}"
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
    learnt = [pair.verdict for pair in results.pairs if not pair.virtual and not takes_rows(pair, results.metric)]
    return [*learnt, *(pair.verdict for pair in results.times if pair.what == goal)].count(UNDECIDED)


def _of_rows(results: Results, pairs: Sequence[Pair]) -> str:
    """For which rows the intervals hold."""
    told = [pair for pair in pairs if pair.low is not None]
    alone = sum(pair.rows_error is None for pair in told)
    rows = f"{results.metric.split} rows"
    if not told:
        return ""
    if not alone:
        return f" Those in quality hold for other rows of the same kind, too: the {rows} count as a sample."
    some = "" if alone == len(told) else f", in {count(alone)} of {count(len(told))} differences,"
    why = _WHY.get(results.data.dependent or "", "how far rows are chance is not known for this metric")
    return f" Those in quality{some} are over the seeds alone, and hold for these very {rows}: {why}."


def _needed(pairs: Sequence[Pair], results: Results) -> str:
    """What would decide the differences in quality that are not, if they stay as they are, and what would not."""
    need = needs(results, [pair for pair in pairs if pair.verdict == UNDECIDED], [])
    text = ""
    if need.rows:
        text += (
            f" More seeds alone would not decide {count(len(need.rows))} of the undecided differences in quality, if "
            f"means stay as they are: that takes {more_rows(need.rows, results)}, or a larger `margin`."
        )
    for many, what in (
        (need.same, "the same with every seed, which tells nothing about chance"),
        (need.unpaired, "told by one seed alone"),
    ):
        if many:
            text += f" {count(many)} of the undecided {'is' if many == 1 else 'are'} {what}."
    if need.seeds:
        whose = "the others" if need.rows or need.same or need.unpaired else "all strategies"
        text += f" To decide how {whose} learn would take {more_seeds(need.seeds, results)}."
    return text
