"""Makes rows of the record batches that columns.py requests from Spark: tensors, labels, kept columns and bad rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.labels import rounded
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.source import BadRows, ParsedRows
from sparksplit.prepare.tables.cells import (
    FILLS,
    UNDECODED,
    Bools,
    Cells,
    number_problem,
    numbers_of,
    round_to,
    short,
)
from sparksplit.prepare.tables.cut_columns import CutColumns
from sparksplit.prepare.tables.line_numbers import ROW_TEXT, line_mark
from sparksplit.prepare.tables.numbers import numbers
from sparksplit.prepare.tables.raw_frame import Decoder
from sparksplit.prepare.tables.readers import plain_path
from sparksplit.prepare.tables.table_rows import TableReader

ORIGIN = 3
"""Number of a batch's last columns, of where a row is from: the row's number, the part and the file."""
_LABEL, _CUT, _KEPT, _WEIGHT = -1, -2, -3, -4
"""Codes for what is wrong with a row whose features are good."""
_POINT = r"(\s*[+-]?[0-9]+)\.0*\s*"
"""A whole number that is written with a point. The group is the number without the point."""


@dataclass(frozen=True)
class ColumnReader:
    """Makes rows of record batches; see `Reader`.

    array: whether the only feature is an array.
    gaps: whether a null is a missing value.
    rounds: whether the user asked for the tensor's dtype, so that numbers may be rounded.
    cut: the columns that the cut uses, or None.
    decoder: makes the features of the only column.
    told: whether a row may be bad before its columns are checked.
    cells: how texts are read, if all columns are texts. order: then, the place in a batch of each column of the file.
    table: reads the features, if they are not one tensor of numbers.
    weight: the column of rows' weights, which follows the label.
    guessed: whether the first rows decided the `label_kind`, if there are `cells`.
    folders: the places of the kept columns that folders give. None of their texts stands for a missing value.
    spelled: the label that each text in lower case means, if labels are booleans.

    A batch has these columns: the features, the label, the weight, the kept columns, all other columns of a file of
    texts. With a `cut`: the cut value, and the text to show if it is null. If rows may be `told`: what is bad. Last
    come the row's number, the part and the file.
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
    cut: CutColumns | None = None
    decoder: Decoder | None = None
    told: bool = False
    cells: Cells | None = None
    order: Sequence[int] = ()
    table: TableReader | None = None
    weight: str | None = None
    guessed: bool = False
    folders: frozenset[int] = frozenset()
    spelled: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ParsedRows | BadRows]]:
        """Yield the rows of all batches."""
        before = 0
        for batch in batches:
            for part, rows in _by_part(batch):
                yield from ((part, item) for item in self.read(rows, before))
            before += batch.num_rows

    def read(self, batch: pa.RecordBatch, before: int = 0) -> Iterator[ParsedRows | BadRows]:
        """Yield the good rows together, then the bad rows. before: number of rows that the task had before"""
        tensors, texts, wrong = self._features(batch)
        weight, bad_weight = self._weights(batch)
        label, bad_label = self._labels(batch)
        cut, bad_cut = self._cut(batch)
        told = self._told(batch)
        first = self._weight_place + (self.weight is not None)
        keep = batch.columns[first : first + self.kept]
        bad = wrong.any(axis=1) | bad_label | bad_cut | bad_weight | told
        bad |= self._undecoded(keep, batch.num_rows)
        good = ~bad
        if good.any() or not len(good):
            chosen = np.flatnonzero(good)
            yield ParsedRows(
                [tensor if good.all() else tensor[good] for tensor in tensors],
                [label[row] for row in chosen] if isinstance(label, list) else None if label is None else label[good],
                [self._kept(place, column.take(pa.array(chosen))) for place, column in enumerate(keep)],
                None if cut is None else cut[good],
                [text.filter(pa.array(good)) for text in texts],
                None if weight is None else weight[good],
            )
        if not good.all():
            places = before + np.flatnonzero(bad) + 1
            # The first error of a row that is not `told`: a feature, the label, the cut value, the weight, a kept
            # column.
            other = np.select([bad_label, bad_cut, bad_weight], [_LABEL, _CUT, _WEIGHT], _KEPT)
            first_wrong = np.where(wrong.any(axis=1), wrong.argmax(axis=1) if wrong.shape[1] else 0, other)
            yield self._bad(batch.filter(pa.array(bad)), first_wrong[bad], told[bad], places)

    def _kept(self, place: int, column: pa.Array) -> list[str | None]:
        """Return the texts of a kept column. place: of the column among the kept columns

        In a file of texts, a text in `nulls` becomes null, and an empty cell becomes an empty text.
        """
        texts: list[str | None] = column.to_pylist()
        if self.cells is None or place in self.folders:
            return texts
        markers = set(self.cells.nulls) - {""}
        return [None if text in markers else text or "" for text in texts]

    def _undecoded(self, columns: Sequence[pa.Array], rows: int) -> Bools:
        """Return which rows have a text in these columns that the encoding could not decode."""
        mask = np.zeros(rows, dtype=np.bool_)
        for column in columns if self.cells is not None else ():
            mask |= pc.match_substring(column, UNDECODED).fill_null(False).to_numpy(zero_copy_only=False)
        return mask

    def _cut(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64] | None, Bools]:
        """Return (the cut values, with 0 for null; which of them are null), both [rows]."""
        if self.cut is None:
            return None, np.zeros(batch.num_rows, dtype=np.bool_)
        column = batch.column(self._cut_place(batch))
        return column.fill_null(0).to_numpy(zero_copy_only=False), column.is_null().to_numpy(zero_copy_only=False)

    def _cut_place(self, batch: pa.RecordBatch) -> int:
        return int(batch.num_columns) - 5 - self.told

    @property
    def _weight_place(self) -> int:
        """The place of the weights in a batch, if there are any."""
        return len(self.features) + (self.label is not None)

    def _weights(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[Any] | None, Bools]:
        """Return (the weights, float32 [rows], or None; which of them are bad [rows])."""
        if self.weight is None:
            return None, np.zeros(batch.num_rows, dtype=np.bool_)
        values, wrong = self._numbers(batch.column(self._weight_place), np.dtype(np.float32), False, True)
        return values + np.float32(0), wrong | (values < 0)  # -0 is 0

    def _told(self, batch: pa.RecordBatch) -> Bools:
        if not self.told:
            return np.zeros(batch.num_rows, dtype=np.bool_)
        column: Bools = batch.column(batch.num_columns - 4).is_valid().to_numpy(zero_copy_only=False)
        return column

    def _features(self, batch: pa.RecordBatch) -> tuple[list[npt.NDArray[Any]], list[pa.Array], Bools]:
        """Return (the tensors [rows, *shape], a table's texts [rows], which values or columns of a table are bad [rows,
        values])."""
        if self.table is not None:
            rows = self.table(batch.columns[: len(self.features)], batch.num_rows)
            return rows.tensors, rows.texts, rows.wrong
        values, wrong = self._one_tensor(batch)
        return [np.ascontiguousarray(values).reshape(-1, *self.tensor.shape)], [], wrong

    def _one_tensor(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[Any], Bools]:
        """Return (the values, which of them are bad), both [rows, values]."""
        dtype, rows = self.tensor.numpy_dtype, batch.num_rows
        if not self.array:
            # Filled column by column: a column is contiguous here.
            by_column = np.zeros((self.tensor.values, rows), dtype=dtype)
            refused = np.zeros(by_column.shape, dtype=np.bool_)
            for place in range(len(self.features)):
                given = batch.column(place)
                by_column[place], refused[place] = self._numbers(given, dtype, self.gaps, self.rounds)
            return by_column.T, refused.T
        column = batch.column(0)
        if self.decoder is not None:
            return self.decoder.values(column)
        values = np.zeros((rows, self.tensor.values), dtype=dtype)
        wrong = np.zeros(values.shape, dtype=np.bool_)
        lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        fits = lengths == self.tensor.values
        wrong[~fits] = True
        if self.gaps:  # a null array: all its values are missing
            values[lengths < 0], wrong[lengths < 0] = np.nan, False
        inner = column.filter(pa.array(fits)).flatten()
        parsed, problems = self._numbers(inner, dtype, self.gaps, self.rounds)
        values[fits], wrong[fits] = parsed.reshape(-1, self.tensor.values), problems.reshape(-1, self.tensor.values)
        return values, wrong

    def _labels(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[Any] | list[str] | None, Bools]:
        if self.label is None:
            return None, np.zeros(batch.num_rows, dtype=np.bool_)
        column = self._in_one_spelling(batch.column(len(self.features)))
        if self.label_kind == "text":
            texts = [text or "" for text in column.to_pylist()]
            return texts, np.array([bool(self._label_problem(text)) for text in texts], dtype=np.bool_)
        if self.label_kind == "integer" and pa.types.is_string(column.type):
            return self._classes(column)
        values, wrong = self._numbers(column, self._label_dtype, False, True)
        return rounded(values) if self.label_kind == "number" else values, wrong

    def _in_one_spelling(self, column: pa.Array) -> pa.Array:
        """Return the labels as they are, except that texts that are booleans have one spelling."""
        if not self.spelled or not pa.types.is_string(column.type):
            return column
        place = pc.index_in(pc.utf8_lower(pc.utf8_trim_whitespace(column)), pa.array(list(self.spelled), pa.string()))
        meant = pa.array(list(self.spelled.values()), pa.string()).take(place)
        missing = pc.is_in(column, pa.array(self._nulls, pa.string()))
        return pc.if_else(missing, column, pc.coalesce(meant, column))

    def _classes(self, texts: pa.Array) -> tuple[npt.NDArray[Any], Bools]:
        """Return (the labels, which are whole numbers in texts; which of them are bad), both [rows].

        If the first labels decided the type, a label with a point is bad, except 0.0 and 1.0. If it were among the
        first labels, all labels would be numbers to predict.
        """
        whole = pc.replace_substring_regex(texts, rf"\A{_POINT}\z", r"\1")
        values, wrong = self._numbers(whole, self._label_dtype, False, True)
        pointed = pc.not_equal(texts, whole).fill_null(False).to_numpy(zero_copy_only=False)
        if pointed.any():
            missing = pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(self._nulls, pa.string()))
            refused = missing.to_numpy(zero_copy_only=False)
            if self.guessed:
                refused = refused | ~np.isin(values, (0, 1))
            wrong = wrong | (pointed & refused)
        return values, wrong

    @property
    def _label_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64 if self.label_kind == "integer" else np.float64)

    @property
    def _nulls(self) -> tuple[str, ...]:
        return ("",) if self.cells is None else self.cells.nulls

    def _numbers(
        self, column: pa.Array, dtype: np.dtype[Any], gaps: bool, rounds: bool
    ) -> tuple[npt.NDArray[Any], Bools]:
        if pa.types.is_string(column.type):
            return numbers_of(column, dtype, self._nulls, gaps, rounds)
        return numbers(column, dtype, gaps, rounds)

    def _label_problem(self, text: str) -> tuple[str, str] | None:
        """Return (what is wrong with a text label, the message without the text), or None if the label is good."""
        if self.cells is None or self.label not in self.cells.names:
            return None if text else ("is null or empty", "is null or empty")
        if UNDECODED in text:
            return (f"is not {self.cells.encoding} text (input.encoding)",) * 2
        if not text.strip() or text in self.cells.nulls:
            return ("is empty", "is empty") if not text.strip() else (f"is {short(text)}", "is missing")
        return None

    def _bad(
        self, batch: pa.RecordBatch, first: npt.NDArray[np.int64], told: Bools, places: npt.NDArray[np.int64]
    ) -> BadRows:
        """Return the rows of `batch`. All of them are bad.

        first: for each row, the bad value or column of a feature, or one of _LABEL, _CUT, _KEPT, _WEIGHT [rows].
        told: which rows were bad before their columns were checked [rows].
        places: of the rows in the task, from 1.
        """
        rows = batch.num_rows
        texts, fatal = np.array(self._shown(batch), object), np.zeros(rows, np.bool_)
        reasons, kinds = np.empty(rows, object), np.empty(rows, object)
        for row in np.flatnonzero(told).tolist():
            bad = batch.column(batch.num_columns - 4)[row].as_py()
            texts[row], fatal[row] = bad["text"] or "", bool(bad["fatal"])
            if bad["reason"] is None and self.cells is not None:
                reasons[row], kinds[row] = self.cells.record_problem(texts[row])
            else:
                reasons[row] = kinds[row] = bad["reason"]
        for place in np.unique(first[~told]).tolist():
            chosen = np.flatnonzero((first == place) & ~told)
            of_cut = self._cut_place(batch) + 1
            other = {_KEPT: 0, _CUT: of_cut, _LABEL: len(self.features), _WEIGHT: self._weight_place}
            column = batch.column(other.get(place, 0 if self.array else place))
            known: dict[Any, tuple[str, str]] = {}
            for row, value in zip(chosen.tolist(), column.take(pa.array(chosen)).to_pylist(), strict=True):
                key = row if isinstance(value, list) else value
                if key not in known:
                    known[key] = self._reason(place, value)
                reasons[row], kinds[row] = known[key]
        files = {file: plain_path(file) if file else self.place for file in batch.columns[-1].unique().to_pylist()}
        paths = [files[file] for file in batch.columns[-1].to_pylist()]
        numbers, offset = batch.columns[-3].fill_null(0).to_pylist(), np.zeros(rows, np.int64)
        if self.cells is not None:
            numbers = [line_mark(text) for text in texts]
            offset = places
            texts = np.array([text[:ROW_TEXT] for text in texts], object)
        return BadRows.from_columns(
            path=paths, row=numbers, reason=reasons, text=texts, offset=offset, fatal=fatal, kind=kinds
        )

    def _shown(self, batch: pa.RecordBatch) -> list[str]:
        """Return the text of each row: the cells of a file of texts, or the values with their columns' names."""
        if self.cells is not None:
            cells = [batch.column(place).fill_null("") for place in self.order]
            joined: list[str] = pc.binary_join_element_wise(*cells, self.cells.delimiter).to_pylist()
            return joined
        chosen = slice(self.decoder is not None, self._weight_place)
        names = [*self.features, self.label][chosen]
        shown = [
            pc.binary_join_element_wise(f"{name}: ", _texts(column), "")
            for name, column in zip(names, batch.columns[chosen], strict=True)
        ]
        first = pa.repeat("", batch.num_rows)  # there may be nothing to show, for example for images without labels
        text = pc.utf8_slice_codeunits(pc.binary_join_element_wise(first, *shown, ", "), 2, ROW_TEXT + 2)
        texts: list[str] = text.to_pylist()
        return texts

    def _reason(self, place: int, value: Any) -> tuple[str, str]:
        """Return (why a row is bad, the reason without the row's values). value: the bad value

        place: of the bad feature, or of the bad value in the array, or one of _LABEL, ...
        """
        if place == _CUT:
            assert self.cut is not None
            return self.cut.problem(value)
        if place == _WEIGHT:
            shown = "null" if value is None else short(value) if isinstance(value, str) else value
            return f"column {self.weight!r}, the weight: {shown} is not a number of 0 or more", "bad weight"
        if self.cells is not None and (place < 0 or self.table is None):
            return self._text_reason(place, value)
        if place == _LABEL:
            shown, subject = "null" if value is None else repr(value), f"column {self.label!r}, the label"
            wanted = f"not {'an' if self.label_kind == 'integer' else 'a'} {self.label_kind}"
            return _about(subject, (f"{shown} is {wanted}", wanted))
        return self._feature_reason(place, value)

    def _feature_reason(self, place: int, value: Any) -> tuple[str, str]:
        """Like `_reason`, for a feature of a table, or one that is no text of a file."""
        if self.table is not None:
            name = self.features[place]
            subject = f"column {name!r}" if self.cells is None else self.cells.say(name)
            return _about(subject, self.table.problem(place, value))
        if self.decoder is not None:
            return self.decoder.problem(value)
        subject = f"column {self.features[0 if self.array else place]!r}"
        if self.array and value is not None:
            if len(value) != self.tensor.values:
                has = f"has {len(value)} values, {self.tensor.values} are needed"
                return _about(subject, (has, "another length"))
            value = value[place]
        return _about(subject, self._problem(value))

    def _text_reason(self, place: int, text: str | None) -> tuple[str, str]:
        """Like `_reason`, for a cell of a file of texts."""
        assert self.cells is not None
        if place == _KEPT:
            return (f"a column to keep is not {self.cells.encoding} text (input.encoding)",) * 2
        if place == _LABEL:
            assert self.label is not None
            subject = f"{self.cells.say(self.label)}, the label"
            if self.label_kind == "text":
                return _about(subject, self._label_problem(text or ""))
            if self._is_doubtful(text or ""):
                kind = "has a point and is neither 0.0 nor 1.0"
                keys = "set input.label_type: integer for classes, number for numbers to predict"
                return _about(subject, (f"{short(text)} {kind}; {keys}", kind))
            problem, kind = number_problem(text, self._label_dtype, self.cells.nulls, False, True) or ("", "")
            return _about(subject, (problem + self._label_hint(text or ""), kind))
        dtype, nulls = self.tensor.numpy_dtype, self.cells.nulls
        return _about(self.cells.say(self.features[place]), number_problem(text, dtype, nulls, self.gaps, self.rounds))

    def _is_doubtful(self, text: str) -> bool:
        """Return whether a label is a whole number with a point, although the first labels were taken for classes."""
        assert self.cells is not None
        if not self.guessed or self.label_kind != "integer" or self.cells.is_missing(text):
            return False
        point = re.fullmatch(_POINT, text, re.ASCII)
        return point is not None and number_problem(point[1], self._label_dtype, (), False, True) is None

    def _label_hint(self, text: str) -> str:
        """Return the hint for a label of another kind than the first labels. text: the label"""
        assert self.cells is not None
        if not self.guessed or self.cells.is_missing(text):
            return ""
        kind = "number" if number_problem(text, np.dtype(np.float64), (), False, True) is None else "text"
        return f", but the first labels are; input.label_type: {kind} accepts it"

    def _problem(self, value: Any) -> tuple[str, str]:
        """Return (what is wrong with a value, the message without the value)."""
        dtype = self.tensor.numpy_dtype
        if isinstance(value, str):
            return number_problem(value, dtype, (), self.gaps, self.rounds) or ("", "")
        if value is None or math.isnan(value):
            hint = FILLS if dtype.kind == "f" else ""
            kind = "is null" if value is None else "is NaN"
            return kind + hint, kind
        if math.isinf(value):
            return f"{value} is not finite", "not finite"
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            wanted = f"not a whole number from {limits.min} to {limits.max} ({dtype.name})"
            return f"{value} is {wanted}", wanted
        stored = float(round_to(np.array(value), dtype))
        if math.isinf(stored):
            return f"{value} is not finite as {dtype.name}", f"not finite as {dtype.name}"
        return (
            f"{value} is {stored:.0f} in float32, the default; set input.dtype (float64 keeps it, float32 rounds it)",
            "rounded by float32, the default",
        )


def _about(subject: str, problem: tuple[str, str] | None) -> tuple[str, str]:
    """Return a problem of `subject`, with and without the row's values."""
    shown, kind = problem or ("", "")
    return f"{subject}: {shown}", f"{subject}: {kind}"


def _texts(column: pa.Array) -> pa.Array:
    """Return the values as text, for messages."""
    if pa.types.is_nested(column.type):
        return pa.array([str(value) for value in column.to_pylist()], pa.string())
    return column.cast(pa.string()).fill_null("null")


def _by_part(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (part, its rows) for each part that has rows in a batch."""
    parts = batch.column(batch.num_columns - 2).to_numpy()
    for part in np.unique(parts).tolist():
        yield SPLITS[part], batch if (parts == part).all() else batch.filter(pa.array(parts == part))
