"""Parses a table's columns from Spark into values and texts, and finds the bad values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.features import times
from sparksplit.features.encoding import BOOLEANS, missing_value, spelled
from sparksplit.features.feature_config import Kind
from sparksplit.features.table import Column, Table
from sparksplit.prepare.tables.cells import UNDECODED, Bools, is_number, number_problem, numbers_of, short
from sparksplit.prepare.tables.numbers import numbers

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Parsed:
    """Rows of a table.

    tensors: as in `Table.tensors`, [rows, width].
    texts: as in `Table.texts`. Null or empty: missing.
    wrong: which columns have a bad value [rows, columns].
    """

    tensors: list[Array]
    texts: list[pa.Array]
    wrong: Bools


@dataclass(frozen=True)
class TableReader:
    """Parses the columns of `table`.

    nulls: texts that stand for a missing value.
    typed: whether columns have types. Then their texts are used as they are.
    folders: columns that folders give. Their texts are also used as they are.
    """

    table: Table
    nulls: tuple[str, ...]
    typed: bool
    folders: frozenset[str] = frozenset()

    def __call__(self, columns: Sequence[pa.Array], rows: int) -> Parsed:
        """Parse the rows. columns: of the features, in their order [rows]"""
        table = self.table
        tensors = [np.empty((spec.values, rows), spec.numpy_dtype) for spec in table.tensors]
        wrong = np.zeros((len(table.columns), rows), np.bool_)
        texts = []
        for number, (column, given) in enumerate(zip(table.columns, columns, strict=True)):
            if column.dtype is None:
                texts.append(self._spelled(column, given if column.name in self.folders else self._text(given)))
                wrong[number] = self._undecoded(texts[-1])
                continue
            tensor, place = table.places[column.name]
            values, wrong[number] = self._values(column, given)
            tensors[tensor][place : place + column.values] = values
        return Parsed([np.ascontiguousarray(tensor.T) for tensor in tensors], texts, wrong.T)

    def problem(self, place: int, value: Any) -> tuple[str, str]:
        """Return (what is wrong with a value of the column at `place`, the message without the value)."""
        column = self.table.columns[place]
        if column.dtype is None:
            return ("is not text in the files' encoding (input.encoding)",) * 2
        if column.kind == "date":
            wanted = "a time" if column.moment else "a day"
            example = times.example(column.moment, column.format)
            settled = column.format is not None or column.fitted is not None or column.type != "string"
            hint = "" if settled else f" (features.{column.name}.format sets another format)"
            return f"{short(value)} is not {wanted} like {example}{hint}", f"not {wanted}"
        dtype = np.dtype(column.dtype)
        if column.type.startswith("array<"):
            return self._array_problem(column, value)
        settled = self.typed or column.fitted is not None  # by the column's type, or by the fitted rows
        hint = "" if settled else f" (features: {{{column.name}: category}} takes any text)"
        if isinstance(value, str):
            wrong = number_problem(value, dtype, self.nulls, True, True)
            if wrong is None:
                return _number_problem(int(value), dtype)
            said, kind = wrong
            return said + (hint if kind == "not a number" else ""), kind
        return _number_problem(value, dtype)

    def _array_problem(self, column: Column, value: Any) -> tuple[str, str]:
        if value is not None and len(value) != column.values:
            return f"has {len(value)} values, {column.values} are needed", "another length"
        dtype = np.dtype(column.dtype)
        _, wrong = self._numbers(pa.array(value), dtype)
        return _number_problem(value[int(wrong.argmax())], dtype)

    def _text(self, given: pa.Array) -> pa.Array:
        """Return a column of texts. In a file of texts, a text in `nulls` becomes null."""
        if self.typed:
            return given
        missing = pc.is_in(given, pa.array(self._marks, pa.string()))
        return pc.if_else(missing, pa.scalar(None, pa.string()), given)

    def _spelled(self, column: Column, texts: pa.Array) -> pa.Array:
        """Return a category's texts in one spelling. A column that has the category's type has this spelling
        already."""
        if column.kind != "category" or (self.typed and column.fitted is None):
            return texts
        return spelled(column.type, texts)

    @property
    def _marks(self) -> tuple[str, ...]:
        """The texts that stand for a missing value."""
        return () if self.typed else self.nulls

    def _undecoded(self, texts: pa.Array) -> Bools | bool:
        if self.typed:
            return False
        mask: Bools = pc.match_substring(texts, UNDECODED).fill_null(False).to_numpy(zero_copy_only=False)
        return mask

    def _values(self, column: Column, given: pa.Array) -> tuple[Array, Bools]:
        """Return (the values [values, rows], which rows have a bad value [rows])."""
        assert column.dtype is not None
        dtype = np.dtype(column.dtype)
        if column.kind == "date":
            return self._date(column, given)
        if not pa.types.is_list(given.type):
            if column.values > 1:
                return np.zeros((column.values, len(given)), dtype), np.ones(len(given), np.bool_)
            values, wrong = self._numbers(given, dtype)
            return values[None], wrong
        lengths = given.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        fits = lengths == column.values
        by_row = np.full((len(given), column.values), missing_value(dtype), dtype)
        wrong = ~fits & (lengths >= 0)  # a null array: all its values are missing
        values, bad = self._numbers(given.filter(pa.array(fits)).flatten(), dtype)
        by_row[fits] = values.reshape(-1, column.values)
        wrong[fits] = bad.reshape(-1, column.values).any(axis=1)
        return by_row.T, wrong

    def _numbers(self, given: pa.Array, dtype: np.dtype[Any]) -> tuple[Array, Bools]:
        if pa.types.is_string(given.type):
            if dtype.kind == "f":
                return numbers_of(given, dtype, self._marks or ("",), True, True)
            texts = pc.utf8_trim_whitespace(given)
            empty = pc.is_in(texts, pa.array([None, "", "NaN", "nan", *self._marks], pa.string()))
            values, wrong = numbers_of(pc.if_else(empty, pa.scalar("0"), given), dtype, (), False, True)
            return _marked(values, wrong, empty.to_numpy(zero_copy_only=False))
        if dtype.kind == "f":
            return numbers(given, dtype, True, True)
        empty = given.is_null(nan_is_null=True)
        whole = pc.if_else(empty, pa.scalar(0, given.type), given)
        values, wrong = numbers(whole, dtype, False, True)
        return _marked(values, wrong, empty.to_numpy(zero_copy_only=False))

    def _date(self, column: Column, given: pa.Array) -> tuple[Array, Bools]:
        values, wrong = times.parsed(self._text(given), column.moment, column.format)
        return values[None], wrong


def _marked(values: Array, wrong: Bools, empty: Bools) -> tuple[Array, Bools]:
    """Return (whole numbers, with the mark of a missing value where `empty`; which are bad). A number that equals the
    mark is bad."""
    mark = missing_value(values.dtype)
    return np.where(empty, mark, values), ~empty & (wrong | (values == mark))


def _number_problem(value: Any, dtype: np.dtype[Any]) -> tuple[str, str]:
    if dtype.kind in "iu" and value is not None and value == np.iinfo(dtype).min:
        return f"{value} cannot be stored, because it marks a missing value", "the lowest number of its type"
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        wanted = f"not a whole number from {limits.min + 1} to {limits.max} ({dtype.name})"
        return f"{value} is {wanted}", wanted
    return f"{value} is not finite as {dtype.name}", f"not finite as {dtype.name}"


def has_texts(columns: int, sample: Sequence[Sequence[str]], nulls: Sequence[str]) -> bool:
    """Return whether one of the first columns of a sample's rows has values, but no number among them."""
    values = (_values(place, sample, nulls) for place in range(columns))
    return any(texts and not any(map(is_number, texts)) for texts in values)


