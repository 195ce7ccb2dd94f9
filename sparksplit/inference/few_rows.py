"""Predicts a few raw rows of a pandas frame in this process, with the parsing and encoding of `predict`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from sparksplit.base.errors import InputError, did_you_mean
from sparksplit.dataset.description import Description, TensorSpec
from sparksplit.dataset.feature_spec import Date, Feature
from sparksplit.dataset.lane_files import ROW_ID
from sparksplit.features.encoder import Encoder, encoder_of
from sparksplit.features.table import WHOLE, table_like
from sparksplit.inference.tasks import SplitRows, predict, tensors_of
from sparksplit.inference.trained import Array, TrainedModel, load
from sparksplit.inference.writer import Columns
from sparksplit.prepare.source import BadRow
from sparksplit.prepare.tables.cells import FILLS
from sparksplit.prepare.tables.column_rows import ColumnReader
from sparksplit.prepare.tables.table_rows import TableReader

_PLACE = "the frame"
_ROWS = 4096
"""Number of rows that the model gets at a time."""


def predict_rows(path: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the predictions for the raw rows of `frame`, by the model in the run's folder `path`.

    The result has the index of `frame`, and the columns that `predict` writes, except `row_id`. Raise InputError for a
    missing column, or for a value that the model cannot take.
    """
    trained = TrainedModel.open(path)
    tensors = stored(frame, trained.description)
    columns = Columns(trained.description.label, split=False, keep=())
    model = load(trained, threads=0)
    tables = []
    for start in range(0, max(1, len(frame)), _ROWS):
        rows = np.arange(start, min(start + _ROWS, len(frame)), dtype=np.int64)
        some = {name: tensor[start : start + _ROWS] for name, tensor in tensors.items()}
        predicted = predict(trained, model, SplitRows("", rows, some, None, {}))
        tables.append(columns.table(rows, "", {}, predicted))
    predictions: pd.DataFrame = pa.concat_tables(tables).drop_columns([ROW_ID]).to_pandas()
    return predictions.set_index(frame.index)


def stored(frame: pd.DataFrame, description: Description) -> dict[str, Array]:
    """Return the rows of `frame` as stored tensors, by name. Raise InputError like `predict_rows`."""
    reader, encoder, columns = (_of_table if description.features else _of_tensor)(frame, description)
    found = tensors_of(reader, encoder, columns, len(frame))
    if isinstance(found, BadRow):
        reason = found.reason.replace(FILLS, "; the model has no value to fill it with")
        raise InputError(f"{_PLACE}: row {frame.index[found.row - 1]}: {reason}")
    return found


def _of_table(frame: pd.DataFrame, description: Description) -> tuple[ColumnReader, Encoder, list[pa.Array]]:
    """Return what reads and encodes the features, and their columns."""
    features = description.features
    given = [_as_fitted(feature, _column(frame, feature.column)) for feature in features]
    types = {feature.column: _type(feature, column) for feature, column in zip(features, given, strict=True)}
    table = table_like(description, types, _PLACE)
    names = [feature.column for feature in features]
    reader = _reader(
        names, False, (table.tensors or description.tensors)[0], True, TableReader(table, ("",), typed=True)
    )
    columns = [_as_taken(feature, column) for feature, column in zip(features, given, strict=True)]
    return reader, encoder_of(table, table.tensors, {}), columns


def _of_tensor(frame: pd.DataFrame, description: Description) -> tuple[ColumnReader, Encoder, list[pa.Array]]:
    """Like `_of_table`, for a single tensor: of a column of arrays or vectors, or of columns of numbers."""
    tensors = description.model_tensors
    spec = tensors[0]
    names = spec.columns if spec.column is None else [spec.column]
    if description.windows is not None or len(tensors) != 1 or names is None:
        takes = ", ".join(f"{tensor.name}: {tensor.dtype} {tensor.shape}" for tensor in tensors)
        raise InputError(
            f"{_PLACE}: the model takes {takes}, not columns of numbers or texts. Use sparksplit.predict, or the "
            "saved_model in the run's folder"
        )
    columns = [_numbers(name, _column(frame, name), spec.column is not None) for name in names]
    fitted = description.preprocessing.tensors.get(spec.name)
    gaps = fitted is not None and fitted.impute is not None
    return _reader(names, spec.column is not None, spec, gaps), encoder_of(None, tensors, {}), columns


