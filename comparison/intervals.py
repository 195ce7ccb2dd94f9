"""Means with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

from scipy import stats

LEVEL = 0.95


def interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """(mean, low, high): the mean and its 95 % interval by Student's t; (mean, None, None) of fewer than two values.

    Of values that are differences of pairs it is the paired t-interval (Student, "The Probable Error of a Mean", 1908).
    """
    mean = fmean(values) if values else 0.0
    if len(values) < 2:
        return mean, None, None
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * stdev(values) / sqrt(len(values))
    return mean, mean - half, mean + half
