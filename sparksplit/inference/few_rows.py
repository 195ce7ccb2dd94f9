"""Predicts a few raw rows of a pandas frame in this process, with the parsing and encoding of `predict`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from sparksplit.base.errors import InputError, did_you_mean
from sparksplit.dataset.description import Description, TensorSpec
from sparksplit.dataset.feature_spec import Date, Feature
from sparksplit.dataset.lane_files import ROW_ID
from sparksplit.features.encoder import encoder_of
from sparksplit.features.table import WHOLE, table_like
from sparksplit.inference.tasks import SplitRows, predict
from sparksplit.inference.trained import Array, TrainedModel, load
from sparksplit.inference.writer import Columns
from sparksplit.prepare.tables.numbers import numbers
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
    if description.features:
        return _of_table(frame, description)
    tensors = description.model_tensors
    unnamed = tensors[0].columns is None and tensors[0].column is None
    if description.windows is not None or len(tensors) != 1 or unnamed:
        takes = ", ".join(f"{tensor.name}: {tensor.dtype} {tensor.shape}" for tensor in tensors)
        raise InputError(
            f"{_PLACE}: the model takes {takes}, not columns of numbers or texts. Use sparksplit.predict, or the "
            "saved_model in the run's folder"
        )
    fitted = description.preprocessing.tensors.get(tensors[0].name)
    gaps = fitted is not None and fitted.impute is not None
    of_columns = _of_numbers if tensors[0].column is None else _of_array
    return {tensors[0].name: of_columns(frame, tensors[0], gaps)}


def _of_table(frame: pd.DataFrame, description: Description) -> dict[str, Array]:
    features = description.features
    given = [_as_fitted(feature, _column(frame, feature.column)) for feature in features]
    types = {feature.column: _type(feature, column) for feature, column in zip(features, given, strict=True)}
    table = table_like(description, types, _PLACE)
    reader = TableReader(table, ("",), typed=True)
    columns = [_as_taken(feature, column) for feature, column in zip(features, given, strict=True)]
    parsed = reader(columns, len(frame))
    if parsed.wrong.any():
        row, place = (int(number) for number in np.argwhere(parsed.wrong)[0])
        said, _ = reader.problem(place, columns[place][row].as_py())
        raise InputError(f"{_PLACE}: row {frame.index[row]}: column {features[place].column!r}: {said}")
    tensors = {spec.name: tensor for spec, tensor in zip(table.tensors, parsed.tensors, strict=True)}
    return {**tensors, **encoder_of(table, table.tensors, {}).indexed(parsed.texts)}


def _of_numbers(frame: pd.DataFrame, spec: TensorSpec, gaps: bool) -> Array:
    """Return the columns as a single tensor [rows, *shape]. gaps: whether the model fills missing values."""
    values = []
    for name in spec.columns or []:
        column = _number(_column(frame, name))
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise InputError(f"{_PLACE}: column {name!r} is {column.type}, but must be numbers")
        array, wrong = numbers(column, spec.numpy_dtype, gaps, True)
        if wrong.any():
            row = int(wrong.argmax())
            value = column[row].as_py()
            missing = "has a missing value, and the model has no value to fill it with"
            said = f"holds {value}, which is not {spec.dtype}" if value is not None else missing
            raise InputError(f"{_PLACE}: row {frame.index[row]}: column {name!r} {said}")
        values.append(array)
    return np.column_stack(values).reshape(-1, *spec.shape)


def _of_array(frame: pd.DataFrame, spec: TensorSpec, gaps: bool) -> Array:
    """Return a column of arrays or vectors as a single tensor [rows, *shape]. gaps: as in `_of_numbers`."""
    assert spec.column is not None
    column = _column(frame, spec.column)
    if pa.types.is_null(column.type):
        column = column.cast(pa.list_(pa.float64()))
    kind = column.type
    if not pa.types.is_list(kind) or not (
        pa.types.is_integer(kind.value_type)
        or pa.types.is_floating(kind.value_type)
        or pa.types.is_boolean(kind.value_type)
    ):
        raise InputError(f"{_PLACE}: column {spec.column!r} is {kind}, but must be arrays of numbers")
    lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
    fits = lengths == spec.values
    values = np.full((len(column), spec.values), np.nan if gaps else 0, spec.numpy_dtype)
    wrong = ~fits & (lengths >= 0) if gaps else ~fits  # a null array: all its values are missing
    good, bad = numbers(_number(column.filter(pa.array(fits)).flatten()), spec.numpy_dtype, gaps, True)
    values[fits] = good.reshape(-1, spec.values)
    wrong[fits] = bad.reshape(-1, spec.values).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        shown = f"holds {column[row].as_py()}, which is not {spec.values} values of {spec.dtype}"
        raise InputError(f"{_PLACE}: row {frame.index[row]}: column {spec.column!r} {shown}")
    return values.reshape(-1, *spec.shape)


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
        return str(from_arrow_type(_signed(column).type).simpleString())
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
    if pa.types.is_null(column.type):
        return column.cast(pa.float64())
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else _signed(column)


def _signed(column: pa.Array) -> pa.Array:
    """Return unsigned whole numbers as int64, because Spark has no unsigned types."""
    return column.cast(pa.int64()) if pa.types.is_unsigned_integer(column.type) else column
