"""Means with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

from scipy import special

LEVEL = 0.95


def interval(values: Sequence[float], resolution: float | None = None) -> tuple[float, float | None, float | None]:
    """(mean, low, high): the mean and its 95 % interval by Student's t; (mean, None, None) for fewer than two values.

    For differences of pairs it is the paired t-interval (Student, "The Probable Error of a Mean", 1908).
    resolution: the step in which the values are known, such as 1 / rows for a share of rows. Values that were rounded
    to a step can look more alike than they are, or even equal; so their standard deviation counts as at least that of
    rounding, step / sqrt(12) (Sheppard 1898), and the interval reaches at least one step to each side.
    """
    mean = fmean(values) if values else 0.0
    if len(values) < 2:
        return mean, None, None
    step = resolution or 0.0
    deviation = max(stdev(values), step / sqrt(12))
    half = max(step, float(special.stdtrit(len(values) - 1, (1 + LEVEL) / 2)) * deviation / sqrt(len(values)))
    return mean, mean - half, mean + half
