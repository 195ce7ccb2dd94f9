"""Raw columns to rows: which columns are features, label, kept, or what a cut goes by, and which rows are bad.

The columns are those of Spark's readers (readers.py), of a program's own DataFrame, or of what a user's function
returns. A row whose numbers might be refused also has the file it came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io.config import DataFrameInput, InputConfig, check_input
from hdfs_io.manifest import SPLITS, SourceFile
from hdfs_io.preprocessing import Description, TensorSpec
from hdfs_io.sources.base import BadRow, ParsedRows, Reader, Source, check_kept, in_trained_order, labelled_like
from hdfs_io.sources.readers import Raw, RawFrame, plain_path
from sparksplit.base.errors import ConfigError, InputError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Bools = npt.NDArray[np.bool_]
_ROW_TEXT = 200
_WHOLE_FLOAT32 = 2.0**24
"""From here on float32 does not have every whole number."""
_PLACE = "column_{}"
"""What a column is called by its position."""
_NUMBERS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")
_WHOLE = _NUMBERS[:5]
_PART, _FILE = "part", "file"


class DataFrameSource(Source):
    """All columns but the label, the kept ones and those that the cut goes by are the features: numbers, or a single
    array of numbers."""

    def __init__(
        self,
        config: InputConfig,
        raw: Raw,
        description: Description | None = None,
        cut_by: Sequence[int | str] = (),
    ) -> None:
        """cut_by: the columns that the cut goes by (its keys, its time, the name of a split), which are not features,
        though they may be kept; the reader's record batches have them as `cut_values` finds them."""
        config = labelled_like(config, description)
        check_input(config)
        self.place = config.place
        self.raw_digest = raw.digest
        self.files = [SourceFile(path=path, bytes=one.bytes) for files in raw.files.values() for path, one in files]
        self.has_test = "test" in raw.parts
        frame = raw.parts["train"].frame
        types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        if len(types) < len(frame.columns):
            twice = next(name for name in frame.columns if frame.columns.count(name) > 1)
            raise InputError(f"{self.place}: has two columns {twice!r}")
        label = self._label(config, frame.columns)
        kept = [_column(config, "keep", column, frame.columns) for column in config.keep]
        if label in kept or len(set(kept)) < len(kept):
            raise config.error("keep", "names the label, or a column twice")
        check_kept(config, kept)
        cut = [_column(config, "label", column, frame.columns) for column in cut_by]
        features = [name for name in frame.columns if name != label and name not in (*kept, *cut)]
        if not features:
            raise InputError(f"{self.place}: has no columns left for features ({len(types)} in all)")
        self.keep = kept
        self.label_kind = None if label is None else _label_kind(config, label, types[label])
        is_array = len(features) == 1 and types[features[0]].startswith("array<")
        if not is_array:
            _check_features(config, types, features)
            features = in_trained_order(features, description, self.place)
        values = self._array_length(config, frame, features[0]) if is_array else len(features)
        shape = config.shape or [values]
        if math.prod(shape) != values:
            raise config.error("shape", f"does not fit {values} features (is {shape})")
        names = None if is_array else features
        tensor = TensorSpec(name="x", dtype=config.dtype or "float32", shape=shape, columns=names)
        self.tensors = [tensor]
        self._parts = list(raw.parts)
        self._reader = _Reader(
            self.place, features, is_array, tensor, label, self.label_kind, len(kept), config.missing == "mean",
            config.dtype is not None, config.max_bad_rows, len(cut),
        )  # fmt: skip
        frames = [self._selected(name, part, types, cut) for name, part in raw.parts.items()]
        self._frame = reduce(lambda one, other: one.unionAll(other), frames)

    def parts(self) -> list[str]:
        return self._parts

    def raw(self, spark: SparkSession) -> tuple[DataFrame, Reader]:
        return self._frame, self._reader

    def _label(self, config: InputConfig, columns: Sequence[str]) -> str | None:
        if config.label is None:
            return None
        if "label" not in config.model_fields_set:
            none = "None" if isinstance(config, DataFrameInput) else "null"
            raise config.error("label", f"must be the label's column, or {none} (there are {', '.join(columns)})")
        return _column(config, "label", config.label, columns)

    def _array_length(self, config: InputConfig, frame: DataFrame, column: str) -> int:
        """The length of the first row's array; the shape's, where one is given."""
        from pyspark.sql import functions as sql

        element = frame.schema[column].dataType.elementType.simpleString()  # type: ignore[attr-defined]
        if element not in _NUMBERS:
            raise InputError(f"{self.place}: column {column!r} holds {element}; features must be numbers")
        if config.shape is not None:
            return math.prod(config.shape)
        place = _PLACE.format(frame.columns.index(column))
        first = _by_place(frame).select(sql.size(place).alias("length")).where("length > 0").first()
        if first is None:
            raise InputError(f"{self.place}: column {column!r} has no values")
        return int(first[0])

    def _selected(self, part: str, raw: RawFrame, types: dict[str, str], cut: Sequence[str]) -> DataFrame:
        """The features, label, kept columns, those of the cut, part and file, in types that Arrow hands over well.

        types: of the training rows' columns, which those of any other part must have too
        """
        from pyspark.sql import functions as sql

        names = raw.frame.columns
        if part != "train":
            self._check_alike(part, raw, types)
        file = sql.lit(None).cast("string") if raw.file is None else sql.expr(raw.file)
        # Named by position: two of the user's names may differ in case alone, which Spark does not tell apart.
        frame = raw.frame.select("*", file).toDF(*map(_PLACE.format, range(len(names))), _FILE)
        places = {name: sql.col(_PLACE.format(place)) for place, name in enumerate(names)}

        def number(name: str) -> Any:
            column = places[name]
            if types[name] == "array<boolean>":
                return column.cast("array<tinyint>")
            return column.cast("tinyint") if types[name] == "boolean" else column

        reader = self._reader
        columns = [number(name) for name in reader.features]
        if reader.label is not None:
            text = places[reader.label].cast("string")
            columns.append(text if self.label_kind == "text" else number(reader.label))
        columns += [places[name].cast("string") for name in self.keep]
        columns += [places[name] for name in cut]
        columns.append(sql.lit(SPLITS.index(part)).cast("tinyint"))
        # The file's name is longer than many a row: it travels with those that may be bad.
        columns.append(sql.when(~sql.coalesce(self._surely_good(places, types), sql.lit(False)), sql.col(_FILE)))
        return frame.select(*columns).toDF(*map(_PLACE.format, range(len(columns))))

    def _surely_good(self, places: dict[str, Any], types: dict[str, str]) -> Any:
        """A SQL condition that every bad row fails; null where a value is null."""
        from pyspark.sql import functions as sql

        reader = self._reader
        if reader.array:
            return sql.lit(False)
        low, high = _safe_range(np.dtype(reader.tensor.dtype), reader.rounds)
        checks = []
        for name in reader.features:
            column = places[name].cast("double")
            checks.append(column.between(low, high))
            if types[name] in ("float", "double") and np.dtype(reader.tensor.dtype).kind != "f":
                checks.append(column == sql.floor(column))
        if reader.label is not None:
            checks.append(sql.length(places[reader.label].cast("string")) > 0)
            if types[reader.label] in ("float", "double"):
                checks.append(places[reader.label].between(-_WHOLE_FLOAT32, _WHOLE_FLOAT32))
        return reduce(lambda one, other: one & other, checks)

    def _check_alike(self, part: str, raw: RawFrame, types: dict[str, str]) -> None:
        found = {field.name: field.dataType.simpleString() for field in raw.frame.schema.fields}
        for name, kind in types.items():
            if name not in found:
                raise InputError(f"{self.place}: the {part} files have no column {name!r}")
            numbers = kind in _NUMBERS and found[name] in _NUMBERS
            if found[name] != kind and not numbers:
                raise InputError(f"{self.place}: column {name!r} is {kind}, and {found[name]} in the {part} files")
        if more := [name for name in found if name not in types]:
            raise InputError(f"{self.place}: has no column {more[0]!r}, which the {part} files have")


