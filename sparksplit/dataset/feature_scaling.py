"""Numbers and dates in the units that they are scaled in (clipped, logarithms, days), and what their statistics say.

Statistics are taken of the stored values in these units; from those of the training split follow a feature's offset,
scale, and what a missing value becomes.
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
    """The features of a stored tensor that statistics are taken of: those whose values are no indices."""
    return [feature for feature in features if isinstance(feature, Number | Date) and feature.tensor == tensor]


def width(features: Sequence[Number | Date]) -> int:
    """How many values they have in a row."""
    return sum(feature.values for feature in features)


def in_units(features: Sequence[Number | Date], rows: npt.NDArray[Any]) -> F64:
    """The values of `measured` features side by side in their units: [n, width], NaN where one is missing.

    rows: of their stored tensor [n, *shape]
    """
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    columns = [(feature, flat[:, feature.place : feature.place + feature.values]) for feature in features]
    return np.concatenate([_units(feature, values) for feature, values in columns], axis=1)


def as_floats(values: npt.NDArray[Any]) -> F64:
    """Stored values as float64, NaN where one is missing: NaN, or the least number of a signed dtype."""
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
    """Numbers clipped and, if it is asked for, as log(1 + x): -inf where that does not exist."""
    if feature.clip is not None:
        values = np.clip(values, *feature.clip)
    if feature.log1p:
        with np.errstate(divide="ignore"):
            values = np.log1p(np.maximum(values, -1.0))
    return values


def by_feature(features: Sequence[Number | Date], moments: Moments) -> dict[str, Moments]:
    """The statistics of each feature's values, by its column. moments: of what `in_units` gives of these features

    Raises InputError, which names the column, where they are not finite.
    """
    found, start = {}, 0
    for feature in features:
        own = found[feature.column] = moments.part(start, start + feature.values)
        start += feature.values
        if isinstance(feature, Number) and feature.log1p and (own.min == -np.inf).any():
            raise InputError(
                f"features.{feature.column}.log1p: log(1 + x) needs values above -1, and the column has smaller ones; "
                "clip them (clip: [0, 1e9])"
            )
        if not np.isfinite([own.mean, own.std]).all():
            # Buckets are of the numbers as they are.
            bare = isinstance(feature, Date) or feature.buckets is not None
            raise InputError(
                f"column {feature.column}: values from {own.min.min():g} to {own.max.max():g} are too large "
                f"for a standard deviation in float64{'' if bare else f'; clip them (features.{feature.column}.clip)'}"
            )
    return found


def scaled(
    feature: Number | Date,
    moments: Moments,
    scale: Scaling,
    impute: Literal["mean", "median"] | float = "mean",
    medians: Sequence[float] = (),
) -> Scaled:
    """How a feature is scaled whose training rows have these `moments` (see `by_feature`), in its units.

    scale: standard: the mean becomes 0, the standard deviation 1; unit: the minimum 0, the maximum 1; a constant is
    only shifted to 0. impute: what a missing number becomes; a number is in raw units. medians: of the raw values of
    each of the feature's places, NaN where all are missing [values]; only where they are asked for

    Raises InputError where there is no log(1 + x) of the number that a missing one becomes.
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
