"""Turns raw columns into rows: which columns are features, label, kept or for the cut, and which rows are bad.

The columns come from Spark's readers (readers.py), a program's own DataFrame, or a user's function. A row whose numbers
might be refused also has the name of its file.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import WEIGHT, Description, LabelSpec, TensorSpec
from sparksplit.dataset.manifest import SourceFile
from sparksplit.features.feature_config import FeatureConfig, Features
from sparksplit.features.missing_columns import delimiter_hint
from sparksplit.features.table import Table, check_named, is_mixed, table_like, table_of
from sparksplit.prepare.config_checks import check_input
from sparksplit.prepare.cut_config import CutConfig
from sparksplit.prepare.preprocess_config import DataFrameInput, InputConfig
from sparksplit.prepare.source import Reader, Source, in_trained_order, labelled_like
from sparksplit.prepare.tables.cells import number_problem, short
from sparksplit.prepare.tables.column_rows import ColumnReader
from sparksplit.prepare.tables.csv_lines import LineReader
from sparksplit.prepare.tables.cut_columns import CutColumns
from sparksplit.prepare.tables.label_kinds import digits_lost, is_number, kind_of_label, spelled
from sparksplit.prepare.tables.raw_frame import PLACE, RawFrame, by_place
from sparksplit.prepare.tables.readers import Raw, has_footers
from sparksplit.prepare.tables.roles import (
    asked_for,
    chosen_features,
    column_of,
    cut_columns,
    is_index,
    kept_columns,
    weight_column,
    without_index,
)
from sparksplit.prepare.tables.selection import SparkColumns, lines
from sparksplit.prepare.tables.table_rows import TableReader, has_texts, header_column, text_types, zeros_lost

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST_ROWS = 1000
_IS_HEADER = "if row 1 is a header, set input.header: true"


class DataFrameSource(Source):
    """Rows with columns. Features are all columns except label, weight, kept columns and columns of the cut.

    The features are numbers, a single array of numbers, encoded images, or a table of mixed columns.
    """

    def __init__(
        self,
        config: InputConfig,
        raw: Raw,
        description: Description | None = None,
        cut: CutConfig | None = None,
        wanted: Features | None = None,
    ) -> None:
        """Decide what each column is.

        cut: its columns (keys, a time, the name of a split) are not features, but may be kept.
        wanted: the kinds of columns. None: the columns are a table only if they cannot be one tensor
        """
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
        kept = kept_columns(config, names, label, self.place)
        cut_by = [] if cut is None else cut_columns(cut, names, label, self.place)
        weight = weight_column(config, names, (label, *kept, *cut_by), self.place)
        features = chosen_features(config, names, {label, weight, *kept, *cut_by}, self.place, description)
        check_named(wanted or {}, features, self.place)
        features, left = without_index(features, asked_for(config, wanted, description))
        if not features:
            raise InputError(
                f"{self.place}: has no columns left for features ({len(types)} in all){delimiter_hint(names)}"
            )
        self.columns, self._raw, self.label_name = types, raw, label if train.named else None
        self._rest: list[str] = []
        self.keep = kept
        self.label_kind, said = (
            (None, None) if label is None else kind_of_label(config, raw.parts, label, _fitted(description))
        )
        self.notes = [
            *train.notes, *left, *filter(None, [said, self._digits_lost(train, label, description)]),
            *_zeros_lost(train, features, description, wanted),
        ]  # fmt: skip
        self.table = self._table(config, train, features, description, wanted)
        given, (features, tensor, is_array) = features, self._features(config, train, features, description)
        self.notes = [*self.notes, *(_not_the_models(given, features) if description is not None else [])]
        weights = [] if weight is None else [TensorSpec(name=WEIGHT, dtype="float32", shape=[])]
        self.tensors = [*([tensor] if self.table is None else self.table.tensors), *weights]
        self.exif = None if train.decoded is None else config.exif
        self.raw_bytes = max(part.row_bytes for part in raw.parts.values()) or self._text_bytes(frame)
        self._parts, self._mixed = list(raw.parts), _mixed(raw)
        goes_by = None
        if cut is not None and cut_by:
            columns = by_place(frame).select(*(PLACE.format(frame.columns.index(name)) for name in cut_by))
            goes_by = CutColumns.of(cut, cut_by, [types[name] for name in cut_by], columns)
        self._reader = ColumnReader(
            self.place, features, is_array, tensor, label, self.label_kind, len(kept), config.missing == "mean",
            config.dtype is not None, goes_by, train.decoded and train.decoded[1],
            any(one.bad is not None for one in raw.parts.values()), weight=weight, guessed=config.label_type == "auto",
            folders=frozenset(place for place, name in enumerate(kept) if name in train.folders),
            spelled=spelled(self.label_kind, train, label, _fitted(description)),
        )  # fmt: skip
        if self.table is not None:
            nulls, folders = None if train.cells is None else train.cells.nulls, frozenset(train.folders)
            self._reader = replace(self._reader, table=TableReader(self.table, nulls or ("",), nulls is None, folders))
        if train.cells is not None:
            targets = [name for name in (label, weight) if name is not None]
            self._rest = [name for name in train.cells.names if name not in (*features, *targets, *kept)]
            self._take_cells(config, train, [*features, *targets, *kept, *self._rest])
        self._by_line = goes_by is None and all(part.lines is not None for part in raw.parts.values())
        frames = [self._selected(name, part, types) for name, part in raw.parts.items()]
        self._frame = reduce(lambda one, other: one.unionAll(other), frames)

    def _digits_lost(self, train: RawFrame, label: str | None, description: Description | None) -> str | None:
        """Return a message if number labels lose digits; None with a `description`, because its data has said so."""
        if label is None or self.label_kind != "number" or description is not None:
            return None
        return digits_lost(train, label, self.place)

    def _features(
        self, config: InputConfig, raw: RawFrame, features: list[str], description: Description | None
    ) -> tuple[list[str], TensorSpec, bool]:
        """Return (the features in the tensor's order, the tensor, whether a single column has all its values).

        A table has tensors of its own.
        """
        if self.table is not None:
            names = [column.name for column in self.table.columns]
            return names, TensorSpec(name="x", dtype="float64", shape=[len(names)]), False
        if raw.decoded is not None:
            return [raw.decoded[0]], raw.decoded[1].tensor, True
        types = dict(raw.types)
        if description is not None and (only := description.tensors[0].column) in features and only is not None:
            features = [only]
        is_array = len(features) == 1 and types[features[0]].startswith("array<")
        if not is_array:
            if raw.named:
                features = in_trained_order(features, description, self.place)
            if raw.cells is None:
                # A model's numbers may come from folders, whose texts are read as numbers.
                _check_features(config, types, [name for name in features if name not in raw.folders])
        values = self._array_length(config, raw.frame, features[0]) if is_array else len(features)
        shape = config.shape or [values]
        if math.prod(shape) != values:
            raise config.error("shape", f"does not fit {values} features (is {shape})")
        columns = None if is_array or not raw.named else features
        column = features[0] if is_array and raw.named else None
        dtype = config.dtype or "float32"
        return features, TensorSpec(name="x", dtype=dtype, shape=shape, columns=columns, column=column), is_array

    def _table(
        self,
        config: InputConfig,
        raw: RawFrame,
        features: Sequence[str],
        description: Description | None,
        wanted: Features | None,
    ) -> Table | None:
        """Return the features as a table, or None if they are one tensor."""
        if raw.decoded is not None or (description is not None and not description.features):
            return None
        of_all = dict(raw.types)
        types = {name: of_all[name] for name in features}
        if description is not None:
            return table_like(description, types, self.place)
        mixed = is_mixed(types)
        if (cells := raw.cells) is not None:
            names = [name for name in features if name in cells.names]
            sample = [[row[cells.names.index(name)] for name in names] for row in cells.sample]
            if not cells.header and (place := header_column(sample, cells.nulls)) is not None:
                told = f"{short(sample[0][place])} is not a number; {_IS_HEADER}"
                raise InputError(f"{cells.file}: row 1: {cells.say(names[place])}: {told}")
            kinds = {name: each.asked for name, each in (wanted or {}).items()}
            formats = {name for name, each in (wanted or {}).items() if each.format is not None}
            mixed = has_texts(len(names), sample, cells.nulls) or len(names) < len(features)
            types |= text_types(names, sample, cells.nulls, kinds) | dict.fromkeys(formats & {*names}, "string")
        if wanted is None and not mixed:
            return None
        if config.shape is not None:
            raise config.error(
                "shape", f"must be left out for mixed columns, which are not one tensor (is {config.shape})"
            )
        if config.missing == "error" and "missing" in config.model_fields_set:
            raise config.error("missing", "must be mean for mixed columns (is error); see features.COLUMN.impute")
        if config.dtype is not None and not config.dtype.startswith("float"):
            # An unsigned dtype has no value that stands for a missing value.
            raise config.error("dtype", f"must be a float dtype for mixed columns (is {config.dtype})")
        return table_of(types, wanted or {}, self.place, partial(self._array_length, config, raw.frame), config.dtype)

    def parts(self) -> list[str]:
        return self._parts

    def expected_rows(self, row_bytes: float | None) -> dict[str, int] | None:
        """Return the rows in the footers of Parquet and ORC. For other files, estimate the rows from the bytes per
        row."""
        by_part = {}
        for part, raw in self._raw.parts.items():
            files = self._raw.files.get(part)
            each = row_bytes if raw.cells is None else raw.cells.record_bytes
            if has_footers(raw.frame):
                by_part[part] = raw.frame.count()
            elif files and each:
                by_part[part] = round(sum(one.bytes for _, one in files) / each)
            else:
                return None
        return by_part

    def raw(self, spark: SparkSession) -> tuple[DataFrame, Reader]:
        return self._frame, self._line_reader() if self._by_line else self._reader

    def _line_reader(self) -> LineReader:
        reader, train = self._reader, self._raw.parts["train"]
        assert reader.cells is not None and train.lines is not None
        texts = [*reader.cells.names, *train.lines.columns[1:]]
        targets = (name for name in (reader.label, reader.weight) if name is not None)
        return LineReader(reader, [texts.index(name) for name in (*reader.features, *targets, *self.keep, *self._rest)])

    def _take_cells(self, config: InputConfig, train: RawFrame, chosen: Sequence[str]) -> None:
        """Make the reader read texts. chosen: the columns in the order of the reader's batches

        Raise InputError if the first row is a header, but `input.header` is false.
        """
        cells, reader = train.cells, self._reader
        assert cells is not None
        order = [chosen.index(name) for name in cells.names]
        self._reader = replace(reader, cells=replace(cells, sample=()), order=order)
        if cells.header or config.max_bad_rows or not cells.sample or reader.table is not None:
            return
        for name in (name for name in reader.features if name in cells.names):
            text = cells.sample[0][cells.names.index(name)]
            if problem := number_problem(text, reader.tensor.numpy_dtype, cells.nulls, reader.gaps, True):
                raise InputError(f"{cells.file}: row 1: {cells.say(name)}: {problem[0]}; {_IS_HEADER}")

    def _label(self, config: InputConfig, columns: Sequence[str], train: RawFrame) -> str | None:
        if config.label is None:
            return None
        if "label" not in config.model_fields_set:
            if train.label is not None:
                return train.label
            none = "None" if isinstance(config, DataFrameInput) else "null"
            raise config.error("label", f"must be the label's column, or {none} (there are {', '.join(columns)})")
        return column_of(config, "label", config.label, columns, self.place)

    def _text_bytes(self, frame: DataFrame) -> int:
        """Estimate the bytes of a table's texts in a row: twice the mean of the first rows."""
        from pyspark.sql import functions as sql

        names = [] if self.table is None else [column.name for column in self.table.texts]
        if not names:
            return 0
        places = [PLACE.format(frame.columns.index(name)) for name in names]
        lengths = [sql.coalesce(sql.octet_length(sql.col(place).cast("string")), sql.lit(0)) for place in places]
        some = by_place(frame).select(reduce(operator.add, lengths).alias("length")).limit(_FIRST_ROWS)
        mean = some.agg(sql.avg("length")).collect()[0][0]
        return round(2 * (mean or 0))

    def _array_length(self, config: InputConfig, frame: DataFrame, column: str) -> int:
        """Return the length of the arrays: that of the shape in `config`, otherwise that of the first row with
        values."""
        from pyspark.sql import functions as sql

        element = frame.schema[column].dataType.elementType.simpleString()  # type: ignore[attr-defined]
        if not is_number(element):
            raise InputError(f"{self.place}: column {column!r} holds {element}; features must be numbers")
        if config.shape is not None:
            return math.prod(config.shape)
        place = PLACE.format(frame.columns.index(column))
        first = by_place(frame).select(sql.size(place).alias("length")).where("length > 0").first()
        if first is None:
            raise InputError(f"{self.place}: column {column!r} has no values")
        return int(first[0])

    def _selected(self, part: str, raw: RawFrame, types: dict[str, str]) -> DataFrame:
        """Return what the reader takes. types: of the training rows' columns, which every other part must match"""
        if part != "train":
            self._check_alike(part, raw, types)
        if self._by_line:
            train = self._raw.parts["train"].lines
            assert train is not None
            return lines(part, raw, train.columns)
        texts = [*self.keep, *self._rest]
        return SparkColumns(self._reader, types, texts, self.label_kind, self._mixed).frame(part, raw)

    def _check_alike(self, part: str, raw: RawFrame, types: dict[str, str]) -> None:
        cells = self._reader.cells
        if cells is not None and raw.cells is not None and cells.names != raw.cells.names:
            raise InputError(f"{raw.cells.file}: its header differs from that of {cells.file}")
        used = {*self._reader.features, *self.keep, self._reader.label, self._reader.weight}
        types, of_part = (
            {name: kind for name, kind in of.items() if name in used or not is_index(name)}
            for of in (types, dict(raw.types))
        )
        for name, kind in types.items():
            if name not in of_part:
                raise InputError(f"{self.place}: the {part} files have no column {name!r}")
            numbers = is_number(kind) and (is_number(of_part[name]) or name in raw.folders)
            if of_part[name] != kind and not numbers:
                raise InputError(f"{self.place}: column {name!r} is {kind}, but {of_part[name]} in the {part} files")
        if more := [name for name in of_part if name not in types]:
            raise InputError(f"{self.place}: has no column {more[0]!r}, which the {part} files have")


def _fitted(description: Description | None) -> LabelSpec | None:
    """Return the label whose classes are known."""
    return None if description is None else description.label


def _mixed(raw: Raw) -> set[str]:
    """Return the columns of whole numbers in some parts, and of other numbers or texts of folders in other parts.

    Spark's union would round them: it makes float of int and float, and double of bigint and decimal.
    """
    kinds: dict[str, set[str]] = {}
    for part in raw.parts.values():
        for name, kind in part.types:
            kinds.setdefault(name, set()).add(kind)
    floats = {"float", "double"}
    texts = floats | {"string"}
    return {
        name
        for name, types in kinds.items()
        if len(types) > 1 and not types <= floats and any(kind in texts or "decimal(" in kind for kind in types)
    }


def _not_the_models(given: Sequence[str], features: Sequence[str]) -> list[str]:
    """Return messages about columns that a model was not trained on."""
    left = [name for name in given if name not in features]
    return [f"columns that the model was not trained on are left out: {', '.join(left)}"] if left else []


def _zeros_lost(
    train: RawFrame, features: Sequence[str], description: Description | None, wanted: Features | None
) -> list[str]:
    """Return messages about text columns whose numbers lose leading zeros, if neither a model nor the user sets their
    kind."""
    if description is not None or (cells := train.cells) is None or not cells.named:
        return []
    undecided = [name for name in features if (wanted or {}).get(name, FeatureConfig()).asked is None]
    return zeros_lost(cells.names, cells.sample, cells.nulls, undecided)


def _check_features(config: InputConfig, types: dict[str, str], features: Sequence[str]) -> None:
    for name in features:
        if not is_number(types[name]):
            raise InputError(
                f"{config.place}: column {name!r} is {types[name]}; features must be numbers, or one array of numbers: "
                "cast it, drop it, or name it in input.keep"
            )