def _safe_range(dtype: np.dtype[Any], rounds: bool) -> tuple[float, float]:
    """Numbers in this range are never refused for their size."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return max(float(limits.min), -(2.0**53)), min(float(limits.max), 2.0**53)
    high = min(float(np.finfo(dtype).max), math.inf if rounds else _WHOLE_FLOAT32)
    return -high, high


def _by_place(frame: DataFrame) -> DataFrame:
    """`frame` with its columns named by position: two of the user's names may differ in case alone, which Spark does
    not tell apart."""
    return frame.toDF(*map(_PLACE.format, range(len(frame.columns))))


def _column(config: InputConfig, key: str, column: int | str, columns: Sequence[str]) -> str:
    if isinstance(column, str):
        if column not in columns:
            there = f"{config.place} has no column {column!r}; it has {', '.join(columns)}"
            raise config.error(key, there + did_you_mean(column, columns))
        return column
    if not -len(columns) <= column < len(columns):
        raise config.error(key, f"{config.place} has {len(columns)} columns, 0 to {len(columns) - 1} (is {column})")
    return columns[column]


def _label_kind(config: InputConfig, name: str, found: str) -> str:
    natural = "integer" if found in _WHOLE else "number" if found in _NUMBERS else "text"
    wanted = natural if config.label_type == "auto" else config.label_type
    fits = found in _WHOLE or wanted == natural
    if found not in (*_NUMBERS, "string") or not fits:
        error: ConfigError = config.error("label", f"column {name!r} is {found}, which is no {wanted} label: cast it")
        raise error
    return wanted


def _check_features(config: InputConfig, types: dict[str, str], features: Sequence[str]) -> None:
    for name in features:
        if types[name] not in _NUMBERS:
            vector = "; pyspark.ml.functions.vector_to_array makes an array of it" if types[name] == "vector" else ""
            raise InputError(
                f"{config.place}: column {name!r} is {types[name]}; features must be numbers, or one array of numbers: "
                f"cast it, drop it, or name it in input.keep{vector}"
            )


@dataclass(frozen=True)
class _Reader:
    """Makes rows of the record batches; see `Reader`. array: whether the only feature is an array.

    gaps: whether a null is a missing value. rounds: whether the tensor's dtype was asked for, so that it may round.
    limit: how many bad rows there may be. cut: how many columns the cut goes by.

    A batch has the columns of the features, the label, what is kept, what the cut goes by, the part and the file.
    """

    place: str
    features: Sequence[str]
    array: bool
    tensor: TensorSpec
    label: str | None
    label_kind: str | None
    kept: int
    gaps: bool
    rounds: bool
    limit: int
    cut: int = 0

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ParsedRows | BadRow]]:
        """Reports bad rows up to the first one too many, which ends the job: each costs some 0.4 ms. The batches are
        still read to their end, as Spark expects."""
        bad = 0
        for batch in batches:
            for part, rows in _by_part(batch) if bad <= self.limit else ():
                for item in self.read(rows) if bad <= self.limit else ():
                    yield part, item
                    bad += isinstance(item, BadRow)
                    if bad > self.limit:
                        break

    def cut_values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns that the cut goes by, in its order."""
        first = batch.num_columns - 2 - self.cut
        return list(batch.columns[first : first + self.cut])

    def read(self, batch: pa.RecordBatch) -> Iterator[ParsedRows | BadRow]:
        """The good rows together, and each bad one."""
        values, wrong = self._features(batch)
        label, bad_label = self._labels(batch)
        bad = wrong.any(axis=1) | bad_label
        good = ~bad
        first = len(self.features) + (self.label is not None)
        keep = batch.columns[first : first + self.kept]
        if good.any():
            chosen = np.flatnonzero(good)
            yield ParsedRows(
                [np.ascontiguousarray(values[good]).reshape(-1, *self.tensor.shape)],
                [label[row] for row in chosen] if isinstance(label, list) else None if label is None else label[good],
                [column.take(pa.array(chosen)).to_pylist() for column in keep],
            )
        for row in np.flatnonzero(bad).tolist():
            yield self._bad(batch.slice(row, 1).to_pylist()[0], wrong[row], bool(bad_label[row]))

    def _features(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[Any], Bools]:
        """(the values, and which of them cannot be taken), both [rows, values]."""
        dtype, rows = self.tensor.numpy_dtype, batch.num_rows
        values = np.zeros((rows, self.tensor.values), dtype=dtype)
        wrong = np.zeros(values.shape, dtype=np.bool_)
        if not self.array:
            for place in range(len(self.features)):
                values[:, place], wrong[:, place] = numbers(batch.column(place), dtype, self.gaps, self.rounds)
            return values, wrong
        column = batch.column(0)
        lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        fits = lengths == self.tensor.values
        wrong[~fits] = True
        inner = column.filter(pa.array(fits)).flatten()
        found, problems = numbers(inner, dtype, self.gaps, self.rounds)
        values[fits], wrong[fits] = found.reshape(-1, self.tensor.values), problems.reshape(-1, self.tensor.values)
        return values, wrong

    def _labels(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[Any] | list[str] | None, Bools]:
        if self.label is None:
            return None, np.zeros(batch.num_rows, dtype=np.bool_)
        column = batch.column(len(self.features))
        if self.label_kind == "text":
            texts = [text or "" for text in column.to_pylist()]
            return texts, np.array([not text for text in texts], dtype=np.bool_)
        dtype = np.dtype(np.int64 if self.label_kind == "integer" else np.float32)
        return numbers(column, dtype, gaps=False, rounds=True)

    def _bad(self, row: dict[str, Any], wrong: Bools, bad_label: bool) -> BadRow:
        found = list(row.values())
        place = plain_path(found[-1]) if found[-1] else self.place
        text = ", ".join(str(value) for value in found[: len(self.features) + (self.label is not None)])[:_ROW_TEXT]
        if not wrong.any():
            value = found[len(self.features)]
            shown = "null" if value is None else repr(value)
            return BadRow(place, 0, f"column {self.label!r}, the label: {shown} is no {self.label_kind}", text)
        first = int(np.flatnonzero(wrong)[0])
        name = self.features[0 if self.array else first]
        value = found[0 if self.array else first]
        if self.array:
            if value is None or len(value) != self.tensor.values:
                has = "is null" if value is None else f"has {len(value)} values"
                return BadRow(place, 0, f"column {name!r}: {has}, {self.tensor.values} are needed", text)
            value = value[first]
        return BadRow(place, 0, f"column {name!r}: {self._problem(value)}", text)

    def _problem(self, value: float | None) -> str:
        dtype = np.dtype(self.tensor.dtype)
        if value is None or math.isnan(value):
            hint = " (input.missing: mean fills gaps)" if dtype.kind == "f" else ""
            return ("is null" if value is None else "is NaN") + hint
        if math.isinf(value):
            return f"{value} is not finite"
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return f"{value} is not a whole number from {limits.min} to {limits.max} ({dtype.name})"
        with np.errstate(over="ignore"):
            rounded = float(dtype.type(value))
        if math.isinf(rounded):
            return f"{value} is not finite as {dtype.name}"
        return (
            f"{value} is {rounded:.0f} in float32, the default; set input.dtype (float64 keeps it, float32 rounds it)"
        )


