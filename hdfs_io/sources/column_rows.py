"""Rows of the record batches that columns.py has Spark hand over: tensors, labels, what is kept, and bad rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io.manifest import SPLITS
from hdfs_io.preprocessing import TensorSpec
from hdfs_io.sources.base import BadRow, ParsedRows
from hdfs_io.sources.cut_columns import CutColumns
from hdfs_io.sources.readers import plain_path

Bools = npt.NDArray[np.bool_]
_ROW_TEXT = 200
WHOLE_FLOAT32 = 2.0**24
"""From here on float32 does not have every whole number."""


@dataclass(frozen=True)
class ColumnReader:
    """Makes rows of the record batches; see `Reader`. array: whether the only feature is an array.

    gaps: whether a null is a missing value. rounds: whether the tensor's dtype was asked for, so that it may round.
    cut: the columns that the cut goes by; None where there are none.

    A batch has the columns of the features, the label, what is kept, what the cut goes by and what to show where it is
    null (where there is a `cut`), the part and the file.
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

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ParsedRows | BadRow]]:
        """The rows of all batches."""
        for batch in batches:
            for part, rows in _by_part(batch):
                yield from ((part, item) for item in self.read(rows))

    def read(self, batch: pa.RecordBatch) -> Iterator[ParsedRows | BadRow]:
        """The good rows together, and each bad one."""
        values, wrong = self._features(batch)
        label, bad_label = self._labels(batch)
        cut, bad_cut = self._cut(batch)
        bad = wrong.any(axis=1) | bad_label | bad_cut
        good = ~bad
        first = len(self.features) + (self.label is not None)
        keep = batch.columns[first : first + self.kept]
        if good.any():
            chosen = np.flatnonzero(good)
            yield ParsedRows(
                [np.ascontiguousarray(values[good]).reshape(-1, *self.tensor.shape)],
                [label[row] for row in chosen] if isinstance(label, list) else None if label is None else label[good],
                [column.take(pa.array(chosen)).to_pylist() for column in keep],
                None if cut is None else cut[good],
            )
        rows = np.flatnonzero(bad)
        found = [column.to_pylist() for column in batch.take(pa.array(rows)).columns] if len(rows) else []
        for row, cells in zip(rows.tolist(), zip(*found, strict=True), strict=True):
            yield self._bad(cells, wrong[row], bool(bad_label[row]))

    def _cut(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64] | None, Bools]:
        """What the cut goes by, 0 where that is null, and where it is, both [rows]."""
        if self.cut is None:
            return None, np.zeros(batch.num_rows, dtype=np.bool_)
        column = batch.column(batch.num_columns - 4)
        return column.fill_null(0).to_numpy(zero_copy_only=False), column.is_null().to_numpy(zero_copy_only=False)

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

    def _bad(self, cells: Sequence[Any], wrong: Bools, bad_label: bool) -> BadRow:
        """cells: of all columns of a batch. wrong: which values cannot be taken [values]"""
        place = plain_path(cells[-1]) if cells[-1] else self.place
        text = ", ".join(map(str, cells[: len(self.features) + (self.label is not None)]))[:_ROW_TEXT]
        reason, kind = self._reason(cells, wrong, bad_label)
        return BadRow(place, 0, reason, text, kind=kind)

    def _reason(self, cells: Sequence[Any], wrong: Bools, bad_label: bool) -> tuple[str, str]:
        """(why a row is bad, the same without its values)"""
        if not wrong.any():
            if not bad_label:
                assert self.cut is not None
                return self.cut.problem(cells[-3])
            value = cells[len(self.features)]
            shown = "null" if value is None else repr(value)
            subject = f"column {self.label!r}, the label"
            return f"{subject}: {shown} is no {self.label_kind}", f"{subject}: no {self.label_kind}"
        first = int(np.flatnonzero(wrong)[0])
        subject = f"column {self.features[0 if self.array else first]!r}"
        value = cells[0 if self.array else first]
        if self.array:
            if value is None or len(value) != self.tensor.values:
                has, kind = ("is null",) * 2 if value is None else (f"has {len(value)} values", "another length")
                return f"{subject}: {has}, {self.tensor.values} are needed", f"{subject}: {kind}"
            value = value[first]
        problem, kind = self._problem(value)
        return f"{subject}: {problem}", f"{subject}: {kind}"

    def _problem(self, value: float | None) -> tuple[str, str]:
        """(what is wrong with a value, the same without it)"""
        dtype = np.dtype(self.tensor.dtype)
        if value is None or math.isnan(value):
            hint = " (input.missing: mean fills gaps)" if dtype.kind == "f" else ""
            kind = "is null" if value is None else "is NaN"
            return kind + hint, kind
        if math.isinf(value):
            return f"{value} is not finite", "not finite"
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            wanted = f"not a whole number from {limits.min} to {limits.max} ({dtype.name})"
            return f"{value} is {wanted}", wanted
        with np.errstate(over="ignore"):
            rounded = float(dtype.type(value))
        if math.isinf(rounded):
            return f"{value} is not finite as {dtype.name}", f"not finite as {dtype.name}"
        return (
            f"{value} is {rounded:.0f} in float32, the default; set input.dtype (float64 keeps it, float32 rounds it)",
            "rounded by float32, the default",
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