def _values(place: int, sample: Sequence[Sequence[str]], nulls: Sequence[str]) -> list[str]:
    texts = (row[place].strip() for row in sample)
    return [text for text in texts if text and text not in nulls]


def text_types(
    names: Sequence[str],
    sample: Sequence[Sequence[str]],
    nulls: Sequence[str],
    kinds: Mapping[str, Kind | None] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the types that columns of texts seem to have: double, date, timestamp, boolean or string.

    Double, date and timestamp need nine in ten of the sample's values. The other rows become bad rows. Otherwise, every
    number of the column would become the name of a category. Boolean needs all values.

    kinds: the kinds that the user asks for. A category may have digits as names, which then stay strings
    """
    types = {}
    for place, name in enumerate(names):
        texts = _values(place, sample, nulls)
        days = ~times.parsed(pa.array(texts, pa.string()), True)[1]
        if _most(list(map(is_number, texts))):
            types[name] = "double"
        elif _most(days.tolist()):
            lengths = {len(text) for text, day in zip(texts, days.tolist(), strict=True) if day}
            types[name] = "date" if lengths == {10} else "timestamp"
        elif texts and all(text.lower() in BOOLEANS for text in texts):
            types[name] = "boolean"
        else:
            types[name] = "string"
        if types[name] not in _TAKEN_FOR.get(kinds.get(name), (types[name],)):
            types[name] = "string"
    return types


def zeros_lost(
    names: Sequence[str], sample: Sequence[Sequence[str]], nulls: Sequence[str], features: Sequence[str]
) -> list[str]:
    """Return messages about `features` that are read as numbers, but have texts with leading zeros such as 00501.

    Such texts may be names.
    """
    types = text_types(names, sample, nulls)
    said = []
    for place, name in enumerate(names):
        text = next(filter(_BEGINS_WITH_ZERO.fullmatch, _values(place, sample, nulls)), None)
        if name in features and types[name] == "double" and text is not None:
            said.append(
                f"column {name!r} holds {text!r}, which is read as the number {int(text)}. If these are names, set "
                f"features.{name}: category"
            )
    return said


def _most(good: Sequence[bool]) -> bool:
    return bool(good) and 10 * sum(good) >= 9 * len(good)


def header_column(sample: Sequence[Sequence[str]], nulls: Sequence[str]) -> int | None:
    """Return the first column that shows that the sample's first row is a header, or None if it is no header.

    In a header, all columns that have numbers, dates or booleans in the rows below have a text.
    """
    places = [f"{place}" for place in range(len(sample[0]) if sample else 0)]
    first, below = (text_types(places, rows, nulls) for rows in (sample[:1], sample[1:]))
    columns = [place for place, name in enumerate(places) if below[name] != "string"]
    texts = [
        place for place in columns if first[f"{place}"] == "string" and sample[0][place].strip() not in ("", *nulls)
    ]
    return texts[0] if texts and texts == columns else None


_BEGINS_WITH_ZERO = re.compile("0[0-9]{1,30}")
_TAKEN_FOR: Mapping[Kind | None, tuple[str, ...]] = {
    "number": ("double",),
    "category": ("boolean",),
    "date": ("date", "timestamp"),
    "text": (),
}
