"""How good predictions are, from sums that several processes count and one adds up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

BINS = 8192
"""Bins of a histogram of log(p / (1 - p)): rare classes have most of their scores near 0, where bins of p itself would
not tell them apart."""
LINEAR = 4.0
"""Up to about this much log(p / (1 - p)) bins are equally wide; further from 0 they widen in proportion."""
ODDS = 1000.0
"""The outermost bins hold whatever is beyond this much log(p / (1 - p))."""
REACH = math.asinh(ODDS / LINEAR)
PER_UNIT = BINS / (2 * REACH)


def bins_of(odds: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The bin of each log(p / (1 - p)), ascending: int64 of the same shape."""
    places = (np.arcsinh(np.clip(odds, -ODDS, ODDS) / LINEAR) + REACH) * PER_UNIT
    bins: npt.NDArray[np.int64] = np.minimum(places, BINS - 1).astype(np.int64)
    return bins


def floors(dtype: Any) -> tuple[float, float]:
    """What a probability that was rounded to 0, and 1 less one that was rounded to 1, count as in floats of `dtype`:
    the least normal one, and half a step below 1."""
    kind = np.finfo(dtype)
    return float(kind.tiny), float(kind.epsneg) / 2


def auc(negatives: Sequence[float] | F64, positives: Sequence[float] | F64) -> tuple[float, float]:
    """(the area under the ROC curve, how far it may be from that of the scores themselves), from the histograms of the
    scores of rows without and with the class. NaN where there are none of either.

    It is the share of pairs of such rows in which the one with the class has the higher score. Two of the same bin
    count half, so the area is off by half of their share at most.
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
    """precision, recall and f1: of two classes the second one's, otherwise their means over the classes that occur
    among labels or predictions. A share of nothing is 0, as in scikit-learn.

    right, labelled, predicted: rows of each class that have it and were predicted to have it, have it, were predicted
    to.
    """
    hits, has, said = (np.asarray(counts, np.float64) for counts in (right, labelled, predicted))
    chosen = np.array([1]) if len(hits) == 2 else np.flatnonzero(has + said)
    hits, has, said = hits[chosen], has[chosen], said[chosen]
    shares = {"precision": _shares(hits, said), "recall": _shares(hits, has), "f1": _shares(2 * hits, has + said)}
    return {name: float(each.mean()) if len(each) else float("nan") for name, each in shares.items()}


def r2(squared: Sequence[float] | F64, deviations: Sequence[float] | F64) -> float:
    """The share of the labels' variance that predictions explain, the mean over a row's numbers; as in scikit-learn 0
    for numbers that are all the same, and 1 if these are predicted exactly.

    squared, deviations: by number, the sums of squares of its errors, and of its distances from its mean.
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
