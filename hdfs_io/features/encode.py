"""Raw columns as stored values, by NumPy and Arrow; `sparksplit.model.raw_inputs` does the same in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hdfs_io.features.siphash import siphash
from hdfs_io.features.spec import HASH_KEY, MISSING, Category, Date, Feature, Number, Text
from hdfs_io.features.times import parsed
from hdfs_io.features.tokens import token_indices, vocabulary_indices

if TYPE_CHECKING:
    from hdfs_io.preprocessing import TensorSpec

Array = npt.NDArray[Any]


def index_dtype(size: int) -> str:
    """The smallest dtype that holds `size` different indices, 0 among them."""
    return "uint8" if size <= 2**8 else "uint16" if size <= 2**16 else "int32"


def index_array(feature: Category | Text, texts: pa.Array) -> Array:
    """The indices of a category or a text, [texts, values], of the smallest dtype that holds them all.

    texts: of strings; null and the empty text are missing.
    """
    texts = texts.cast(pa.string())
    if isinstance(feature, Text):
        indices = token_indices(feature, texts)
    else:
        # There are few different ones, mostly, and each is looked up once.
        found = pc.fill_null(texts, "").dictionary_encode()
        entries = found.dictionary
        if feature.hash is None:
            known = vocabulary_indices(entries, feature.vocabulary)
        else:
            known = (1 + siphash(entries, HASH_KEY) % np.uint64(feature.hash)).astype(np.int32)
        known = np.where(pc.equal(entries, "").to_numpy(zero_copy_only=False), MISSING, known)
        indices = known[found.indices.to_numpy()][:, None]
    return indices.astype(index_dtype(feature.size))


def encoded(feature: Feature, column: pa.Array, dtype: str | None = None) -> Array:
    """The stored values of one raw column, [rows, values].

    column: for a number, numbers or lists of `feature.values` numbers; for a category or a text, strings; for a date,
    strings, days or timestamps. Nulls are missing. dtype: of its stored tensor; left out, numbers keep their own.

    Raises ValueError for a malformed date, with the text.
    """
    if isinstance(feature, Category | Text):
        indices = index_array(feature, column)
        return indices if dtype is None else indices.astype(dtype)
    if isinstance(feature, Date):
        return _dates(feature, column)[:, None]
    return _numbers(feature, column, dtype)


def stored(
    features: Sequence[Feature], tensors: Sequence[TensorSpec], columns: Sequence[pa.Array]
) -> list[npt.NDArray[Any]]:
    """The stored tensors, [rows, *shape] each, of raw columns, one for each feature (see `encoded`)."""
    rows = len(columns[0])
    flat = {spec.name: np.zeros((rows, spec.values), spec.numpy_dtype) for spec in tensors}
    for feature, column in zip(features, columns, strict=True):
        target = flat[feature.tensor]
        target[:, feature.place : feature.place + feature.values] = encoded(feature, column, target.dtype.name)
    return [flat[spec.name].reshape(rows, *spec.shape) for spec in tensors]


def missing_value(dtype: Any) -> Any:
    """What stands for a missing number: NaN, or the least whole number of a signed dtype. Unsigned ones have none."""
    kind = np.dtype(dtype)
    return kind.type(np.nan) if kind.kind == "f" else np.iinfo(kind).min if kind.kind == "i" else None


def is_missing(values: Array) -> npt.NDArray[np.bool_]:
    """Which stored numbers or dates are missing, of `values`'s shape."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    least = missing_value(values.dtype)
    return np.zeros(values.shape, np.bool_) if least is None else values == least


def _dates(feature: Date, column: pa.Array) -> Array:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        values, bad = parsed(column, feature.moment)
        if bad.any():
            first = column[int(np.argmax(bad))].as_py()
            raise ValueError(f"column {feature.column}: {first!r} is no {'moment' if feature.moment else 'day'}")
        return values
    kind = pa.timestamp("us", getattr(column.type, "tz", None)) if feature.moment else pa.date32()
    whole = pa.int64() if feature.moment else pa.int32()
    return _filled(column.cast(kind).cast(whole))


def _numbers(feature: Number, column: pa.Array, dtype: str | None) -> Array:
    rows = len(column)
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type):
        kind = pa.list_(column.type.value_type, feature.values)
        empty = pa.scalar([None] * feature.values, kind)
        column = pc.fill_null(column.cast(kind), empty).flatten() if column.null_count else column.cast(kind).flatten()
    if dtype is not None:
        column = column.cast(pa.from_numpy_dtype(np.dtype(dtype)))
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return _filled(column).reshape(rows, feature.values)


def _filled(column: pa.Array) -> Array:
    """Numbers as they are, with nulls as `missing_value` has them."""
    if not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    least = missing_value(column.type.to_pandas_dtype())
    return np.asarray(pc.fill_null(column, pa.scalar(least, column.type)).to_numpy(zero_copy_only=False))
