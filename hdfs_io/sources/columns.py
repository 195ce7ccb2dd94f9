"""Raw columns to rows: which columns are features, label, kept, or what a cut goes by, and which rows are bad.

The columns are those of Spark's readers (readers.py), of a program's own DataFrame, or of what a user's function
returns. A row whose numbers might be refused also has the file it came from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from hdfs_io.config import DataFrameInput, InputConfig, check_input
from hdfs_io.manifest import SPLITS, SourceFile
from hdfs_io.preprocessing import Description, TensorSpec
from hdfs_io.sources.base import Reader, Source, check_kept, in_trained_order, labelled_like
from hdfs_io.sources.cells import WHOLE_FLOAT32, label_kind, number_problem
from hdfs_io.sources.column_rows import ColumnReader
from hdfs_io.sources.readers import Raw, RawFrame
from sparksplit.base.errors import ConfigError, InputError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = "column_{}"
"""What a column is called by its position."""
_NUMBERS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")
_WHOLE = _NUMBERS[:5]
_FILE = "file"


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
        train = raw.parts["train"]
        names, types = train.columns, _types(train)
        if len(types) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{self.place}: has two columns {twice!r}")
        label = self._label(config, train)
        kept = [_column(config, "keep", column, names) for column in config.keep]
        if label in kept or len(set(kept)) < len(kept):
            raise config.error("keep", "names the label, or a column twice")
        check_kept(config, kept)
        cut = [_column(config, "label", column, names) for column in cut_by]
        features = [name for name in names if name != label and name not in (*kept, *cut)]
        if not features:
            raise InputError(f"{self.place}: has no columns left for features ({len(types)} in all)")
        self.keep = kept
        self.label_kind = None if label is None else _label_kind(config, train, label)
        is_array = len(features) == 1 and types[features[0]].startswith("array<")
        named = train.cells is None or train.cells.named
        if not is_array:
            if train.cells is None:
                _check_features(config, types, features)
            if named:
                features = in_trained_order(features, description, self.place)
        values = self._array_length(config, train.frame, features[0]) if is_array else len(features)
        shape = config.shape or [values]
        if math.prod(shape) != values:
            raise config.error("shape", f"does not fit {values} features (is {shape})")
        tensor = TensorSpec(
            name="x", dtype=config.dtype or "float32", shape=shape, columns=None if is_array or not named else features
        )
        self.tensors = [tensor]
        self._parts = list(raw.parts)
        chosen = [*features, *([] if label is None else [label]), *kept, *cut]
        self._reader = ColumnReader(
            place=self.place,
            features=features,
            array=is_array,
            tensor=tensor,
            label=label,
            label_kind=self.label_kind,
            kept=len(kept),
            gaps=config.missing == "mean",
            rounds=config.dtype is not None,
            limit=config.max_bad_rows,
            cut=len(cut),
            cells=None if train.cells is None else replace(train.cells, sample=()),
            order=[] if train.cells is None else [chosen.index(name) for name in train.cells.names],
        )
        if train.cells is not None and not train.cells.header and not config.max_bad_rows:
            self._check_first_row(train)
        frames = [self._selected(name, part, types, cut) for name, part in raw.parts.items()]
        self._frame = reduce(lambda one, other: one.unionAll(other), frames)

    def parts(self) -> list[str]:
        return self._parts

    def raw(self, spark: SparkSession) -> tuple[DataFrame, Reader]:
        return self._frame, self._reader

    def _label(self, config: InputConfig, train: RawFrame) -> str | None:
        columns = train.columns
        if config.label is None:
            return None
        # The last column of a file's own is where its label usually is.
        usual = train.cells is not None and len(columns) == len(train.cells.names)
        if "label" not in config.model_fields_set and not usual:
            none = "None" if isinstance(config, DataFrameInput) else "null"
            raise config.error("label", f"must be the label's column, or {none} (there are {', '.join(columns)})")
        return _column(config, "label", config.label, columns)

    def _check_first_row(self, train: RawFrame) -> None:
        """Raise InputError where the first row is a header that nobody has announced."""
        assert train.cells is not None
        reader = self._reader
        if not train.cells.sample:
            return
        for name in (name for name in reader.features if name in train.cells.names):
            text = train.cells.sample[0][train.cells.names.index(name)]
            if problem := number_problem(text, reader.tensor.numpy_dtype, train.cells.nulls, reader.gaps, True):
                hint = "is it a header (input.header: true)?"
                raise InputError(f"{train.cells.file}: row 1: {train.cells.say(name)}: {problem}; {hint}")

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

        if part != "train":
            self._check_alike(part, raw, types)
        file = sql.lit(None).cast("string") if raw.file is None else sql.expr(raw.file)
        names = raw.frame.columns
        # Named by position: two of the user's names may differ in case alone, which Spark does not tell apart.
        frame = raw.frame.select("*", file).toDF(*map(_PLACE.format, range(len(names))), _FILE)
        places = {name: sql.col(_PLACE.format(place)) for place, name in enumerate(names)}

        def number(name: str) -> Any:
            column = places[name]
            if types[name] == "array<boolean>":
                return column.cast("array<tinyint>")
            if types[name].startswith("decimal"):
                return column.cast("string")  # parsed exactly, as a file's text
            return column.cast("tinyint") if types[name] == "boolean" else column

        reader = self._reader
        columns = [number(name) for name in reader.features]
        if reader.label is not None:
            text = places[reader.label].cast("string")
            columns.append(text if self.label_kind == "text" else number(reader.label))
        columns += [places[name].cast("string") for name in self.keep]
        columns += [places[name] for name in cut]
        columns.append(places[raw.broken] if raw.broken else sql.lit(None).cast("string"))
        columns.append(sql.lit(SPLITS.index(part)).cast("tinyint"))
        # The file's name is longer than many a row: where it can be told, it travels with those that may be bad.
        good = sql.lit(False) if reader.cells else sql.coalesce(self._surely_good(places, types), sql.lit(False))
        columns.append(sql.when(~good, sql.col(_FILE)))
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
                checks.append(places[reader.label].between(-WHOLE_FLOAT32, WHOLE_FLOAT32))
        return reduce(lambda one, other: one & other, checks)

    def _check_alike(self, part: str, raw: RawFrame, types: dict[str, str]) -> None:
        cells = self._reader.cells
        if cells is not None and raw.cells is not None and cells.names != raw.cells.names:
            raise InputError(f"{raw.cells.file}: its header is not that of {cells.file}")
        found = _types(raw)
        for name, kind in types.items():
            if name not in found:
                raise InputError(f"{self.place}: the {part} files have no column {name!r}")
            numbers = _is_number(kind) and _is_number(found[name])
            if found[name] != kind and not numbers:
                raise InputError(f"{self.place}: column {name!r} is {kind}, and {found[name]} in the {part} files")
        if more := [name for name in found if name not in types]:
            raise InputError(f"{self.place}: has no column {more[0]!r}, which the {part} files have")


def _types(raw: RawFrame) -> dict[str, str]:
    """The type of each column, as Spark names it."""
    return {field.name: field.dataType.simpleString() for field in raw.frame.schema.fields if field.name != raw.broken}


def _is_number(kind: str) -> bool:
    return kind in _NUMBERS or kind.startswith("decimal(")


def _safe_range(dtype: np.dtype[Any], rounds: bool) -> tuple[float, float]:
    """Numbers in this range are never refused for their size."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return max(float(limits.min), -(2.0**53)), min(float(limits.max), 2.0**53)
    high = min(float(np.finfo(dtype).max), math.inf if rounds else WHOLE_FLOAT32)
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


def _label_kind(config: InputConfig, train: RawFrame, name: str) -> str:
    found = _types(train)[name]
    if train.cells is not None:
        place = train.cells.names.index(name) if name in train.cells.names else None
        texts = [] if place is None else [fields[place] for fields in train.cells.sample]
        return label_kind(texts) if config.label_type == "auto" else config.label_type
    whole = found in _WHOLE or found.endswith(",0)")
    natural = "integer" if whole else "number" if _is_number(found) else "text"
    wanted = natural if config.label_type == "auto" else config.label_type
    if not (_is_number(found) or found == "string") or not (whole or wanted == natural):
        error: ConfigError = config.error("label", f"column {name!r} is {found}, which is no {wanted} label: cast it")
        raise error
    return wanted


def _check_features(config: InputConfig, types: dict[str, str], features: Sequence[str]) -> None:
    for name in features:
        if not _is_number(types[name]):
            vector = "; pyspark.ml.functions.vector_to_array makes an array of it" if types[name] == "vector" else ""
            raise InputError(
                f"{config.place}: column {name!r} is {types[name]}; features must be numbers, or one array of numbers: "
                f"cast it, drop it, or name it in input.keep{vector}"
            )
