"""Record batches of raw columns to rows, in executors: numbers as the tensor's dtype has them, and what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hdfs_io.manifest import SPLITS
from hdfs_io.preprocessing import TensorSpec
from hdfs_io.sources.base import BadRow, ParsedRows
from hdfs_io.sources.cells import UNDECODED, WHOLE_FLOAT32, Bools, Cells, number_problem, numbers_of, short
from hdfs_io.sources.line_numbers import line_mark
from hdfs_io.sources.readers import plain_path

_ROW_TEXT = 200


@dataclass(frozen=True)
class ColumnReader:
    """Makes rows of record batches; see `base.Reader`. array: whether the only feature is an array.

    gaps: whether a null is a missing value. rounds: whether the tensor's dtype was asked for, so that it may round.
    limit: how many bad rows there may be. cut: how many columns the cut goes by.

    A batch has the columns of the features, the label, what is kept, what the cut goes by, the text of a record that
    does not fit, the part and the file. cells: how texts are read, where all columns are texts; order: then, where in a
    batch each column of the file is.
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
    cells: Cells | None = None
    order: Sequence[int] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ParsedRows | BadRow]]:
        """Reports bad rows up to the first one too many, which ends the job: each costs some 0.4 ms. The batches are
        still read to their end, as Spark expects."""
        bad, before = 0, 0
        for batch in batches:
            for part, rows in _by_part(batch) if bad <= self.limit else ():
                for item in self.read(rows, before) if bad <= self.limit else ():
                    yield part, item
                    bad += isinstance(item, BadRow)
                    if bad > self.limit:
                        break
            before += batch.num_rows

    def cut_values(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns that the cut goes by, in its order."""
        first = len(self.features) + (self.label is not None) + self.kept
        return list(batch.columns[first : first + self.cut])

    def read(self, batch: pa.RecordBatch, before: int = 0) -> Iterator[ParsedRows | BadRow]:
        """The good rows together, and each bad one. before: rows that the task has had before these."""
        fits = batch.column(batch.num_columns - 3).is_null().to_numpy(zero_copy_only=False)
        rows = batch if fits.all() else batch.filter(pa.array(fits))
        values, wrong = self._features(rows)
        label, bad_label = self._labels(rows)
        first = len(self.features) + (self.label is not None)
        keep = rows.columns[first : first + self.kept]
        bad = wrong.any(axis=1) | bad_label | self._unreadable(keep, rows.num_rows)
        if not bad.all():
            chosen = np.flatnonzero(~bad)
            yield ParsedRows(
                [np.ascontiguousarray(values[chosen]).reshape(-1, *self.tensor.shape)],
                [label[row] for row in chosen] if isinstance(label, list) else None if label is None else label[chosen],
                [self._kept(column.take(pa.array(chosen))) for column in keep],
            )
        # In the order of the file, so that the first ones are reported.
        among = np.cumsum(fits) - 1
        for place in np.flatnonzero(~fits | bad[among]).tolist() if bad.any() else np.flatnonzero(~fits).tolist():
            row, number = list(batch.slice(place, 1).to_pylist()[0].values()), before + place + 1
            if fits[place]:
                yield self._bad(row, wrong[among[place]], bool(bad_label[among[place]]), number)
            else:
                yield self._broken(row, number)

    def _features(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[Any], Bools]:
        """(the values, and which of them cannot be taken), both [rows, values]."""
        dtype, rows = self.tensor.numpy_dtype, batch.num_rows
        # Filled column by column: a column is contiguous here.
        values = np.zeros((self.tensor.values, rows), dtype=dtype)
        wrong = np.zeros(values.shape, dtype=np.bool_)
        if not self.array:
            for place in range(len(self.features)):
                values[place], wrong[place] = self._numbers(batch.column(place), dtype, self.gaps, self.rounds)
            return values.T, wrong.T
        return self._array_values(batch.column(0), dtype)

    def _array_values(self, column: pa.Array, dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], Bools]:
        values = np.zeros((len(column), self.tensor.values), dtype=dtype)
        wrong = np.zeros(values.shape, dtype=np.bool_)
        lengths = column.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        fits = lengths == self.tensor.values
        wrong[~fits] = True
        inner = column.filter(pa.array(fits)).flatten()
        found, problems = numbers(inner, dtype, self.gaps, self.rounds)
        values[fits], wrong[fits] = found.reshape(-1, self.tensor.values), problems.reshape(-1, self.tensor.values)
        return values, wrong

    def _numbers(
        self, column: pa.Array, dtype: np.dtype[Any], gaps: bool, rounds: bool
    ) -> tuple[npt.NDArray[Any], Bools]:
        if pa.types.is_string(column.type):
            return numbers_of(column, dtype, self._nulls, gaps, rounds)
        return numbers(column, dtype, gaps, rounds)

    @property
    def _nulls(self) -> tuple[str, ...]:
        return ("",) if self.cells is None else self.cells.nulls

    def _labels(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[Any] | list[str] | None, Bools]:
        if self.label is None:
            return None, np.zeros(batch.num_rows, dtype=np.bool_)
        column = batch.column(len(self.features))
        if self.label_kind == "text":
            texts = [text or "" for text in column.to_pylist()]
            return texts, np.array([self._label_problem(text) is not None for text in texts], dtype=np.bool_)
        dtype = np.dtype(np.int64 if self.label_kind == "integer" else np.float32)
        return self._numbers(column, dtype, False, True)

    def _label_problem(self, text: str) -> str | None:
        """What is wrong with a label that is a text."""
        if self.cells is None:
            return None if text else "is null or empty"
        if UNDECODED in text:
            return self._undecoded
        return None if text.strip() and text not in self.cells.nulls else f"is {short(text) if text else 'empty'}"

    def _kept(self, column: pa.Array) -> list[str | None]:
        """The texts to keep; of a file of texts null is a marker's place, and an empty cell an empty text."""
        texts: list[str | None] = column.to_pylist()
        if self.cells is None:
            return texts
        markers = set(self.cells.nulls) - {""}
        return [None if text in markers else text or "" for text in texts]

    def _unreadable(self, keep: Sequence[pa.Array], rows: int) -> Bools:
        """Which rows keep a text that could not be decoded."""
        found = np.zeros(rows, dtype=np.bool_)
        for column in keep if self.cells is not None else ():
            found |= pc.match_substring(column, UNDECODED).fill_null(False).to_numpy(zero_copy_only=False)
        return found

    @property
    def _undecoded(self) -> str:
        assert self.cells is not None
        return f"is not {self.cells.encoding} text (input.encoding)"

    def _broken(self, found: list[Any], number: int) -> BadRow:
        assert self.cells is not None
        *_, record, _, file = found
        return self._text_row(file, self.cells.record_problem(record), record, number)

    def _text_row(self, file: str | None, reason: str, text: str, number: int) -> BadRow:
        """A bad row of a file of texts, whose line is looked up by its text. number: of the row in the task: what comes
        first is reported first."""
        return BadRow(plain_path(file) if file else self.place, number, reason, text[:_ROW_TEXT], line_mark(text))

    def _bad(self, found: list[Any], wrong: Bools, bad_label: bool, number: int) -> BadRow:
        if self.cells is not None:
            text = self.cells.delimiter.join(found[place] or "" for place in self.order)
            return self._text_row(found[-1], self._text_problem(found, wrong, bad_label), text, number)
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

    def _text_problem(self, found: Sequence[str | None], wrong: Bools, bad_label: bool) -> str:
        """What is wrong with the cells of a row."""
        assert self.cells is not None
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            dtype = self.tensor.numpy_dtype
            problem = number_problem(found[first], dtype, self.cells.nulls, self.gaps, self.rounds)
            return f"{self.cells.say(self.features[first])}: {problem}"
        if bad_label:
            assert self.label is not None
            text = found[len(self.features)] or ""
            if self.label_kind == "text":
                said = self._label_problem(text)
            else:
                dtype = np.dtype(np.int64 if self.label_kind == "integer" else np.float32)
                said = number_problem(text, dtype, self.cells.nulls, False, True)
            return f"{self.cells.say(self.label)}, the label: {said}"
        return f"a column to keep {self._undecoded}"

    def _problem(self, value: Any) -> str:
        dtype = np.dtype(self.tensor.dtype)
        if isinstance(value, str):
            return str(number_problem(value, dtype, (), self.gaps, self.rounds))
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
                wrong |= lost & (np.abs(raw.astype(np.float64)) >= WHOLE_FLOAT32)
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
