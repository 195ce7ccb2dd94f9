"""Means with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

from scipy import special

LEVEL = 0.95


def interval(values: Sequence[float], resolution: float | None = None) -> tuple[float, float | None, float | None]:
    """Return (mean, low, high): the mean and its 95 % confidence interval by Student's t. For fewer than two values,
    low and high are None.

    For paired differences, the interval is the paired t-interval (Student, "The Probable Error of a Mean", 1908).

    resolution: the step between possible values, such as 1 / rows for a share of rows. Rounded values can look more
    alike than they are. So their standard deviation counts as at least the standard deviation of rounding, step /
    sqrt(12) (Sheppard 1898). The interval reaches at least one step to each side.
    """
    mean = fmean(values) if values else 0.0
    if len(values) < 2:
        return mean, None, None
    step = resolution or 0.0
    deviation = max(stdev(values), step / sqrt(12))
    half = max(step, float(special.stdtrit(len(values) - 1, (1 + LEVEL) / 2)) * deviation / sqrt(len(values)))
    return mean, mean - half, mean + half