def _by_part(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """(part, its rows) of each part that has rows in a batch."""
    parts = batch.column(batch.num_columns - 2).to_numpy()
    for part in np.unique(parts).tolist():
        yield SPLITS[part], batch if (parts == part).all() else batch.filter(pa.array(parts == part))


def numbers(column: pa.Array, dtype: np.dtype[Any], gaps: bool, rounds: bool) -> tuple[npt.NDArray[Any], Bools]:
    """(`column` as `dtype`, and where that is impossible), both [rows]; where it is impossible the value is 0.

    gaps: nulls and NaNs are missing values, stored as NaN in a float dtype. rounds: a number may lose the last digits
    of its whole part; otherwise only digits after the point.
    """
    empty = column.is_null().to_numpy(zero_copy_only=False)
    raw = column.fill_null(0).to_numpy(zero_copy_only=False)
    if raw.dtype.kind == "f":
        empty = empty | np.isnan(raw)
        raw = np.where(empty, raw.dtype.type(0), raw)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.kind == "f":
            values = raw.astype(dtype)
            wrong = ~np.isfinite(values)
            if not rounds:
                # Exact for every 64-bit integer where long doubles have 64 bits of precision.
                lost = np.abs(values.astype(np.longdouble) - raw.astype(np.longdouble)) >= 0.5
                wrong |= lost & (np.abs(raw.astype(np.float64)) >= _WHOLE_FLOAT32)
        else:
            limits = np.iinfo(dtype)
            # Compared with the float above the limit, since 2^63 - 1 is not a float.
            above = raw >= float(limits.max) + 1 if raw.dtype.kind == "f" else raw > min(limits.max, 2**63 - 1)
            wrong = (raw < max(limits.min, -(2**63))) | above | ~np.isfinite(raw)
            if raw.dtype.kind == "f":
                wrong |= raw != np.floor(raw)
            values = np.where(wrong, raw.dtype.type(0), raw).astype(dtype)
    values = np.where(wrong, dtype.type(0), values).astype(dtype, copy=False)
    if not gaps:
        return values, wrong | empty
    # One bit pattern for every missing value, since the row's hash covers the bits.
    return np.where(empty, dtype.type(np.nan), values), wrong & ~empty
