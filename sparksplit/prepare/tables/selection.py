"""Selects what Spark passes of raw columns, in types that suit Arrow. Rows that may be bad also get their origin."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparksplit.dataset.manifest import SPLITS
from sparksplit.features.table import Column, Table
from sparksplit.prepare.tables.cells import WHOLE_FLOAT32
from sparksplit.prepare.tables.column_rows import ColumnReader
from sparksplit.prepare.tables.label_kinds import WHOLE
from sparksplit.prepare.tables.raw_frame import PLACE, RawFrame, by_place
from sparksplit.prepare.tables.readers import METADATA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILE, _ROW, _BAD = "file", "row", "bad"
_BAD_TYPE = "struct<reason: string, text: string, fatal: boolean>"


@dataclass(frozen=True)
class SparkColumns:
    """The columns that `reader` takes.

    types: of the training rows' columns.
    kept: the columns to keep, then the columns that only bad rows show.
    label_kind: how the label is read.
    mixed: columns of whole numbers in some parts, and of other numbers or texts in other parts.
    """

    reader: ColumnReader
    types: Mapping[str, str]
    kept: Sequence[str]
    label_kind: str | None
    mixed: set[str]

    @property
    def table(self) -> Table | None:
        """The table of the features, or None."""
        return None if self.reader.table is None else self.reader.table.table

    def frame(self, part: str, raw: RawFrame) -> DataFrame:
        """Return the reader's columns of the rows of a part, then the carried columns of `raw`."""
        from pyspark.sql import functions as sql

        names = raw.frame.columns
        origin = [
            sql.lit(None).cast(kind) if given is None else sql.expr(given).cast(kind)
            for given, kind in ((raw.bad, _BAD_TYPE), (raw.row, "bigint"), (raw.file, "string"))
        ]
        # Named by position, because two of the user's names may differ only in case, which Spark ignores.
        frame = raw.frame.select("*", *origin).toDF(*map(PLACE.format, range(len(names))), _BAD, _ROW, _FILE)
        places = {name: sql.col(PLACE.format(place)) for place, name in enumerate(names)}

        types = dict(raw.types)

        def number(name: str, whole: bool) -> Any:
            column, kind = places[name], types[name]
            if name in raw.exact and (name in self.mixed or whole):
                # 1.0 as 1, because an integer dtype takes no other text.
                plain = (column == sql.rint(column)) & (sql.abs(column) < 2.0**64)
                whole_text = sql.when(plain, column.cast("decimal(20,0)").cast("string"))
                return sql.coalesce(places[raw.exact[name]], whole_text, column.cast("string"))
            if kind == "array<boolean>":
                return column.cast("array<tinyint>")
            if kind.startswith("array<decimal("):
                return column.cast("array<string>")
            if kind == "boolean":
                column = column.cast("tinyint")
            if name in self.mixed or kind.startswith("decimal("):
                # As text, which is parsed exactly, like a file's text.
                column = column.cast("double") if kind == "float" else column
                return _whole_text(column) if whole and kind not in WHOLE else column.cast("string")
            return column

        reader, table = self.reader, self.table
        if table is None:
            columns = [number(name, np.dtype(reader.tensor.dtype).kind in "iu") for name in reader.features]
        else:
            columns = [
                number(column.name, (column.dtype or "").startswith("int"))
                if column.kind == "number"
                else places[column.name].cast("string")
                for column in table.columns
            ]
        if reader.label is not None:
            text = places[reader.label].cast("string")
            if types[reader.label] in ("float", "double"):
                text = sql.when(text != "NaN", text)
            columns.append(text if self.label_kind == "text" else number(reader.label, self.label_kind == "integer"))
        if reader.weight is not None:
            columns.append(number(reader.weight, False))
        kept = [(places[name].cast("string"), raw.exact.get(name)) for name in self.kept]
        columns += [text if exact is None else sql.coalesce(places[exact], text) for text, exact in kept]
        good = self._surely_good(places, types)
        if reader.weight is not None:
            good = good & (places[reader.weight].cast("double").between(0, WHOLE_FLOAT32))
        if (cut := reader.cut) is not None:
            at = [PLACE.format(names.index(name)) for name in cut.names]
            # Rows of other parts are not cut.
            nulls = () if reader.cells is None else reader.cells.nulls
            folders = [PLACE.format(names.index(name)) for name in cut.names if name in raw.folders]
            cut_types = [self.types[name] for name in cut.names]
            value = cut.value(at, cut_types, nulls, folders) if part == "train" else sql.lit(0).cast("bigint")
            columns += [value, sql.when(value.isNull(), cut.text(at, nulls, folders))]
            good = good & value.isNotNull()
        # Only rows that may be bad get the file's name, which is longer than many rows.
        doubtful = ~sql.coalesce(good, sql.lit(False))
        if reader.told:
            columns.append(sql.col(_BAD))
            doubtful |= sql.col(_BAD).isNotNull()
        columns.append(sql.when(doubtful, sql.col(_ROW)))
        columns += [sql.lit(SPLITS.index(part)).cast("tinyint"), sql.when(doubtful, sql.col(_FILE))]
        columns += [places[name] for name in raw.carried]
        return frame.select(*columns).toDF(*map(PLACE.format, range(len(columns))))

    def _surely_good(self, places: dict[str, Any], types: dict[str, str]) -> Any:
        """Return an SQL condition that every bad row fails. It is null if a value is null."""
        from pyspark.sql import functions as sql

        reader = self.reader
        if reader.array or reader.cells is not None:
            return sql.lit(False)
        if self.table is not None:
            good = [_good(column, places[column.name], types[column.name]) for column in self.table.columns]
            return _balanced([*good, self._good_label(places, types)], operator.and_)
        dtype = np.dtype(reader.tensor.dtype)
        low, high = _safe_range(dtype, reader.rounds)
        numbers = [places[name].cast("double") for name in reader.features]
        if dtype.kind == "f":
            # One comparison for all columns, because a sum keeps null, NaN and infinity.
            checks = [_balanced([column * column for column in numbers], operator.add) <= min(high, 1e150) ** 2]
        else:
            checks = [column.between(low, high) for column in numbers]
            fractions = zip(reader.features, numbers, strict=True)
            checks += [_is_whole(column) for name, column in fractions if types[name] in ("float", "double")]
        return _balanced([*checks, self._good_label(places, types)], operator.and_)

    def _good_label(self, places: dict[str, Any], types: dict[str, str]) -> Any:
        """Return an SQL condition that every bad label fails. It may be null if a label is null."""
        from pyspark.sql import functions as sql

        reader = self.reader
        if reader.label is None:
            return sql.lit(True)
        label = places[reader.label]
        if types[reader.label] == "string":
            return sql.length(label) > 0 if self.label_kind == "text" else label.rlike(r"\A-?[0-9]{1,18}\z")
        good = label.isNotNull()
        if types[reader.label] in ("float", "double"):
            good &= label.between(-WHOLE_FLOAT32, WHOLE_FLOAT32)
        if self.label_kind == "integer" and types[reader.label] not in WHOLE:
            good &= _is_whole(label)
        return good


