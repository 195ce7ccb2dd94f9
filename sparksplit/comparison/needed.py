"""What it would take to decide what is not: seeds, and the time of their runs, or rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

from scipy import special

from sparksplit.comparison.analysis.verdicts import NOT_WORSE, UNDECIDED, Errors, rows_to_decide, seeds_to_decide
from sparksplit.comparison.content import Metric, Results
from sparksplit.comparison.content_table import Pair, TimePair
from sparksplit.comparison.intervals import LEVEL
from sparksplit.comparison.numbers import count, duration
from sparksplit.comparison.record import ComparedRun

MOST_SEEDS = MOST_ROWS = 1000
"""More seeds are not counted up, nor more times as many rows."""
FIRST = 5
"""Seeds to begin with, where one tells nothing about chance."""


@dataclass(frozen=True)
class Needs:
    """What it takes to decide differences, if means and spread stay as they are. seeds: how many are to be run, for
    each that takes seeds; None for more than MOST_SEEDS. rows: how many times as many, for each that takes rows; None
    where it takes more seeds, too, or more than MOST_ROWS times. same: how many are the same with every seed, which
    tells nothing about chance. unpaired: how many are told by fewer than two seeds."""

    seeds: list[int | None]
    rows: list[float | None]
    same: int
    unpaired: int


def needs(results: Results, pairs: Sequence[Pair | None], times: Sequence[TimePair | None]) -> Needs:
    """For all of these, which are not decided. None: one that no two runs of the same seed tell."""
    # As many as are judged together: both the times to the target and those in all are.
    questions = sum(not pair.virtual for pair in results.pairs) + len(results.times)
    metric = results.metric
    seeds: list[int | None] = []
    rows: list[float | None] = []
    unpaired = same = 0
    for pair in pairs:
        if pair is None or pair.low is None:
            unpaired += 1
        elif _is_same(errors := errors_of(pair, questions), pair.mean):
            same += 1
        elif takes_rows(pair, metric):
            rows.append(rows_to_decide(errors, gap_of(pair, metric), metric.resolution or 0.0, MOST_ROWS))
        else:
            seeds.append(_seeds(results, errors, gap_of(pair, metric)))
    for speed in times:
        if speed is None or speed.low is None:
            unpaired += 1
        elif (errors := _errors_of_time(speed, questions)).of_seeds == 0:
            same += 1
        else:
            seeds.append(_seeds(results, errors, abs(log(speed.times))))
    return Needs(seeds, rows, same, unpaired)


def to_decide(results: Results, pairs: Sequence[Pair | None], times: Sequence[TimePair | None]) -> str:
    """What it would take to decide what is not of these differences, if they stay as they are. None: for one that no
    two runs of the same seed tell."""
    if len(results.seeds) < 2:
        return (
            f"One seed tells nothing about chance: that takes more, such as `seeds: {FIRST}`{_in_time(results, FIRST)}."
        )
    learnt = [pair for pair in pairs if pair is None or pair.verdict in (UNDECIDED, NOT_WORSE)]
    need = needs(results, learnt, [speed for speed in times if speed is None or speed.verdict == UNDECIDED])
    or_seeds = "" if need.seeds or need.unpaired else ", and perhaps more seeds"
    parts = [more_rows(need.rows, results, or_seeds)] if need.rows else []
    if need.unpaired:
        parts.append("more seeds with which both finish, and are timed where most runs were")
    if need.seeds:
        parts.append(more_seeds(need.seeds, results))
    said = [f"It would take {', and '.join(parts)}."] if parts else []
    if need.same:
        some, them = ("One difference is", "it") if need.same == 1 else (f"{count(need.same)} differences are", "them")
        said.append(
            f"{some} the same with every seed, which tells nothing about chance: no number of seeds decides {them}."
        )
    # Nothing of this is open: what is missing is a control's time to the target.
    return " ".join(said) or "It would take a control that reaches the target in every run."


def more_seeds(numbers: Sequence[int | None], results: Results) -> str:
    """How many seeds would decide, with the time that their runs take; where some differences take more than can be
    told, how many the others take."""
    known = [number for number in numbers if number is not None]
    far = f"more than {count(MOST_SEEDS)} seeds, so small is a difference beside how much it varies"
    if not known:
        return far
    most = max(known)
    text = f"about {count(most)} seeds (`seeds: {most}`){_in_time(results, most)}"
    if len(known) == len(numbers):
        return text
    return f"{text}, for {count(len(known))} of {count(len(numbers))} differences, and for the rest {far}"


def _seeds(results: Results, errors: Errors, gap: float) -> int | None:
    """How many seeds are to be run to decide it, if as large a part of them tells of both strategies as of those there
    are; None for more than MOST_SEEDS."""
    both = seeds_to_decide(errors, gap, MOST_SEEDS)
    number = None if both is None else -(-both * len(results.seeds) // errors.seeds)
    return None if number is None or number > MOST_SEEDS else number


def _is_same(errors: Errors, mean: float) -> bool:
    """Whether a difference in quality is the same with every seed, and so tells nothing about chance. Where it is 0,
    the rows may."""
    return errors.of_seeds == 0 and (mean != 0 or errors.of_rows == 0)


def _in_time(results: Results, seeds: int) -> str:
    """How long the runs of a comparison with so many seeds would take, by those that there are. Those on virtual nodes
    and the references are as many with any number of seeds."""
    took = [run for run in (*results.runs, *results.virtual, *results.diverged) if isinstance(run, ComparedRun)]
    of_seeds = sum(run.seconds.total for run in took if not run.virtual)
    others = [*(run for run in took if run.virtual), *results.references]
    whole = of_seeds * seeds / len(results.seeds)
    whole += sum(run.seconds.total for run in others if isinstance(run, ComparedRun))
    tuned = "" if results.tuning is None else ", without those that tune"
    return f", about {duration(whole)} of runs in all{tuned}" if of_seeds else ""


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
    error = _by_interval(pair.low, pair.high, pair.seeds) if pair.error is None else pair.error
    return Errors(sqrt(max(0.0, error**2 - of_rows**2)), of_rows, pair.seeds, questions)


def _errors_of_time(speed: TimePair, questions: int) -> Errors:
    """What the error of the logarithm of a ratio of times is made of."""
    assert speed.low is not None and speed.high is not None
    error = _by_interval(log(speed.low), log(speed.high), speed.seeds) if speed.error is None else speed.error
    return Errors(error, 0.0, speed.seeds, questions)


def _by_interval(low: float, high: float, seeds: int) -> float:
    """The standard error, where results.json does not have it: by Student's t, of an interval that is not pooled."""
    return (high - low) / 2 / float(special.stdtrit(seeds - 1, (1 + LEVEL) / 2))


def more_rows(times: Sequence[float | None], results: Results, or_seeds: str = ", and perhaps more seeds") -> str:
    """How many rows would decide. times: as many times as there are, for each difference; None where more seeds are
    needed, too, or too many. or_seeds: what is said of these."""
    split = results.metric.split
    known = [each for each in times if each is not None]
    there = results.data.rows.get(split)
    if len(known) < len(times) or there is None:
        return f"more {split} rows{or_seeds}"
    return f"about {_round(max(known) * there)} {split} rows, where there are {count(there)}"


def _round(value: float) -> str:
    """To two digits, since it is about so many."""
    return count(float(f"{value:.1e}"))
