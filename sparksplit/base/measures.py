"""Prediction metrics from counts and sums that several processes collect and one process adds up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

BINS = 8192
"""Number of histogram bins of log(p / (1 - p)). Scores of rare classes are mostly near 0, where bins of p would not
separate them.
"""
LINEAR = 4.0
"""Up to about this absolute log(p / (1 - p)), bins have equal width. Further from 0, the width grows in proportion."""
ODDS = 1000.0
"""The outermost bins hold all values with a larger absolute log(p / (1 - p))."""
REACH = math.asinh(ODDS / LINEAR)
PER_UNIT = BINS / (2 * REACH)


def bins_of(odds: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the bin of each log(p / (1 - p)), ascending: int64 of the same shape."""
    places = (np.arcsinh(np.clip(odds, -ODDS, ODDS) / LINEAR) + REACH) * PER_UNIT
    bins: npt.NDArray[np.int64] = np.minimum(places, BINS - 1).astype(np.int64)
    return bins


def floors(dtype: Any) -> tuple[float, float]:
    """Return the values used for a probability that was rounded to 0, and for 1 - p of a probability that was rounded
    to 1.

    They are the smallest normal float of `dtype`, and half a step below 1.
    """
    kind = np.finfo(dtype)
    return float(kind.tiny), float(kind.epsneg) / 2


def auc(negatives: Sequence[float] | F64, positives: Sequence[float] | F64) -> tuple[float, float]:
    """Return the area under the ROC curve and its largest possible error, from two histograms of scores: rows without
    the class and rows with the class. NaN if either histogram is empty.

    The area is the fraction of pairs of such rows in which the row with the class has the higher score. Two rows in one
    bin count half, so the error is at most half the fraction of such pairs.
    """
    below, above = np.asarray(negatives, np.float64), np.asarray(positives, np.float64)
    pairs = below.sum() * above.sum()
    if not pairs:
        return float("nan"), float("nan")
    same = float((below * above).sum()) / 2
    return float(((np.cumsum(below) - below) * above).sum() + same) / pairs, same / pairs


def of_classes(
    right: Sequence[float] | F64, labelled: Sequence[float] | F64, predicted: Sequence[float] | F64
) -> dict[str, float]:
    """Return precision, recall and f1. For two classes: of the second class. Otherwise: the mean over the classes that
    occur among labels or predictions. A fraction with denominator 0 is 0, as in scikit-learn. Without rows: NaN.

    right: by class, rows that have the class and were predicted to have it.
    labelled: by class, rows that have the class.
    predicted: by class, rows that were predicted to have the class.
    """
    hits, has, said = (np.asarray(counts, np.float64) for counts in (right, labelled, predicted))
    chosen = np.flatnonzero(has + said)
    if len(hits) == 2 and len(chosen):
        chosen = np.array([1])
    hits, has, said = hits[chosen], has[chosen], said[chosen]
    shares = {"precision": _shares(hits, said), "recall": _shares(hits, has), "f1": _shares(2 * hits, has + said)}
    return {name: float(each.mean()) if len(each) else float("nan") for name, each in shares.items()}


def r2(squared: Sequence[float] | F64, deviations: Sequence[float] | F64) -> float:
    """Return the fraction of the labels' variance that the predictions explain, as the mean over a row's numbers.

    As in scikit-learn, a constant number gives 0, or 1 if it is predicted exactly. squared, deviations: by number, the
    sum of squared errors, and the sum of squared distances from the mean.
    """
    if not len(squared):
        return float("nan")
    errors, spread = np.asarray(squared, np.float64), np.asarray(deviations, np.float64)
    constant = np.where(errors > 0, 0.0, 1.0)
    with np.errstate(invalid="ignore"):
        each = np.where(spread > 0, 1 - errors / np.where(spread > 0, spread, 1.0), constant)
    return float(each.mean())


def _shares(part: F64, whole: F64) -> F64:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
