"""The columns of a CSV file's lines: features and label as numbers, the columns to keep as text; and what is wrong with
a cell that cannot be converted."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv as arrow_csv

from hdfs_io.preprocessing import TensorSpec
from hdfs_io.sources import csv_lines
from hdfs_io.sources.base import ParsedRows
from sparksplit.base.errors import InputError

_REASON = 200
"""How many characters of pyarrow's message are kept."""
_PLAIN = re.compile(r"[+-]?\d+(\.\d*)?", re.ASCII)
_WHOLE_FLOAT32 = 2.0**24
"""From here on float32 does not have every whole number: the next one is rounded to this."""


@dataclass(frozen=True)
class Columns:
    """What each column of a file is, by its position from 0.

    names: all columns' names. header: whether the file gives them. features: in order, the tensor's values. gaps:
    whether an empty cell of a feature is a missing value. rounds: whether the tensor's dtype was asked for, so that it
    may round.
    """

    names: Sequence[str]
    delimiter: str
    header: bool
    features: list[int]
    tensor: TensorSpec
    label: int | None
    label_kind: str | None
    kept: Sequence[int]
    gaps: bool
    rounds: bool

    def convert(self, content: bytes) -> ParsedRows:
        """All rows of a block; raises pa.ArrowInvalid or ValueError where one of them is bad."""
        tensor = self.tensor
        names = self._places()
        parsed = np.dtype("float32" if tensor.dtype == "float16" else tensor.dtype)
        types = {names[column]: pa.from_numpy_dtype(parsed) for column in self.features}
        types |= {names[column]: pa.string() for column in self.kept}
        if self.label is not None:
            types[names[self.label]] = {"integer": pa.int64(), "number": pa.float32()}.get(
                self.label_kind or "", pa.string()
            )
        table = self._table(content, types)
        values = np.empty((len(self.features), table.num_rows), dtype=tensor.numpy_dtype)
        for place, column in enumerate(self.features):
            values[place] = _numbers(table.column(column), self.gaps)
        if values.dtype.kind == "f":
            wrong = np.isinf(values).any() if self.gaps else not np.isfinite(values).all()
            if wrong:
                raise ValueError("a number is not finite")
            if not self.rounds:
                self._check_rounding(content, np.abs(values) >= _WHOLE_FLOAT32)
        label: npt.NDArray[Any] | list[str] | None = None
        if self.label is not None:
            column = table.column(self.label)
            if self.label_kind == "text":
                label = column.to_pylist()
                if not all(label):
                    raise ValueError("a label is empty")
            else:
                label = _numbers(column, False)
                if label.dtype.kind == "f" and not np.isfinite(label).all():
                    raise ValueError("a label is not finite")
        keep = [table.column(column).to_pylist() for column in self.kept]
        return ParsedRows([np.ascontiguousarray(values.T).reshape(-1, *tensor.shape)], label, keep)

    def reason(self, line: bytes, error: Exception | None) -> str:
        """What is wrong with a row that could not be converted. error: what `convert` raised for it alone."""
        try:
            fields = csv_lines.split(line, self.delimiter)
        except InputError as unreadable:
            return str(unreadable)
        if len(fields) != len(self.names):
            return f"has {len(fields)} columns, {len(self.names)} are needed"
        for column, field in enumerate(fields):
            place = f"column {column + 1}" + (f" ({self.names[column]})" if self.header else "")
            if column == self.label:
                problem = label_problem(field, self.label_kind)
                place += ", the label"
            elif column in self.kept:
                continue
            else:
                problem = _number_problem(field, self.tensor.numpy_dtype, self.gaps)
                if problem is None and not self.rounds:
                    problem = rounding_problem(field)
            if problem:
                return f"{place}: {problem}"
        return f"cannot be parsed: {' '.join(str(error).split())[:_REASON]}"

    def _places(self) -> list[str]:
        return [str(column) for column in range(len(self.names))]

    def _table(self, content: bytes, types: dict[str, pa.DataType], columns: list[str] | None = None) -> pa.Table:
        """The block's `columns` (None: all), named by their positions."""
        return arrow_csv.read_csv(
            pa.BufferReader(content),
            read_options=arrow_csv.ReadOptions(
                column_names=self._places(), use_threads=False, block_size=max(len(content) + 1, 2)
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=False, include_columns=columns
            ),
        )

    def _check_rounding(self, content: bytes, large: npt.NDArray[np.bool_]) -> None:
        """Raise ValueError where the default dtype would change a feature. large: which may be so, [features, rows]"""
        places = np.flatnonzero(large.any(axis=1))
        if not len(places):
            return
        names = [str(self.features[place]) for place in places]
        table = self._table(content, dict.fromkeys(names, pa.string()), names)
        for place, name in zip(places, names, strict=True):
            if any(map(rounding_problem, table.column(name).filter(pa.array(large[place])).to_pylist())):
                raise ValueError("a number is rounded")


def kind_of(reason: str) -> str:
    """The reason why a row is bad without the row's own values."""
    if reason.startswith("has ") and reason.endswith("are needed"):
        return "another number of columns"
    place, _, problem = reason.partition(": ")
    if " in float32, the default" in problem:
        return f"{place}: rounded by float32, the default"
    return (
        f"{place}: {problem.rpartition(' is ')[2]}" if problem[:1] in "'\"" else reason.partition(" (input.missing")[0]
    )


def label_problem(field: str, kind: str | None) -> str | None:
    """Why `field` is not a label of that kind; None where it is one."""
    if not field.strip():
        return "is empty"
    if kind == "text":
        return None
    return _number_problem(field, np.dtype(np.int64 if kind == "integer" else np.float32), False)


def rounding_problem(field: str) -> str | None:
    """What is wrong with a number, written without an exponent, whose whole part float32 would change, or None."""
    text = field.strip()
    if not _PLAIN.fullmatch(text):
        return None
    with np.errstate(over="ignore"):
        rounded = Decimal(float(np.float32(text)))
    if abs(rounded - Decimal(text)) < Decimal("0.5"):
        return None
    return (
        f"{_short(field)} is {rounded:f} in float32, the default; set input.dtype (float64 keeps it, float32 rounds it)"
    )


def _numbers(column: pa.ChunkedArray, gaps: bool) -> npt.NDArray[Any]:
    if column.null_count and not gaps:
        raise ValueError("a cell is empty")
    array: npt.NDArray[Any] = column.to_numpy()
    if gaps:
        # One bit pattern for every missing value, since the row's hash covers the bits.
        array = np.where(np.isnan(array), np.array(np.nan, dtype=array.dtype), array)
    return array


def _number_problem(field: str, dtype: np.dtype[Any], gaps: bool) -> str | None:
    text = field.strip()
    if not text or (dtype.kind == "f" and text.lower() == "nan"):
        return None if gaps else "is empty" + (" (input.missing: mean fills gaps)" if dtype.kind == "f" else "")
    try:
        if dtype.kind == "f":
            return None if math.isfinite(float(text)) else f"{_short(field)} is not a finite number"
        limits = np.iinfo(dtype)
        if int(limits.min) <= int(text) <= int(limits.max):
            return None
        return f"{_short(field)} is not a whole number from {limits.min} to {limits.max} ({dtype.name})"
    except ValueError:
        kind = "a number" if dtype.kind == "f" else f"a whole number ({dtype.name})"
        return f"{_short(field)} is not {kind}"


def _short(field: str) -> str:
    return repr(field if len(field) <= 40 else field[:37] + "...")
