"""Estimate the seeds or the rows that would decide an undecided difference, and the time of the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log, sqrt
from statistics import fmean

from scipy import special

from sparksplit.base.config import digest
from sparksplit.comparison.analysis.goals import goal_of
from sparksplit.comparison.analysis.verdicts import UNDECIDED, Errors, rows_to_decide, seeds_to_decide
from sparksplit.comparison.answer.content import Question
from sparksplit.comparison.comparison_record import ComparedRun
from sparksplit.comparison.content import Metric, Results
from sparksplit.comparison.content_table import Pair, TimePair
from sparksplit.comparison.intervals import LEVEL
from sparksplit.comparison.plan import REFERENCES, SINGLE
from sparksplit.strategies import STRATEGIES

_OF_NODES = ("strategy", "nodes", "nodes.virtual", "collective")
"""Keys that change no result of a strategy that has the same result on any number of nodes."""
_MOST = 1000
"""The largest number of seeds, and the largest multiple of the rows, that is estimated."""


def undecided(results: Results) -> int:
    """Return the number of undecided differences on real nodes that more seeds might decide. If the answer is decided,
    only those count that could change it."""
    goal, asked = goal_of(results.table), for_seeds(results.answer.open)
    if results.answer.decision in ("use", "stay"):
        return len(asked)
    learnt = [pair.verdict for pair in results.pairs if not pair.virtual and not takes_rows(pair, results.metric)]
    verdicts = [*learnt, *(pair.verdict for pair in results.times if pair.what == goal)]
    return max(len(asked), verdicts.count(UNDECIDED))


def for_seeds(asked: Sequence[Question]) -> list[Question]:
    """Return the questions that more seeds would decide, of the first row that has such a question. A row with a
    question that takes more rows has none."""
    stuck = {(question.name, question.nodes) for question in asked if question.rows}
    some = [one for one in asked if one.seeds is not None and (one.name, one.nodes) not in stuck]
    return [one for one in some if (one.name, one.nodes) == (some[0].name, some[0].nodes)]


def order(question: Question) -> tuple[bool, bool]:
    """The sort key of the questions about a row: what takes rows, what takes seeds, and then what is unknown."""
    return question.rows is None, question.seeds is None


def with_needs(question: Question, one: Pair | TimePair | None, results: Results) -> Question:
    """Return the question about a difference with the seeds or rows that would decide it, if they are known.

    The estimates take means, standard deviations, and the share of seeds with values for both rows as constant. The
    rows that may be recommended share the 5 %. Against another row on one node, speed and quality have half of a row's
    part each.
    """
    # What is enough is asked about where the row is faster seed by seed, but not over all runs.
    if one is None or one.error is None or one.enough:
        return question
    gap, of_rows, step = _parts(one, results.metric)
    others = sum(not row.virtual for row in results.table) - 1
    judged = others / 2 if one.against == SINGLE else others
    errors = Errors(sqrt(max(0.0, one.error**2 - of_rows**2)), of_rows, one.seeds, judged)
    if errors.of_seeds == 0:
        return question
    if takes_rows(one, results.metric):
        rows, times = results.data.rows.get(results.metric.split, 0), rows_to_decide(errors, gap, step, _MOST)
        return replace(question, rows=int(float(f"{times * rows:.1e}"))) if times and rows else question
    seeds = seeds_to_decide(errors, gap, _MOST)
    if seeds is None:
        return replace(question, more_than=_MOST)
    seeds = ceil(seeds * len(results.seeds) / errors.seeds)
    return replace(question, seeds=seeds, seconds=in_time(results, seeds))


def in_time(results: Results, seeds: int) -> float:
    """Return the seconds of all runs with `seeds` seeds, without the hyperparameter search; 0 if unknown. The number of
    runs on virtual nodes does not depend on `seeds`."""
    took = [run for run in (*results.runs, *results.virtual, *results.diverged) if isinstance(run, ComparedRun)]
    real, virtual = (sum(run.seconds.total for run in took if run.virtual == which) for which in (False, True))
    references = sum(run.seconds.total for run in results.references if isinstance(run, ComparedRun))
    there = len(results.seeds)
    more = min(REFERENCES, seeds) / min(REFERENCES, there)
    return real * seeds / there + references * more + virtual if real else 0.0


def in_search(results: Results, tries: int) -> float:
    """Return the seconds of a hyperparameter search with `tries` tries of one seed, as `plan` has it; 0 if unknown. A
    strategy with the same result on any number of nodes is tuned once, on the fewest nodes."""
    once: dict[object, float] = {}
    for row in results.table:  # fewer nodes come first
        some = [run for run in (*results.runs, *results.virtual) if (run.name, run.nodes) == (row.name, row.nodes)]
        took = [run.seconds.total for run in some if run.virtual == row.virtual]
        strategy = STRATEGIES.get(row.strategy or "")
        where = () if strategy and strategy.any_nodes else (row.strategy, row.nodes, row.virtual)
        keys = {key: value for key, value in row.settings.items() if key not in _OF_NODES}
        if took:
            once.setdefault((where, digest(keys)), fmean(took))
    return tries * sum(once.values())


def takes_rows(difference: Pair | TimePair, metric: Metric) -> bool:
    """Whether no number of seeds decides a difference if its mean stays as it is. Then only more rows can decide it."""
    gap, of_rows, step = _parts(difference, metric)
    return difference.low is not None and gap <= max(float(special.ndtri((1 + LEVEL) / 2)) * of_rows, step)


def _parts(difference: Pair | TimePair, metric: Metric) -> tuple[float, float, float]:
    """Return the distance of a difference's mean from the value that must be ruled out first, the rows' part of its
    error, and its smallest step. Times have no rows.

    In time, the value is no difference. In the metric, it is the furthest of those that decide about the row. Against
    `single`, these are worse by the margin, and no difference. Another row on one node must be beaten by more than the
    margin, or be as good or better.
    """
    if isinstance(difference, TimePair):
        return abs(log(difference.times)), 0.0, 0.0
    gain, margin = difference.mean if metric.higher_is_better else -difference.mean, metric.margin
    gap = max(-gain, margin + gain)
    if difference.against != SINGLE and difference.against_nodes == 1:
        gap = max(-gain, margin - abs(gain), gain - margin)
    return gap, difference.rows_error or 0.0, metric.resolution or 0.0