def _reader(
    names: Sequence[str], array: bool, tensor: TensorSpec, gaps: bool, table: TableReader | None = None
) -> ColumnReader:
    return ColumnReader(_PLACE, names, array, tensor, None, None, 0, gaps, True, table=table)


def _numbers(name: str, column: pa.Array, array: bool) -> pa.Array:
    """Return a column of numbers, or of arrays of numbers. Raise InputError for another type."""
    if pa.types.is_null(column.type):
        return column.cast(pa.list_(pa.float64()) if array else pa.float64())
    kind = column.type.value_type if array and pa.types.is_list(column.type) else column.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not number or array != pa.types.is_list(column.type):
        raise InputError(f"{_PLACE}: column {name!r} is {column.type}, but must be {'arrays of ' * array}numbers")
    return _number(column)


def _plain(value: Any) -> Any:
    """Return a vector of pyspark.ml as an array, and other values unchanged."""
    return value.toArray() if hasattr(value, "toArray") else value


def _column(frame: pd.DataFrame, name: str) -> pa.Array:
    if name not in frame.columns:
        there = ", ".join(map(str, frame.columns))
        hint = did_you_mean(name, [str(other) for other in frame.columns])
        raise InputError(f"{_PLACE}: has no column {name!r}, which the model was trained on; it has {there}{hint}")
    try:
        given = frame[name]
        column = pa.Array.from_pandas(given.map(_plain) if given.dtype == object else given)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"{_PLACE}: column {name!r} has values of several types: {error}") from error
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return column.cast(pa.string()) if pa.types.is_large_string(column.type) else column


def _as_fitted(feature: Feature, column: pa.Array) -> pa.Array:
    """Return days as date32, and whole numbers as int64. Leave a column unchanged if it is neither, or would lose
    values.

    pandas stores days as timestamps at midnight, and whole numbers with a missing value as floats.
    """
    kind, wanted = column.type, None
    if isinstance(feature, Date) and not feature.moment and pa.types.is_timestamp(kind):
        wanted = pa.date32()
    elif feature.type in WHOLE and pa.types.is_floating(kind):
        wanted = pa.int64()
    if wanted is None:
        return column
    other = column.cast(wanted, safe=False)
    return other if other.cast(kind, safe=False).equals(column) else column


def _type(feature: Feature, column: pa.Array) -> str:
    """Return Spark's name of the column's type, or the fitted type if all values are missing."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_type

    if pa.types.is_null(column.type):
        return feature.type
    try:
        return str(from_arrow_type(_signed(column.type)).simpleString())
    except PySparkException as error:
        raise InputError(f"{_PLACE}: column {feature.column!r} is {column.type}, which cannot be a feature") from error


def _as_taken(feature: Feature, column: pa.Array) -> pa.Array:
    """Return a feature's column as Spark hands it over: numbers as numbers, and all other values as text."""
    kind = column.type
    if feature.kind != "number":
        if pa.types.is_floating(kind):  # Arrow writes 1.0 as 1
            return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
        return column.cast(pa.string())
    return column.cast(pa.string()) if pa.types.is_decimal(kind) else _number(column)


def _number(column: pa.Array) -> pa.Array:
    """Return numbers, or lists of numbers, in types that Spark has. Booleans become int8."""
    is_list = pa.types.is_list(column.type)
    kind = column.type.value_type if is_list else column.type
    if pa.types.is_null(kind):
        kind = pa.float64()
    kind = pa.int8() if pa.types.is_boolean(kind) else _signed(kind)
    return column.cast(pa.list_(kind) if is_list else kind)


def _signed(kind: pa.DataType) -> pa.DataType:
    """Return int64 for unsigned whole numbers, because Spark has no unsigned types."""
    return pa.int64() if pa.types.is_unsigned_integer(kind) else kind
