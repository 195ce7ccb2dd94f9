"""What graphs make of features, by NumPy: raw columns as stored values, and these as the model's inputs.

The same operations in the same order and float type as in `sparksplit.model`, so that the bits are the same; only log1p
may differ in the last one, since each has its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.feature_spec import NUMBERS, Category, Date, Feature, Number, Text, inputs
from sparksplit.features.decode import Group, circle, distance, part, plan, since
from sparksplit.features.encoding import index_array, missing_value, spelled
from sparksplit.features.times import parsed

Array = npt.NDArray[Any]


def stored(features: Sequence[Feature], tensors: Sequence[TensorSpec], columns: Sequence[pa.Array]) -> list[Array]:
    """The stored tensors, [rows, *shape] each, of raw columns, one for each feature: numbers of their tensor's dtype or
    lists of them, and otherwise strings. Nulls are missing."""
    rows = len(columns[0])
    flat = {spec.name: np.zeros((rows, spec.values), spec.numpy_dtype) for spec in tensors}
    for feature, column in zip(features, columns, strict=True):
        flat[feature.tensor][:, feature.place : feature.place + feature.values] = _stored(feature, column)
    return [flat[spec.name].reshape(rows, *spec.shape) for spec in tensors]


def _stored(feature: Feature, column: pa.Array) -> Array:
    if isinstance(feature, Category | Text):
        return index_array(feature, spelled(feature.type, column) if isinstance(feature, Category) else column)
    if isinstance(feature, Date):
        values, bad = parsed(column, feature.moment, feature.format)
        assert not bad.any()
        return values[:, None]
    numbers = column
    if pa.types.is_list(column.type):
        numbers = pc.fill_null(column, pa.scalar([None] * feature.values, column.type)).flatten()
    least = missing_value(numbers.type.to_pandas_dtype())
    filled = pc.fill_null(numbers, pa.scalar(least, numbers.type)).to_numpy(zero_copy_only=False)
    return np.asarray(filled).reshape(len(column), feature.values)


def decoded(features: Sequence[Feature], tensors: Mapping[str, Array], floats: str = "float32") -> dict[str, Array]:
    """The model's inputs by name, [rows, *shape] as `spec.inputs` says: `numbers` in `floats`, indices in int32.

    tensors: the stored ones by name, [rows, *shape].
    """
    planned = plan(features)
    flat = {name: tensor.reshape(len(tensor), math.prod(tensor.shape[1:])) for name, tensor in tensors.items()}
    pieces = [_decoded_group(group, flat[group.tensor], floats) for group in planned.groups]
    pieces += [_decoded_single(feature, _values(feature, flat), floats) for feature in planned.single]
    found: dict[str, Array] = {}
    if pieces:
        numbers = np.concatenate(pieces, axis=1)
        found[NUMBERS] = numbers if planned.order is None else numbers[:, planned.order]
    shapes = inputs(list(features))
    for feature in planned.own:
        values = _values(feature, flat)
        indices = _bucketed(feature, values) if isinstance(feature, Number) else values.astype(np.int32)
        found[feature.column] = indices.reshape(len(indices), *shapes[feature.column])
    return found


def _values(feature: Feature, flat: Mapping[str, Array]) -> Array:
    return flat[feature.tensor][:, feature.place : feature.place + feature.values]


def _decoded_group(group: Group, flat: Array, floats: str) -> Array:
    stored = flat[:, group.places]
    kind = group.kind(stored.dtype, floats)
    missing = _is_missing(stored)
    values = stored.astype(kind)
    low, high = group.low.astype(kind), group.high.astype(kind)
    values = np.where(values < low, low, values)
    values = np.where(values > high, high, values)
    if group.log1p.any():
        # What has no logarithm is missing.
        missing = missing | (group.log1p & (values <= -1))
        values = np.where(group.log1p, np.log1p(np.where(group.log1p & ~missing, values, 0.0)), values)
    values = np.where(missing, group.impute.astype(kind), values)
    with np.errstate(over="ignore"):
        values = (values - group.offset.astype(kind)) * group.scale.astype(kind)
        indicators = missing[:, group.indicators]
        return np.concatenate([values.astype(floats), indicators.astype(floats)], axis=1)


def _decoded_single(feature: Feature, values: Array, floats: str) -> Array:
    if isinstance(feature, Date):
        return _decoded_date(feature, values[:, 0], floats)
    indices = _bucketed(feature, values) if isinstance(feature, Number) else values
    assert isinstance(feature, Number | Category)
    rows = indices[:, :, None] == np.arange(feature.size)
    found: Array = rows.reshape(len(rows), -1).astype(floats)
    return found


def _bucketed(feature: Number, values: Array) -> npt.NDArray[np.int32]:
    missing = _is_missing(values)
    known = np.where(missing, 0.0, values.astype(np.float64))
    places = np.searchsorted(np.array(feature.buckets, np.float64), known, side="right")
    return np.where(missing, 0, places + 1).astype(np.int32)


def _decoded_date(feature: Date, values: Array, floats: str) -> Array:
    missing = _is_missing(values)
    whole = np.where(missing, 0, values.astype(np.int64))
    columns = [circle(name)[part(name, feature.moment, whole)].astype(floats) for name in feature.parts]
    if feature.since is not None:
        offset, scale = distance(feature)
        days = ((whole - since(feature)).astype(np.float64) - offset) * scale
        columns.append(days.astype(floats)[:, None])
    shown = [np.where(missing[:, None], np.dtype(floats).type(0), column) for column in columns]
    return np.concatenate([*shown, missing[:, None].astype(floats)], axis=1)


def _is_missing(values: Array) -> npt.NDArray[np.bool_]:
    """Which stored numbers or dates are missing, of `values`'s shape."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    least = missing_value(values.dtype)
    return np.zeros(values.shape, np.bool_) if least is None else values == least