def lines(part: str, raw: RawFrame, order: Sequence[str]) -> DataFrame:
    """Return the rows of a part for `LineReader`. order: of the columns in the training rows' lines"""
    from pyspark.sql import functions as sql

    assert raw.lines is not None
    origin = [sql.expr(METADATA), sql.expr("_metadata.file_block_start = 0")]
    number = sql.lit(SPLITS.index(part)).cast("tinyint")
    frame = by_place(raw.lines.select("*", *origin, number))
    columns = raw.lines.columns
    places = [*map(columns.index, order), *range(len(columns), len(frame.columns))]
    return frame.select(*map(PLACE.format, places))


def _whole_text(number: Any) -> Any:
    """Return doubles or decimals as texts. Whole numbers have no point and no exponent."""
    from pyspark.sql import functions as sql

    return sql.when(_is_whole(number), number.cast("bigint").cast("string")).otherwise(number.cast("string"))


def _balanced(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Return all parts joined in a balanced tree. Spark walks the tree by recursion, so it must not be deep."""
    half = len(parts) // 2
    return join(_balanced(parts[:half], join), _balanced(parts[half:], join)) if half else parts[0]


def _safe_range(dtype: np.dtype[Any], rounds: bool) -> tuple[float, float]:
    """Return (low, high). Numbers in this range are never refused for their size."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return max(float(limits.min), -(2.0**53)), min(float(limits.max), 2.0**53)
    high = min(float(np.finfo(dtype).max), math.inf if rounds else WHOLE_FLOAT32)
    return -high, high


def _good(column: Column, value: Any, kind: str) -> Any:
    """Return an SQL condition that every bad value of a table's column fails. Some good values may fail it too."""
    from pyspark.sql import functions as sql

    if column.dtype is None:
        return sql.lit(True)
    if column.kind == "date":
        # The text of a timestamp is no date. A year of five digits has no text that is a date.
        taken = kind == "date" or (column.moment and kind in ("timestamp", "timestamp_ntz"))
        return sql.coalesce(sql.year(value).between(1, 9999), sql.lit(True)) if taken else sql.lit(False)
    if kind not in ("float", "double", *WHOLE):
        return sql.lit(False)
    # The column's type may differ from the dtype's, if the feature was fitted on a column of another type.
    low, high = good_between(np.dtype(column.dtype))
    number = value.cast("double")
    good = (number > low) & (number < high)
    if np.dtype(column.dtype).kind == "i" and kind in ("float", "double"):
        good &= _is_whole(number)
    return sql.coalesce(good, sql.lit(True))


def good_between(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return (low, high). A table's tensor of `dtype` can hold all numbers between these two."""
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return float(limits.min), float(limits.max) + (limits.max < 2**53)
    return -float(np.finfo(dtype).max) / 2, float(np.finfo(dtype).max) / 2


def _is_whole(number: Any) -> Any:
    """Return whether each double or decimal is whole, and a bigint can hold it. False for NaN.

    (By default, Spark 4 raises for `floor` of a number that a bigint cannot hold. `rint` would round decimals.)
    """
    return (number >= -(2.0**63)) & (number < 2.0**63) & (number % 1 == 0)
