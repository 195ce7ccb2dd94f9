"""What is decided, of many differences at once, and how much of the chance of being wrong each look may spend.

All differences that the answer uses are one family. Of everything that is called better, worse, faster or slower, all
is right in 95 of 100 comparisons; and so is, by itself, all that is called no difference or not worse. Holm's procedure
sees to that: the clearest difference is judged as if all others were chance, the next one as if one fewer were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from sparksplit.comparison.analysis.estimates import Estimate
from sparksplit.comparison.intervals import LEVEL

Numbers = npt.NDArray[Any]
BETTER, WORSE, SAME, NOT_WORSE, UNDECIDED = "better", "worse", "no difference", "not worse", "undecided"
GOOD = (BETTER, SAME, NOT_WORSE)
"""The verdicts under which a strategy may take the other's place."""


@dataclass(frozen=True)
class Question:
    """What a difference is, where above 0 is better. margin: what lies within it counts as none; None: it is not asked
    whether there is none. estimate: None where there are too few seeds."""

    estimate: Estimate | None
    margin: float | None = None


def holm(chances: Sequence[float], level: float) -> list[bool]:
    """Which of the hypotheses with these p-values are refused, so that any true one is with a probability of `level` at
    most (Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979)."""
    refused = [False] * len(chances)
    for rank, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        if chances[place] > level / (len(chances) - rank):
            break
        refused[place] = True
    return refused


def verdicts(questions: Sequence[Question], level: float = 1 - LEVEL) -> list[str]:
    """What is decided about each. level: the chance that something of it is wrong, half of it in each direction."""
    above, below = ([_chance(one, 0.0, up) for one in questions] for up in (True, False))
    asked = [one.margin is not None for one in questions]
    better, worse = holm(above, level / 2), holm(below, level / 2)
    not_worse, not_better = (_within(questions, asked, up, level / 2) for up in (True, False))
    found = []
    for place in range(len(questions)):
        if not_worse[place] and not_better[place]:
            found.append(SAME)
        elif better[place] != worse[place]:
            found.append(BETTER if better[place] else WORSE)
        else:
            found.append(NOT_WORSE if not_worse[place] else UNDECIDED)
    return found


def _within(questions: Sequence[Question], asked: Sequence[bool], up: bool, level: float) -> list[bool]:
    """Which differences are decided to be above minus the margin, or not `up`: below the margin."""
    places = [place for place, is_asked in enumerate(asked) if is_asked]
    chances = [_chance(questions[place], -(questions[place].margin or 0.0) * (1 if up else -1), up) for place in places]
    refused = dict(zip(places, holm(chances, level), strict=True))
    return [refused.get(place, False) for place in range(len(questions))]


def _chance(question: Question, value: float, up: bool) -> float:
    if question.estimate is None:
        return 1.0
    return question.estimate.p_above(value) if up else question.estimate.p_below(value)


@dataclass(frozen=True)
class Errors:
    """What the standard error of a mean difference is made of: of_seeds, over `seeds` of them, and of_rows; questions:
    how many differences are judged together, each for its part of the 5 %."""

    of_seeds: float
    of_rows: float
    seeds: int
    questions: int

    def reaches(self, seeds: Numbers, rows: Numbers) -> Numbers:
        """How far intervals would reach to each side with these numbers of seeds, and so many times as many rows, if
        both spread as they do. The error of rows counts as known: there are many lanes."""
        level = 1 - (1 - LEVEL) / 2 / self.questions
        of_seeds = special.stdtrit(seeds - 1, level) * self.of_seeds * np.sqrt(self.seeds / seeds)
        found: Numbers = np.hypot(of_seeds, special.ndtri(level) * self.of_rows / np.sqrt(rows))
        return found


def seeds_to_decide(errors: Errors, gap: float, most: int) -> int | None:
    """How many seeds would decide a difference that those there are have not, if its mean stays as it is; None for more
    than `most`. gap: how far the mean is from what is to be ruled out."""
    more = np.arange(errors.seeds + 1, most + 1)
    enough = more[errors.reaches(more, np.ones(len(more))) < gap]
    return int(enough[0]) if len(enough) and errors.of_seeds > 0 else None


def rows_to_decide(errors: Errors, gap: float, step: float, most: int) -> float | None:
    """How many times as many rows would decide it with as many seeds; None for more than `most` times. step: the least
    that can differ on the rows there are."""
    more = np.geomspace(1, most, 1000)
    enough = more[(errors.reaches(np.full(len(more), errors.seeds), more) < gap) & (step / more < gap)]
    return float(enough[0]) if len(enough) else None


# Looks: how often one may look, and what each costs.


def looks(seeds: int, most: int | None) -> list[int]:
    """The numbers of seeds at which a comparison looks whether all is decided: twice as many each time, to `most`."""
    found = [seeds]
    while most is not None and found[-1] < most:
        found.append(min(most, 2 * found[-1]))
    return found


def level_at(planned: Sequence[int], seeds: int) -> float:
    """The chance of being wrong that the look at `seeds` seeds may spend, of the 5 % that all planned ones have.

    In proportion to the seeds that came since the look before (Kim and DeMets, "Design and Analysis of Group Sequential
    Tests Based on the Type I Error Spending Rate Function", 1987, with a power of 1). Each look spends its part as if
    it were alone: the sum over the looks bounds the whole, whatever the distribution.
    """
    ended = [look for look in planned if look <= seeds]
    if not ended:
        return 0.0
    before = ended[-2] if len(ended) > 1 else 0
    return (1 - LEVEL) * (ended[-1] - before) / planned[-1]
