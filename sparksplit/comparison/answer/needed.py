"""Estimate the seeds or the rows that would decide an undecided difference, and the time of the runs."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt

from scipy import special

from sparksplit.comparison.analysis.goals import goal_of
from sparksplit.comparison.analysis.verdicts import NOT_WORSE, UNDECIDED, Errors, rows_to_decide, seeds_to_decide
from sparksplit.comparison.answer.content import Question
from sparksplit.comparison.comparison_record import ComparedRun
from sparksplit.comparison.content import Metric, Results
from sparksplit.comparison.content_table import Pair, Row, TimePair
from sparksplit.comparison.intervals import LEVEL
from sparksplit.comparison.plan import REFERENCES

MOST_SEEDS = MOST_ROWS = 1000
"""The largest number of seeds, and the largest multiple of the rows, that is estimated."""
FIRST = 5
"""Seeds to begin with: one seed tells nothing about chance."""


def undecided(results: Results) -> int:
    """Return the number of undecided differences on real nodes that more seeds might decide."""
    goal, asked = goal_of(results.table), [question for question in results.answer.open if question.seeds is not None]
    learnt = [pair.verdict for pair in results.pairs if not pair.virtual and not takes_rows(pair, results.metric)]
    verdicts = [*learnt, *(pair.verdict for pair in results.times if pair.what == goal)]
    return max(len(asked), verdicts.count(UNDECIDED))


def about_speed(results: Results, row: Row, against: str, speed: TimePair | None) -> Question:
    """Return the question whether the row is faster than `against`, with the estimated seeds."""
    ask = Question(name=row.name, nodes=row.nodes, against=against, about="speed")
    if len(results.seeds) < 2 or speed is None or speed.low is None or speed.high is None:
        return _obstructed(results, ask)
    error = _by_interval(log(speed.low), log(speed.high), speed.seeds) if speed.error is None else speed.error
    if error == 0:
        return replace(ask, obstacle="same with every seed")
    return _by_seeds(results, ask, Errors(error, 0.0, speed.seeds, _judged(results)), abs(log(speed.times)))


def about_quality(results: Results, row: Row, against: str, pair: Pair | None) -> Question:
    """Return the question whether the row learns as well as `against`, with the estimated seeds or rows."""
    ask = Question(name=row.name, nodes=row.nodes, against=against, about="quality")
    if len(results.seeds) < 2 or pair is None or pair.low is None:
        return _obstructed(results, ask)
    errors, gap = errors_of(pair, _judged(results)), gap_of(pair, results.metric)
    if errors.of_seeds == 0 and (pair.mean != 0 or errors.of_rows == 0):
        return replace(ask, obstacle="same with every seed")
    if not takes_rows(pair, results.metric):
        return _by_seeds(results, ask, errors, gap)
    times = rows_to_decide(errors, gap, results.metric.resolution or 0.0, MOST_ROWS)
    there = results.data.rows.get(results.metric.split)
    if times is None or there is None:
        return replace(ask, obstacle="too small")
    return replace(ask, rows=int(float(f"{times * there:.1e}")))


def in_time(results: Results, seeds: int) -> float | None:
    """Return the seconds of all runs with `seeds` seeds, without the hyperparameter search. The number of runs on
    virtual nodes does not depend on `seeds`."""
    took = [run for run in (*results.runs, *results.virtual, *results.diverged) if isinstance(run, ComparedRun)]
    real, virtual = (sum(run.seconds.total for run in took if run.virtual == which) for which in (False, True))
    references = sum(run.seconds.total for run in results.references if isinstance(run, ComparedRun))
    there = len(results.seeds)
    more = min(REFERENCES, seeds) / min(REFERENCES, there)
    return real * seeds / there + references * more + virtual if real else None


def gap_of(pair: Pair, metric: Metric) -> float:
    """Return the distance of a difference's mean from the value that must be ruled out first.

    This value is no difference, or worse by the margin, whichever is further away. If the verdict is already not worse,
    better by the margin replaces worse by the margin.
    """
    gain = (1 if metric.higher_is_better else -1) * pair.mean
    return max(abs(gain), metric.margin + (-gain if pair.verdict == NOT_WORSE else gain))


def takes_rows(pair: Pair, metric: Metric) -> bool:
    """Whether no number of seeds decides a difference if its mean stays as it is. Then only more rows can decide it."""
    of_rows = float(special.ndtri((1 + LEVEL) / 2)) * (pair.rows_error or 0.0)
    return pair.low is not None and gap_of(pair, metric) <= max(of_rows, metric.resolution or 0.0)


def errors_of(pair: Pair, questions: int) -> Errors:
    """Return the parts of the error of a difference with an interval. questions: as in Errors."""
    assert pair.low is not None and pair.high is not None
    of_rows = pair.rows_error or 0.0
    error = _by_interval(pair.low, pair.high, pair.seeds) if pair.error is None else pair.error
    return Errors(sqrt(max(0.0, error**2 - of_rows**2)), of_rows, pair.seeds, questions)


def _judged(results: Results) -> int:
    """Return the number of differences that are judged together, including the times to the target and the times in
    all."""
    return sum(not pair.virtual for pair in results.pairs) + len(results.times)


def _obstructed(results: Results, ask: Question) -> Question:
    if len(results.seeds) > 1:
        return replace(ask, obstacle="no pair")
    return replace(ask, seeds=FIRST, seconds=in_time(results, FIRST), obstacle="one seed")


def _by_seeds(results: Results, ask: Question, errors: Errors, gap: float) -> Question:
    """Return `ask` with the estimated seeds. The share of seeds with values for both rows is taken as constant."""
    both = seeds_to_decide(errors, gap, MOST_SEEDS)
    seeds = None if both is None else -(-both * len(results.seeds) // errors.seeds)
    if seeds is None or seeds > MOST_SEEDS:
        return replace(ask, obstacle="too small")
    return replace(ask, seeds=seeds, seconds=in_time(results, seeds))


def _by_interval(low: float, high: float, seeds: int) -> float:
    """Return the standard error from an interval that is not pooled, by Student's t. For results.json without the
    error."""
    return (high - low) / 2 / float(special.stdtrit(seeds - 1, (1 + LEVEL) / 2))
