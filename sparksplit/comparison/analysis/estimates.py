"""Mean differences with their errors: paired by seed and by row, with a spread between seeds that strategies share
where that holds.

A few seeds tell a strategy's own spread badly. The differences of several strategies from the same other one are
therefore taken to spread alike, unless a test says otherwise.
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
"""Spreads count as alike where their test's p is above this: a preliminary test must not miss much (Bancroft, "On
Biases in Estimation Due to the Use of Preliminary Tests of Significance", 1944, and those who followed him)."""
_REPEATS = 0.01
"""A strategy whose differences spread less than this share of the others' median repeats the other's results."""

_SMALLEST = 1e-9
"""The p below which it does not matter how small it is."""

_ROUNDING = 1e-5
"""Differences that differ by less than this share of themselves are equal: metrics have seven digits (float32)."""


@dataclass(frozen=True)
class Rows:
    """The part of a mean's standard error that comes of which rows there are, and its degrees of freedom."""

    error: float
    freedom: float


@dataclass(frozen=True)
class Estimate:
    """A mean of paired differences. error: its standard error over the seeds; freedom: degrees of freedom of that.
    least: an interval reaches at least so far to each side. seeds: how many. pooled: whether the spread is shared with
    other strategies'. rows: None where what the rows add to the error is left out."""

    mean: float
    error: float
    freedom: float
    least: float
    seeds: int
    pooled: bool = False
    rows: Rows | None = None

    @property
    def whole_error(self) -> float:
        """The standard error, with what the rows add."""
        return math.hypot(self.error, self.rows.error if self.rows else 0.0)

    def reach(self, level: float = LEVEL) -> float:
        """How far the interval that holds the truth with probability `level` reaches to each side."""
        return max(self.least, self._reach((1 - level) / 2))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """(low, high)"""
        reach = self.reach(level)
        return self.mean - reach, self.mean + reach

    def p_above(self, value: float) -> float:
        """How probable a mean as far above `value` would be, were the true one `value`; one-sided.

        1 within `least`, and where differences away from 0 are all equal: that says that the seeds made no difference,
        not how sure the difference is.
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
        """How probable a mean as far below `value` would be, were the true mean `value`; one-sided. See `p_above`."""
        return self.turned().p_above(-value)

    def turned(self) -> Estimate:
        """The estimate of the difference with the other sign."""
        return replace(self, mean=-self.mean)

    def _reach(self, p: float) -> float:
        """How far from the truth the mean is on one side with probability `p`: by Student's t for the seeds, the same
        for the rows, and the root of the sum of their squares for both (Howe, "Approximate Confidence Limits on the
        Mean of X + Y Where X and Y Are Two Tabled Independent Random Variables", 1974).

        A t of all, with the degrees of freedom that Satterthwaite would give their sum, is too narrow where by chance a
        few seeds lie close together: at p = 0.001, as Holm's procedure asks, twice as often wrong as it says.
        """
        of_seeds = float(special.stdtrit(self.freedom, 1 - p)) * self.error
        of_rows = float(special.stdtrit(self.rows.freedom, 1 - p)) * self.rows.error if self.rows else 0.0
        return math.hypot(of_seeds, of_rows)


def estimates(
    differences: Mapping[Key, Mapping[int, float]],
    resolution: float | None = None,
    rows: Mapping[Key, RowsError | None] | None = None,
) -> dict[Key, Estimate | None]:
    """The means of differences by seed, all from the same other strategy; None for fewer than two seeds.

    resolution: the step in which the values are known, such as 1 / rows for a share of rows; as in `interval`. rows:
    what the rows add to the error, where it is known.
    """
    step = resolution or 0.0
    shared = _shared({key: found for key, found in differences.items() if len(found) > 1})
    made: dict[Key, Estimate | None] = {}
    for key, by_seed in differences.items():
        values, seeds = list(by_seed.values()), len(by_seed)
        if seeds < 2:
            made[key] = None
            continue
        own = _variance(values)
        variance, freedom = shared.get(key, (own, float(seeds - 1)))
        error = math.sqrt(max(variance, step**2 / 12) / seeds)
        more = (rows or {}).get(key)
        of_rows = Rows(math.sqrt(more.variance), more.freedom) if more else None
        made[key] = Estimate(fmean(values), error, freedom, step, seeds, key in shared, of_rows)
    return made


def _shared(differences: Mapping[Key, Mapping[int, float]]) -> dict[Key, tuple[float, float]]:
    """(variance, degrees of freedom) for the strategies that share one; for the others there is none.

    Those share one that have all seeds, do not repeat the other strategy's results, and pass the test together.
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
    """0 for values that are equal, or would be without the rounding of what they are differences of."""
    is_equal = max(values) - min(values) <= _ROUNDING * max(map(abs, values))
    return 0.0 if is_equal else float(np.var(values, ddof=1))


def alike(variances: Sequence[float], freedom: int) -> float:
    """The p of Bartlett's test that these come from equal ones ("Properties of Sufficiency and Statistical Tests",
    1937). freedom: of each. Variances are above 0."""
    many = len(variances)
    spread = many * math.log(fmean(variances)) - math.fsum(map(math.log, variances))
    correction = 1 + (many + 1) / (3 * many * freedom)
    return float(special.chdtrc(many - 1, max(0.0, freedom * spread / correction)))


def _freedom(rows: Sequence[Sequence[float]]) -> float:
    """Degrees of freedom of the mean of the rows' variances.

    All are differences from the same runs, and so are not independent: the covariance of two variances is that of
    equal ones times the squared correlation, and the mean's variance gives its degrees of freedom (Satterthwaite, "An
    Approximate Distribution of Estimates of Variance Components", 1946).
    """
    many, each = len(rows), len(rows[0]) - 1
    squares = np.corrcoef(np.array(rows)) ** 2
    between = float((squares.sum() - many) / (many * (many - 1)))
    return each * many / (1 + (many - 1) * min(1.0, max(0.0, between)))
