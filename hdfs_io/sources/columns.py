"""Raw columns to rows: which columns are features, label, kept, or what a cut goes by, and which rows are bad.

The columns are those of Spark's readers (readers.py), of a program's own DataFrame, or of what a user's function
returns. A row whose numbers might be refused also has the file it came from.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from hdfs_io.config import DataFrameInput, InputConfig, check_input
from hdfs_io.cut_config import CutConfig
from hdfs_io.manifest import SPLITS, SourceFile
from hdfs_io.preprocessing import Description, TensorSpec
from hdfs_io.sources.base import Reader, Source, check_kept, in_trained_order, labelled_like
from hdfs_io.sources.cells import WHOLE_FLOAT32, label_kind, number_problem
from hdfs_io.sources.column_rows import ColumnReader
from hdfs_io.sources.csv_lines import LineReader
from hdfs_io.sources.cut_columns import CutColumns
from hdfs_io.sources.readers import METADATA, Raw, RawFrame, has_footers
from sparksplit.base.config import Config
from sparksplit.base.errors import ConfigError, InputError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = "column_{}"
"""What a column is called by its position."""
_NUMBERS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double")
_WHOLE = _NUMBERS[:5]
_FILE, _ROW, _BAD = "file", "row", "bad"
_BAD_TYPE = "struct<reason: string, text: string, fatal: boolean>"


class DataFrameSource(Source):
    """All columns but the label, the kept ones and those that the cut goes by are the features: numbers, or a single
    array of numbers."""

    def __init__(
        self,
        config: InputConfig,
        raw: Raw,
        description: Description | None = None,
        cut: CutConfig | None = None,
    ) -> None:
        """cut: the columns that it goes by (keys, a time, the name of a split) are not features, though they may be
        kept."""
        config = labelled_like(config, description)
        check_input(config)
        self.place = config.place
        self.raw_digest = raw.digest
        self.files = [SourceFile(path=path, bytes=one.bytes) for files in raw.files.values() for path, one in files]
        self.has_test = "test" in raw.parts
        train = raw.parts["train"]
        frame, types = train.frame, dict(train.types)
        names = [name for name, _ in train.types]
        if len(types) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"{self.place}: has two columns {twice!r}")
        label = self._label(config, names, train)
        kept = [_column(config, "keep", column, names, self.place) for column in config.keep]
        if label in kept or len(set(kept)) < len(kept):
            raise config.error("keep", "names the label, or a column twice")
        check_kept(config, kept)
        cut_by = [] if cut is None else [_column(cut, cut.key, name, names, self.place) for name in cut.needed]
        if cut is not None and (label in cut_by or len(set(cut_by)) < len(cut_by)):
            raise cut.error(cut.key, "names the label, or a column twice")
        features = [name for name in names if name != label and name not in (*kept, *cut_by)]
        if not features:
            raise InputError(f"{self.place}: has no columns left for features ({len(types)} in all)")
        self.columns = types
        self._raw = raw
        self.keep = kept
        self.label_kind = None if label is None else _label_kind(config, train, label)
        features, tensor, is_array = self._features(config, train, features, description)
        self.tensors = [tensor]
        self.raw_bytes = max(part.row_bytes for part in raw.parts.values())
        self._parts = list(raw.parts)
        self._mixed = _mixed(raw)
        goes_by = None
        if cut is not None and cut_by:
            columns = _by_place(frame).select(*(_PLACE.format(frame.columns.index(name)) for name in cut_by))
            goes_by = CutColumns.of(cut, cut_by, [types[name] for name in cut_by], columns)
        self._reader = ColumnReader(
            self.place, features, is_array, tensor, label, self.label_kind, len(kept), config.missing == "mean",
            config.dtype is not None, goes_by, train.decoded and train.decoded[1],
            any(part.bad is not None for part in raw.parts.values()),
        )  # fmt: skip
        if train.cells is not None:
            self._take_cells(config, train, [*features, *([] if label is None else [label]), *kept, *cut_by])
        self._by_line = goes_by is None and all(part.lines is not None for part in raw.parts.values())
        frames = [self._selected(name, part, types) for name, part in raw.parts.items()]
        self._frame = reduce(lambda one, other: one.unionAll(other), frames)

    def _features(
        self, config: InputConfig, raw: RawFrame, features: list[str], description: Description | None
    ) -> tuple[list[str], TensorSpec, bool]:
        """(the features in the tensor's order, the tensor, whether the only one has all of its values)"""
        if raw.decoded is not None:
            return [raw.decoded[0]], raw.decoded[1].tensor, True
        types = dict(raw.types)
        is_array = len(features) == 1 and types[features[0]].startswith("array<")
        if not is_array:
            if raw.cells is None:
                _check_features(config, types, features)
            if raw.named:
                features = in_trained_order(features, description, self.place)
        values = self._array_length(config, raw.frame, features[0]) if is_array else len(features)
        shape = config.shape or [values]
        if math.prod(shape) != values:
            raise config.error("shape", f"does not fit {values} features (is {shape})")
        columns = None if is_array or not raw.named else features
        return features, TensorSpec(name="x", dtype=config.dtype or "float32", shape=shape, columns=columns), is_array

    def parts(self) -> list[str]:
        return self._parts

    def expected_rows(self, row_bytes: float | None) -> dict[str, int] | None:
        """As the footers of Parquet and ORC say, or as many as the files hold if all rows have `row_bytes`."""
        found = {}
        for part, raw in self._raw.parts.items():
            files = self._raw.files.get(part)
            each = row_bytes if raw.cells is None else raw.cells.record_bytes
            if has_footers(raw.frame):
                found[part] = raw.frame.count()
            elif files and each:
                found[part] = round(sum(one.bytes for _, one in files) / each)
            else:
                return None
        return found

    def raw(self, spark: SparkSession) -> tuple[DataFrame, Reader]:
        return self._frame, self._line_reader() if self._by_line else self._reader

    def _line_reader(self) -> LineReader:
        reader, train = self._reader, self._raw.parts["train"]
        assert reader.cells is not None and train.lines is not None
        texts = [*reader.cells.names, *train.lines.columns[1:]]
        label = [] if reader.label is None else [reader.label]
        return LineReader(reader, [texts.index(name) for name in (*reader.features, *label, *self.keep)])

    def _take_cells(self, config: InputConfig, train: RawFrame, chosen: Sequence[str]) -> None:
        """Let the reader read texts. chosen: the columns in the order of its batches.

        Raises InputError where the first row is a header that nobody has announced.
        """
        cells, reader = train.cells, self._reader
        assert cells is not None
        # What the cut goes by is no text in a batch; it is not shown, if nothing keeps it.
        order = [chosen.index(name) for name in cells.names if name in chosen[: len(chosen) - len(reader.cut_names)]]
        self._reader = replace(reader, cells=replace(cells, sample=()), order=order)
        if cells.header or config.max_bad_rows or not cells.sample:
            return
        for name in (name for name in reader.features if name in cells.names):
            text = cells.sample[0][cells.names.index(name)]
            if problem := number_problem(text, reader.tensor.numpy_dtype, cells.nulls, reader.gaps, True):
                hint = "is it a header (input.header: true)?"
                raise InputError(f"{cells.file}: row 1: {cells.say(name)}: {problem[0]}; {hint}")

    def _label(self, config: InputConfig, columns: Sequence[str], train: RawFrame) -> str | None:
        if config.label is None:
            return None
        if "label" not in config.model_fields_set:
            if train.label is not None:
                return train.label
            none = "None" if isinstance(config, DataFrameInput) else "null"
            raise config.error("label", f"must be the label's column, or {none} (there are {', '.join(columns)})")
        return _column(config, "label", config.label, columns, self.place)

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

    def _selected(self, part: str, raw: RawFrame, types: dict[str, str]) -> DataFrame:
        """The reader's columns, in types that Arrow hands over well.

        types: of the training rows' columns, which those of any other part must have too
        """
        from pyspark.sql import functions as sql

        if part != "train":
            self._check_alike(part, raw, types)
        if self._by_line:
            return self._selected_lines(part, raw)
        names = raw.frame.columns
        origin = [
            sql.lit(None).cast(kind) if given is None else sql.expr(given).cast(kind)
            for given, kind in ((raw.bad, _BAD_TYPE), (raw.row, "bigint"), (raw.file, "string"))
        ]
        # Named by position: two of the user's names may differ in case alone, which Spark does not tell apart.
        frame = raw.frame.select("*", *origin).toDF(*map(_PLACE.format, range(len(names))), _BAD, _ROW, _FILE)
        places = {name: sql.col(_PLACE.format(place)) for place, name in enumerate(names)}

        own = dict(raw.types)

        def number(name: str, whole: bool) -> Any:
            column, kind = places[name], own[name]
            if name in raw.exact and (name in self._mixed or (whole and name != reader.label)):
                # 1.0 as 1: an integer's dtype takes no other text.
                plain = (column == sql.rint(column)) & (sql.abs(column) < 2.0**64)
                whole_text = sql.when(plain, column.cast("decimal(20,0)").cast("string"))
                return sql.coalesce(places[raw.exact[name]], whole_text, column.cast("string"))
            if kind == "array<boolean>":
                return column.cast("array<tinyint>")
            if kind == "boolean":
                column = column.cast("tinyint")
            if name in self._mixed or kind.startswith("decimal("):
                # Parsed exactly, like a file's text.
                column = column.cast("double") if kind == "float" else column
                return _whole_text(column) if whole and kind in ("float", "double") else column.cast("string")
            return column

        reader = self._reader
        columns = [number(name, np.dtype(reader.tensor.dtype).kind in "iu") for name in reader.features]
        if reader.label is not None:
            text = places[reader.label].cast("string")
            columns.append(text if self.label_kind == "text" else number(reader.label, self.label_kind == "integer"))
        kept = [(places[name].cast("string"), raw.exact.get(name)) for name in self.keep]
        columns += [text if exact is None else sql.coalesce(places[exact], text) for text, exact in kept]
        good = self._surely_good(places, own)
        if (cut := reader.cut) is not None:
            at = [_PLACE.format(names.index(name)) for name in cut.names]
            # Rows of other parts are not cut.
            nulls = () if reader.cells is None else reader.cells.nulls
            cut_types = [types[name] for name in cut.names]
            value = cut.value(at, cut_types, nulls) if part == "train" else sql.lit(0).cast("bigint")
            columns += [value, sql.when(value.isNull(), cut.text(at, nulls))]
            good = good & value.isNotNull()
        # The file's name is longer than many a row: it travels with those that may be bad.
        doubtful = ~sql.coalesce(good, sql.lit(False))
        if reader.told:
            columns.append(sql.col(_BAD))
            doubtful |= sql.col(_BAD).isNotNull()
        columns.append(sql.when(doubtful, sql.col(_ROW)))
        columns.append(sql.lit(SPLITS.index(part)).cast("tinyint"))
        columns.append(sql.when(doubtful, sql.col(_FILE)))
        return frame.select(*columns).toDF(*map(_PLACE.format, range(len(columns))))

    def _selected_lines(self, part: str, raw: RawFrame) -> DataFrame:
        """What `LineReader` takes."""
        from pyspark.sql import functions as sql

        train = self._raw.parts["train"]
        assert raw.lines is not None and train.lines is not None
        origin = [sql.expr(METADATA), sql.expr("_metadata.file_block_start = 0")]
        number = sql.lit(SPLITS.index(part)).cast("tinyint")
        frame = _by_place(raw.lines.select("*", *origin, number))
        own = raw.lines.columns
        places = [*map(own.index, train.lines.columns), *range(len(own), len(frame.columns))]
        return frame.select(*map(_PLACE.format, places))

    def _surely_good(self, places: dict[str, Any], types: dict[str, str]) -> Any:
        """A SQL condition that every bad row fails; null where a value is null."""
        from pyspark.sql import functions as sql

        reader = self._reader
        if reader.array or reader.cells is not None:
            return sql.lit(False)
        dtype = np.dtype(reader.tensor.dtype)
        low, high = _safe_range(dtype, reader.rounds)
        numbers = [places[name].cast("double") for name in reader.features]
        if dtype.kind == "f":
            # One comparison for all: null, NaN and infinity come through a sum.
            checks = [_balanced([column * column for column in numbers], operator.add) <= min(high, 1e150) ** 2]
        else:
            checks = [column.between(low, high) for column in numbers]
            fractions = zip(reader.features, numbers, strict=True)
            checks += [column == sql.floor(column) for name, column in fractions if types[name] in ("float", "double")]
        if reader.label is not None:
            label = places[reader.label]
            checks.append(sql.length(label) > 0 if types[reader.label] == "string" else label.isNotNull())
            if types[reader.label] in ("float", "double"):
                checks.append(label.between(-WHOLE_FLOAT32, WHOLE_FLOAT32))
        return _balanced(checks, operator.and_)

    def _check_alike(self, part: str, raw: RawFrame, types: dict[str, str]) -> None:
        cells = self._reader.cells
        if cells is not None and raw.cells is not None and cells.names != raw.cells.names:
            raise InputError(f"{raw.cells.file}: its header is not that of {cells.file}")
        found = dict(raw.types)
        for name, kind in types.items():
            if name not in found:
                raise InputError(f"{self.place}: the {part} files have no column {name!r}")
            numbers = _is_number(kind) and _is_number(found[name])
            if found[name] != kind and not numbers:
                raise InputError(f"{self.place}: column {name!r} is {kind}, and {found[name]} in the {part} files")
        if more := [name for name in found if name not in types]:
            raise InputError(f"{self.place}: has no column {more[0]!r}, which the {part} files have")


def _mixed(raw: Raw) -> set[str]:
    """The columns of whole numbers in some parts and of others elsewhere: Spark's union would round, since it makes
    float of int and float, and double of bigint and decimal."""
    kinds: dict[str, set[str]] = {}
    for part in raw.parts.values():
        for name, kind in part.types:
            kinds.setdefault(name, set()).add(kind)
    floats = {"float", "double"}
    return {
        name
        for name, found in kinds.items()
        if len(found) > 1 and not found <= floats and any(kind in floats or "decimal(" in kind for kind in found)
    }


def _whole_text(double: Any) -> Any:
    """Doubles as texts, those that are whole numbers without a point and an exponent."""
    from pyspark.sql import functions as sql

    whole = (double == sql.floor(double)) & (double >= -(2.0**63)) & (double < 2.0**63)
    return sql.when(whole, double.cast("bigint").cast("string")).otherwise(double.cast("string"))


def _balanced(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """All parts joined, in a tree that is no deeper than it must be: Spark walks it by recursion."""
    half = len(parts) // 2
    return join(_balanced(parts[:half], join), _balanced(parts[half:], join)) if half else parts[0]


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


def _column(config: Config, key: str, column: int | str, columns: Sequence[str], place: str) -> str:
    if isinstance(column, str):
        if column not in columns:
            there = f"{place} has no column {column!r}; it has {', '.join(columns)}"
            raise config.error(key, there + did_you_mean(column, columns))
        return column
    if not -len(columns) <= column < len(columns):
        raise config.error(key, f"{place} has {len(columns)} columns, 0 to {len(columns) - 1} (is {column})")
    return columns[column]


def _label_kind(config: InputConfig, train: RawFrame, name: str) -> str:
    if train.cells is not None:
        places = [train.cells.names.index(name)] if name in train.cells.names else []
        texts = [fields[place] for fields in train.cells.sample for place in places]
        return label_kind(texts) if config.label_type == "auto" else config.label_type
    found = dict(train.types)[name]
    whole = found in _WHOLE or (found.startswith("decimal(") and found.endswith(",0)"))
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
