"""Numbers and dates in their scaling units (clipped, logarithms, days), and their statistics.

Statistics are computed from the stored values in these units. The training split's statistics give a feature's offset
and scale, and the replacement of a missing value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sparksplit.base.errors import InputError
from sparksplit.dataset.feature_spec import Date, Feature, Number, Scaled
from sparksplit.dataset.statistics import Moments, numbers, offset_and_scale

F64 = npt.NDArray[np.float64]
Scaling = Literal["none", "unit", "standard"]
_DAY = 86_400_000_000
_EPOCH = date(1970, 1, 1)


def measured(features: Sequence[Feature], tensor: str) -> list[Number | Date]:
    """Return the features of a stored tensor that have statistics: those whose values are not indices."""
    return [feature for feature in features if isinstance(feature, Number | Date) and feature.tensor == tensor]


def width(features: Sequence[Number | Date]) -> int:
    """Return the number of their values in a row."""
    return sum(feature.values for feature in features)


def in_units(features: Sequence[Number | Date], rows: npt.NDArray[Any]) -> F64:
    """Return the values of `measured` features side by side in their units: [n, width], NaN for a missing value.

    rows: of their stored tensor [n, *shape]
    """
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    columns = [(feature, flat[:, feature.place : feature.place + feature.values]) for feature in features]
    return np.concatenate([_units(feature, values) for feature, values in columns], axis=1)


def as_floats(values: npt.NDArray[Any]) -> F64:
    """Return stored values as float64. Missing values become NaN: they are NaN, or the minimum of a signed dtype."""
    floats = values.astype(np.float64)
    if values.dtype.kind == "i":
        floats[values == np.iinfo(values.dtype).min] = np.nan
    return floats


def _units(feature: Number | Date, values: npt.NDArray[Any]) -> F64:
    if isinstance(feature, Number):
        return number_units(feature, as_floats(values))
    since = 0 if feature.since is None else (date.fromisoformat(feature.since) - _EPOCH).days
    if not feature.moment:
        return as_floats(values) - since
    days: F64 = (values.astype(np.int64) - since * _DAY) / _DAY
    return np.where(np.isnan(as_floats(values)), np.nan, days)


def number_units(feature: Number, values: F64) -> F64:
    """Return numbers clipped and, with `log1p`, as log(1 + x): -inf where the logarithm does not exist."""
    if feature.clip is not None:
        values = np.clip(values, *feature.clip)
    if feature.log1p:
        with np.errstate(divide="ignore"):
            values = np.log1p(np.maximum(values, -1.0))
    return values


def by_feature(features: Sequence[Number | Date], moments: Moments) -> dict[str, Moments]:
    """Return the statistics of each feature's values, by column. moments: of the result of `in_units` for these
    features

    Raise InputError, which names the column, if statistics are not finite.
    """
    by_column, start = {}, 0
    for feature in features:
        part = by_column[feature.column] = moments.part(start, start + feature.values)
        start += feature.values
        if isinstance(feature, Number) and feature.log1p and (part.min == -np.inf).any():
            raise InputError(
                f"features.{feature.column}.log1p: log(1 + x) needs values above -1, and the column has smaller ones; "
                "clip them (clip: [0, 1e9])"
            )
        if not np.isfinite([part.mean, part.std]).all():
            # Buckets use the raw numbers.
            bare = isinstance(feature, Date) or feature.buckets is not None
            raise InputError(
                f"column {feature.column}: values from {part.min.min():g} to {part.max.max():g} are too large "
                f"for a standard deviation in float64{'' if bare else f'; clip them (features.{feature.column}.clip)'}"
            )
    return by_column


def scaled(
    feature: Number | Date,
    moments: Moments,
    scale: Scaling,
    impute: Literal["mean", "median"] | float = "mean",
    medians: Sequence[float] = (),
) -> Scaled:
    """Return how a feature is scaled, from the `moments` of its training rows (see `by_feature`), in its units.

    scale: standard: mean 0, standard deviation 1; unit: minimum 0, maximum 1. A constant is only shifted to 0.
    impute: replacement of a missing number; a number is in raw units.
    medians: medians of the raw values of each of the feature's places, NaN if all are missing [values]. Needed only for
        `impute` median.

    Raise InputError if log(1 + x) of the replacement does not exist.
    """
    offset, factor = offset_and_scale(moments.min, moments.max, moments.mean, moments.std, scale)
    offset, factor = (np.broadcast_to(array, (feature.values,)) for array in (offset, factor))
    filling = np.zeros(feature.values)
    if isinstance(feature, Number):
        if impute == "mean":
            filling = moments.mean
        elif impute == "median":
            known = number_units(feature, np.asarray(medians, np.float64))
            filling = np.where(np.isnan(known), 0.0, known)
        else:
            filling = number_units(feature, np.full(feature.values, impute, np.float64))
            if not np.isfinite(filling).all():
                raise InputError(f"features.{feature.column}.impute: must be above -1 with log1p (is {impute})")
    return Scaled(impute=numbers(filling), offset=numbers(offset), scale=numbers(factor))
