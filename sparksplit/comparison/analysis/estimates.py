"""Mean differences with their errors, paired by seed and by row.

A few seeds estimate a strategy's own standard deviation badly. So strategies that are compared with one strategy share
their standard deviation, unless a test shows that the standard deviations differ.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

import numpy as np
from scipy import optimize, special

from sparksplit.comparison.analysis.sampling import RowsError
from sparksplit.comparison.intervals import LEVEL

Key = TypeVar("Key", bound=Hashable)
_ALIKE = 0.25
"""Standard deviations count as equal if the p-value of their test is above this. A preliminary test must not miss much
(Bancroft, "On Biases in Estimation Due to the Use of Preliminary Tests of Significance", 1944, and later work)."""
_REPEATS = 0.01
"""If a strategy's differences spread less than this share of the median spread, it repeats the other's results."""

_SMALLEST = 1e-9
"""The smallest p-value that is computed."""

_ROUNDING = 1e-5
"""Relative difference below which values count as equal, because metrics have seven digits (float32)."""


@dataclass(frozen=True)
class Rows:
    """The part of a mean's standard error that comes from the choice of the rows, with its degrees of freedom."""

    error: float
    freedom: float


@dataclass(frozen=True)
class Estimate:
    """A mean of paired differences. error: its standard error over the seeds. freedom: the degrees of freedom of
    `error`.

    least: the least reach of an interval to each side. seeds: the number of seeds. pooled: whether strategies share the
    standard deviation. rows: the rows' part of the error; None if it is left out.
    """

    mean: float
    error: float
    freedom: float
    least: float
    seeds: int
    pooled: bool = False
    rows: Rows | None = None

    @property
    def whole_error(self) -> float:
        """The standard error, including the rows' part."""
        return math.hypot(self.error, self.rows.error if self.rows else 0.0)

    def reach(self, level: float = LEVEL) -> float:
        """Return how far the confidence interval of this level reaches to each side."""
        return max(self.least, self._reach((1 - level) / 2))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return (low, high) of the confidence interval of this level."""
        reach = self.reach(level)
        return self.mean - reach, self.mean + reach

    def p_above(self, value: float) -> float:
        """Return the one-sided p-value: the chance of a mean this far above `value` if the true mean is `value`.

        It is 1 within `least`. It is also 1 if all differences are equal and not 0. Equal differences show that the
        seeds made no difference. They do not show how sure the difference is.
        """
        above = self.mean - value
        if above <= self.least or (self.error == 0 and self.mean != 0):
            return 1.0
        if self.rows is None or self.rows.error == 0:
            return float(special.stdtr(self.freedom, -above / self.error)) if self.error else 0.0
        if self._reach(_SMALLEST) <= above:
            return _SMALLEST
        return float(optimize.brentq(lambda p: self._reach(p) - above, _SMALLEST, 0.5, xtol=1e-12, rtol=1e-6))

    def p_below(self, value: float) -> float:
        """Return the one-sided p-value: the chance of a mean this far below `value` if the true mean is `value`. See
        `p_above`."""
        return self.turned().p_above(-value)

    def turned(self) -> Estimate:
        """The estimate of the difference with the other sign."""
        return replace(self, mean=-self.mean)

    def _reach(self, p: float) -> float:
        """Return the distance from the truth that the mean exceeds on one side with probability `p`.

        Student's t gives the distance for the seeds, and for the rows. Both are combined by the root of the sum of
        their squares (Howe, "Approximate Confidence Limits on the Mean of X + Y Where X and Y Are Two Tabled
        Independent Random Variables", 1974).

        A single t with Satterthwaite's degrees of freedom is too narrow if a few seeds lie close together by chance. At
        p = 0.001, which Holm's procedure needs, it is wrong twice as often as it promises.
        """
        of_seeds = float(special.stdtrit(self.freedom, 1 - p)) * self.error
        of_rows = float(special.stdtrit(self.rows.freedom, 1 - p)) * self.rows.error if self.rows else 0.0
        return math.hypot(of_seeds, of_rows)


def estimates(
    differences: Mapping[Key, Mapping[int, float]],
    resolution: float | None = None,
    rows: Mapping[Key, RowsError | None] | None = None,
) -> dict[Key, Estimate | None]:
    """Return the means of differences by seed, all from one other strategy; None for fewer than two seeds.

    resolution: the step between possible values, as in `interval`. rows: the rows' part of the error, if known.
    """
    step = resolution or 0.0
    shared = _shared({key: by_seed for key, by_seed in differences.items() if len(by_seed) > 1})
    made: dict[Key, Estimate | None] = {}
    for key, by_seed in differences.items():
        values, seeds = list(by_seed.values()), len(by_seed)
        if seeds < 2:
            made[key] = None
            continue
        own_variance = _variance(values)
        variance, freedom = shared.get(key, (own_variance, float(seeds - 1)))
        error = math.sqrt(max(variance, step**2 / 12) / seeds)
        more = (rows or {}).get(key)
        of_rows = Rows(math.sqrt(more.variance), more.freedom) if more else None
        made[key] = Estimate(fmean(values), error, freedom, step, seeds, key in shared, of_rows)
    return made


def _shared(differences: Mapping[Key, Mapping[int, float]]) -> dict[Key, tuple[float, float]]:
    """Return (variance, degrees of freedom) of the strategies that share a variance. Other strategies have no entry.

    Strategies share a variance if they have all seeds, do not repeat the other strategy's results, and pass the test
    together.
    """
    most = max((len(by_seed) for by_seed in differences.values()), default=0)
    spreads = {key: math.sqrt(_variance(list(by_seed.values()))) for key, by_seed in differences.items()}
    typical = float(np.median(list(spreads.values()))) if spreads else 0.0
    keys = [key for key, by_seed in differences.items() if len(by_seed) == most and spreads[key] > _REPEATS * typical]
    if most < 3 or len(keys) < 2 or alike([spreads[key] ** 2 for key in keys], most - 1) <= _ALIKE:
        return {}
    variance = fmean(spreads[key] ** 2 for key in keys)
    freedom = _freedom([list(differences[key].values()) for key in keys])
    return dict.fromkeys(keys, (variance, freedom))


def _variance(values: Sequence[float]) -> float:
    """Return the variance; 0 if the values are equal up to the rounding of the metrics that they come from."""
    is_equal = max(values) - min(values) <= _ROUNDING * max(map(abs, values))
    return 0.0 if is_equal else float(np.var(values, ddof=1))


def alike(variances: Sequence[float], freedom: int) -> float:
    """Return the p-value of Bartlett's test that these variances come from equal ones ("Properties of Sufficiency and
    Statistical Tests", 1937). freedom: the degrees of freedom of each variance. All variances must be above 0."""
    many = len(variances)
    spread = many * math.log(fmean(variances)) - math.fsum(map(math.log, variances))
    correction = 1 + (many + 1) / (3 * many * freedom)
    return float(special.chdtrc(many - 1, max(0.0, freedom * spread / correction)))


def _freedom(rows: Sequence[Sequence[float]]) -> float:
    """Return the degrees of freedom of the mean of the variances of `rows`.

    All values are differences from one set of runs, so the variances are not independent. The covariance of two
    variances is the variance of equal ones times the squared correlation. The variance of the mean gives its degrees of
    freedom (Satterthwaite, "An Approximate Distribution of Estimates of Variance Components", 1946).
    """
    many, each = len(rows), len(rows[0]) - 1
    squares = np.corrcoef(np.array(rows)) ** 2
    between = float((squares.sum() - many) / (many * (many - 1)))
    return each * many / (1 + (many - 1) * min(1.0, max(0.0, between)))
