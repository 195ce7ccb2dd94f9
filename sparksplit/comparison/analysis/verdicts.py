"""Decide many differences together, and divide the chance of being wrong among the looks.

All differences that the answer uses are one family. In 95 of 100 comparisons, all verdicts better, worse, faster and
slower are right. Separately, all verdicts no difference and not worse are right in 95 of 100 comparisons. Holm's
procedure ensures this: it judges the clearest difference as if all differences were chance, and each further difference
as if one fewer were.
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
"""The verdicts under which a strategy may replace the other strategy."""
_FIRST = 5
"""Seeds to begin with: one seed tells nothing about chance."""
_LAST_LOOK = 1.3
"""Factor on the seeds of a question, for the last of several looks. This look adds half of the seeds, so it may spend
half of the 5 %. Where two rows share these: (2.24 / 1.96)^2 of the normal distribution's quantiles."""


@dataclass(frozen=True)
class Question:
    """A difference to decide; above 0 is better. estimate: None for too few seeds.

    margin: a difference within the margin counts as none. None: the verdicts `no difference` and `not worse` are
    impossible.
    """

    estimate: Estimate | None
    margin: float | None = None


def holm(chances: Sequence[float], level: float) -> list[bool]:
    """Return which of the hypotheses with these p-values are rejected. The chance that a true hypothesis is among them
    is at most `level` (Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979)."""
    refused = [False] * len(chances)
    for rank, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        if chances[place] > level / (len(chances) - rank):
            break
        refused[place] = True
    return refused


def verdicts(questions: Sequence[Question], level: float = 1 - LEVEL) -> list[str]:
    """Return the verdict of each question. level: the chance that any verdict is wrong, half in each direction."""
    above, below = ([_chance(one, 0.0, up) for one in questions] for up in (True, False))
    asked = [one.margin is not None for one in questions]
    better, worse = holm(above, level / 2), holm(below, level / 2)
    not_worse, not_better = (_within(questions, asked, up, level / 2) for up in (True, False))
    answers = []
    for place in range(len(questions)):
        if not_worse[place] and not_better[place]:
            answers.append(SAME)
        elif better[place] != worse[place]:
            answers.append(BETTER if better[place] else WORSE)
        else:
            answers.append(NOT_WORSE if not_worse[place] else UNDECIDED)
    return answers


def _within(questions: Sequence[Question], asked: Sequence[bool], up: bool, level: float) -> list[bool]:
    """Return which differences are decided to be above minus the margin. If not `up`: below the margin."""
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
    """The parts of the standard error of a mean difference: of_seeds, over `seeds` seeds, and of_rows.

    questions: the number of parts into which the 2.5 % on each side is divided. A half: all 5 % are on one side.
    """

    of_seeds: float
    of_rows: float
    seeds: int
    questions: float

    def reaches(self, seeds: Numbers, rows: Numbers) -> Numbers:
        """Return how far intervals would reach to each side, for these numbers of seeds and multiples of the rows.

        The standard deviations are assumed to stay as they are. The error of the rows counts as known, because there
        are many lanes.
        """
        level = 1 - (1 - LEVEL) / 2 / self.questions
        of_seeds = special.stdtrit(seeds - 1, level) * self.of_seeds * np.sqrt(self.seeds / seeds)
        reach: Numbers = np.hypot(of_seeds, special.ndtri(level) * self.of_rows / np.sqrt(rows))
        return reach


def seeds_to_decide(errors: Errors, gap: float, most: int) -> int | None:
    """Return the number of seeds that would decide an undecided difference; None for more than `most`.

    The mean is assumed to stay as it is. gap: the distance of the mean from the value to rule out.
    """
    more = np.arange(errors.seeds + 1, most + 1)
    enough = more[errors.reaches(more, np.ones(len(more))) < gap]
    return int(enough[0]) if len(enough) and errors.of_seeds > 0 else None


def rows_to_decide(errors: Errors, gap: float, step: float, most: int) -> float | None:
    """Return the multiple of the rows that would decide a difference with as many seeds; None for more than `most`.

    gap: as in `seeds_to_decide`. step: the smallest possible difference on the current rows.
    """
    more = np.geomspace(1, most, 1000)
    enough = more[(errors.reaches(np.full(len(more), errors.seeds), more) < gap) & (step / more < gap)]
    return float(enough[0]) if len(enough) else None


# Looks: when a comparison checks its verdicts, and the chance of being wrong at each look.


def looks(seeds: int, most: int | None) -> list[int]:
    """Return the numbers of seeds at which a comparison checks whether its answer is decided. Each is twice the one
    before, up to `most`."""
    numbers = [seeds]
    while most is not None and numbers[-1] < most:
        numbers.append(min(most, 2 * numbers[-1]))
    return numbers


def further_looks(planned: Sequence[int], there: int, wanted: int) -> list[int]:
    """Return the numbers of seeds of the looks to come, each twice the one before. The last look decides what takes
    `wanted` seeds at a single look.

    planned: the looks of the comparison so far. there: the number of seeds so far. After one seed, five are next, and
    then more up to the last planned look.
    """
    if there == 1:
        return looks(_FIRST, planned[-1])
    doubled = (planned[0] * 2**power for power in range(16))
    return [look for look in doubled if max(planned[-1], there) < look < 2 * _LAST_LOOK * wanted]


def level_at(planned: Sequence[int], seeds: int) -> float:
    """Return the chance of being wrong that the look at `seeds` seeds may spend. All planned looks share 5 %.

    Each look gets a part in proportion to the seeds since the look before. This is the error spending of Kim and DeMets
    ("Design and Analysis of Group Sequential Tests Based on the Type I Error Spending Rate Function", 1987) with a
    power of 1. Each look spends its part as if there were no other look. So the sum over the looks bounds the total,
    for any distribution, and whatever makes the comparison stop at a look.
    """
    ended = [look for look in planned if look <= seeds]
    if not ended:
        return 0.0
    before = ended[-2] if len(ended) > 1 else 0
    return (1 - LEVEL) * (ended[-1] - before) / planned[-1]
