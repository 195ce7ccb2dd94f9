"""What it would take to decide what is not: seeds, and the time of their runs, or rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import TypeGuard

from scipy import special

from sparksplit.comparison.analysis.frontier import goal_of
from sparksplit.comparison.analysis.verdicts import NOT_WORSE, UNDECIDED, Errors, rows_to_decide, seeds_to_decide
from sparksplit.comparison.content import Metric, Pair, Results, TimePair
from sparksplit.comparison.intervals import LEVEL
from sparksplit.comparison.numbers import count, duration

MOST_SEEDS = MOST_ROWS = 1000
"""More seeds are not counted up, nor more times as many rows."""
_FIRST = 5
"""Seeds to begin with, where one tells nothing about chance."""


def to_decide(results: Results, pairs: Sequence[Pair | None], times: Sequence[TimePair | None]) -> str:
    """What it would take to decide what is not of these differences, if they stay as they are. None: for one that no
    two runs of the same seed tell."""
    seeds = len(results.seeds)
    if seeds < 2:
        return (
            f"One seed tells nothing about chance: that takes more, such as `seeds: {_FIRST}`"
            f"{_in_time(results, _FIRST - seeds)}."
        )
    goal = goal_of(results.table)
    questions = sum(not pair.virtual for pair in results.pairs) + sum(pair.what == goal for pair in results.times)
    metric = results.metric
    of_rows: list[float | None] = []
    numbers: list[int | None] = []
    for pair in pairs:
        if pair is None or pair.low is None or pair.verdict not in (UNDECIDED, NOT_WORSE):
            continue
        if takes_rows(pair, metric):
            of_rows.append(
                rows_to_decide(errors_of(pair, questions), gap_of(pair, metric), metric.resolution or 0.0, MOST_ROWS)
            )
        else:
            numbers.append(seeds_to_decide(errors_of(pair, questions), gap_of(pair, metric), MOST_SEEDS))
    numbers += [_seeds_for(speed, questions) for speed in times if _is_open(speed)]
    parts = [f"{more_rows(of_rows, results)}, whatever the number of seeds"] if of_rows else []
    if any(one is None or one.seeds < 2 for one in (*pairs, *times)):
        parts.append("runs of the same seeds that finish, and are timed where most were")
    known = [number for number in numbers if number is not None]
    if numbers and len(known) < len(numbers):
        parts.append(f"more than {count(MOST_SEEDS)} seeds, so near are they")
    elif known:
        most = max(known)
        parts.append(f"about {count(most)} seeds (`max_seeds: {most}`){_in_time(results, most - seeds)}")
    return f"It would take {' and '.join(parts)}."


def _is_open(speed: TimePair | None) -> TypeGuard[TimePair]:
    return speed is not None and speed.seeds > 1 and speed.verdict == UNDECIDED


def _seeds_for(speed: TimePair, questions: int) -> int | None:
    """How many seeds would decide which of two times is shorter; None for too many."""
    if speed.low is None or speed.high is None:
        return None
    reach = (log(speed.high) - log(speed.low)) / 2
    error = reach / float(special.stdtrit(speed.seeds - 1, (1 + LEVEL) / 2))
    return seeds_to_decide(Errors(error, 0.0, speed.seeds, questions), abs(log(speed.times)), MOST_SEEDS)


def _in_time(results: Results, seeds: int) -> str:
    """How long the runs of so many more seeds would take, by those that there are."""
    here = sum(run.seconds.total for run in results.runs)
    return f", about {duration(seeds * here / len(results.seeds))} more" if here else ""


def gap_of(pair: Pair, metric: Metric) -> float:
    """How far a difference's mean is from what is to be ruled out first: that there is none, or that it is worse by
    the margin; where this is ruled out already, that it is better by the margin."""
    gain = (1 if metric.higher_is_better else -1) * pair.mean
    return max(abs(gain), metric.margin + (-gain if pair.verdict == NOT_WORSE else gain))


def takes_rows(pair: Pair, metric: Metric) -> bool:
    """Whether no number of seeds decides a difference if its mean stays as it is: it can be told on more rows only."""
    of_rows = float(special.ndtri((1 + LEVEL) / 2)) * (pair.rows_error or 0.0)
    return pair.low is not None and gap_of(pair, metric) <= max(of_rows, metric.resolution or 0.0)


def errors_of(pair: Pair, questions: int) -> Errors:
    """What the error of a difference with an interval is made of."""
    assert pair.low is not None and pair.high is not None
    of_rows = pair.rows_error or 0.0
    reach = (pair.high - pair.low) / 2
    error = reach / float(special.stdtrit(pair.seeds - 1, (1 + LEVEL) / 2)) if pair.error is None else pair.error
    return Errors(sqrt(max(0.0, error**2 - of_rows**2)), of_rows, pair.seeds, questions)


def more_rows(times: Sequence[float | None], results: Results) -> str:
    """How many rows would decide. times: as many times as there are, for each difference; None where more seeds are
    needed, too, or too many."""
    split = results.metric.split
    known = [each for each in times if each is not None]
    there = results.data.rows.get(split)
    if len(known) < len(times) or there is None:
        return f"more {split} rows, and perhaps more seeds"
    return f"about {_round(max(known) * there)} {split} rows, where there are {count(there)}"


def _round(value: float) -> str:
    """To two digits, since it is about so many."""
    return count(float(f"{value:.1e}"))
