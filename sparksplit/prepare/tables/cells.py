"""Parses cells of files without column types into numbers, and says what is wrong with a bad cell.

Whole numbers are parsed straight into an integer dtype, so 64-bit integers are exact. Other numbers are parsed as
float64 and then rounded by `round_to`, as a column of float64 is.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.base.errors import InputError

Bools = npt.NDArray[np.bool_]
WHOLE_FLOAT32 = 2.0**24
"""From here on, float32 does not have every whole number. The next whole number is rounded to this one."""
csv.field_size_limit(2**31 - 1)
"""Python's own limit, of 128 KiB, is below that of Spark's reader; a C long holds no more than this everywhere."""
UNDECODED = "\ufffd"
"""The character in place of bytes that the encoding does not have."""

_PLAIN = re.compile(r"[+-]?\d+(\.\d*)?", re.ASCII)
_INTEGER = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
_FLOAT = rf"{_NUMBER}|[+-]?(?i:nan|inf|infinity)"
_WHOLE_FLOAT = f"^({_FLOAT})$"
_SHOWN = 40

FILLS = "; input.missing: mean fills missing values"
"""What to do about a missing number, behind the problem."""


@dataclass(frozen=True)
class Cells:
    """Text files with columns.

    file: one of the files.
    names: of the columns. named: whether the user gave these names.
    header: whether each file begins with the names.
    nulls: texts that stand for a missing value.
    sample: the fields of some records.
    record_bytes: approximate bytes of a record in a file.
    """

    file: str
    names: tuple[str, ...]
    named: bool
    header: bool
    delimiter: str
    quote: str | None
    nulls: tuple[str, ...]
    encoding: str
    multiline: bool
    sample: tuple[list[str], ...] = ()
    record_bytes: float = 1.0

    def say(self, name: str) -> str:
        """Return the name of a column for error messages."""
        return f"column {name!r}" if self.named or name not in self.names else f"column {self.names.index(name) + 1}"

    def is_missing(self, text: str) -> bool:
        """Whether a cell is empty, or a text that stands for a missing value."""
        return not text.strip() or text.strip() in self.nulls

    def record_problem(self, record: str) -> tuple[str, str]:
        """Return (what is wrong with a record that does not have one cell for each column, the message without
        numbers)."""
        if self.quote is not None and record.count(self.quote) % 2:
            hint = "" if self.multiline else " (input.multiline: true reads line breaks within quotes)"
            return (f"a quoted field does not close on its line{hint}",) * 2
        try:
            count = len(split(record, self.delimiter, self.quote))
        except InputError as error:
            return (str(error),) * 2
        return f"has {count} columns, {len(self.names)} are needed", "another number of columns"


def split(record: str, delimiter: str, quote: str | None) -> list[str]:
    """Return the fields of one record. Raise InputError if Python's parser fails."""
    lines = io.StringIO(record, newline="")
    try:
        if quote is None:
            return next(csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE), [])
        return next(csv.reader(lines, delimiter=delimiter, quotechar=quote), [])
    except csv.Error as error:
        raise InputError(f"cannot be split into columns: {error}") from None


def numbers_of(
    cells: pa.Array, dtype: np.dtype[Any], nulls: Sequence[str], gaps: bool, rounds: bool
) -> tuple[npt.NDArray[Any], Bools]:
    """Return (the texts `cells` as `dtype`, which of them are bad), both [rows]. The value of a bad cell is 0.

    nulls: texts that stand for a missing value. "" is an empty cell, which may also be null here.
    gaps: whether a missing value may be stored, as NaN in a float dtype.
    rounds: whether a number may lose the last digits of its whole part.
    """
    parsed = pa.float64() if dtype.kind == "f" else pa.from_numpy_dtype(dtype)
    texts, empty, blank = cells, cells.is_null(), cells.is_null()
    wrong = np.zeros(len(cells), np.bool_)
    try:
        # Arrow would accept hexadecimal digits, and texts in `nulls` that are numbers. It cannot parse other texts in
        # `nulls`.
        if any(map(is_number, nulls)) or (dtype.kind in "iu" and _has_x(cells)):
            raise pa.ArrowInvalid
        numbers = pc.cast(cells, parsed)
        if dtype.kind == "f" and _has_odd_nan(cells, numbers):
            raise pa.ArrowInvalid
    except pa.ArrowInvalid:
        texts = pc.utf8_trim_whitespace(cells)
        blank = pc.equal(texts, "").fill_null(True)
        empty = pc.or_(blank, pc.is_in(texts, pa.array(list(nulls), pa.string())))
        if dtype.kind in "iu":
            valid = pa.array([fits(text, dtype) for text in texts.to_pylist()], pa.bool_())
        else:
            valid = pc.match_substring_regex(texts, _WHOLE_FLOAT).fill_null(False)
        wrong = pc.and_not(pc.invert(valid), empty).to_numpy(zero_copy_only=False)
        numbers = _cast(pc.if_else(pc.and_not(valid, empty), texts, pa.scalar(None, pa.string())), parsed)
    if "" not in nulls:
        wrong = wrong | blank.to_numpy(zero_copy_only=False)
    missing = empty.to_numpy(zero_copy_only=False)
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    if dtype.kind == "f":
        exact, values = values, round_to(values, dtype)
        missing = missing | np.isnan(values)
        wrong = wrong | np.isinf(values)
        if not rounds:
            for row in np.flatnonzero((np.abs(exact) >= WHOLE_FLOAT32) & ~wrong).tolist():
                wrong[row] = rounding(cells[row].as_py()) is not None
    missing = missing & ~wrong
    if not gaps:
        wrong = wrong | missing
    values = np.where(wrong | missing, dtype.type(0), values).astype(dtype, copy=False)
    # One bit pattern for every missing value, because the row's hash covers the bits.
    return (np.where(missing, dtype.type(np.nan), values) if gaps and dtype.kind == "f" else values), wrong


def round_to(numbers: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return numbers as the float `dtype`, rounded from float64. A number that is too large becomes infinite.

    float16 is rounded by way of float32, as TensorFlow does it in an exported model.
    """
    with np.errstate(over="ignore"):
        if numbers.dtype.kind in "iu":
            numbers = numbers.astype(np.float64)
        if dtype == np.float16:
            numbers = numbers.astype(np.float32, copy=False)
        return numbers.astype(dtype, copy=False)


def _has_x(cells: pa.Array) -> bool:
    """Return whether one of the texts may contain an `x`."""
    data = cells.buffers()[2]
    return data is not None and bool(((np.frombuffer(data, np.uint8) | 0x20) == ord("x")).any())


def _has_odd_nan(texts: pa.Array, numbers: pa.Array) -> bool:
    """Return whether only Arrow reads one of the texts as NaN, for example `nan(ind)`. numbers: what Arrow made of the
    texts"""
    nan = pc.is_nan(numbers)
    return bool(pc.any(nan).as_py()) and not pc.all(pc.match_substring_regex(texts.filter(nan), _WHOLE_FLOAT)).as_py()


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the numbers of texts that are known to be numbers or null. A number that is too large becomes infinite."""
    texts = pc.replace_substring_regex(texts, r"^\+", "")
    if pa.types.is_unsigned_integer(kind):
        texts = pc.replace_substring_regex(texts, r"^-", "")
    try:
        return pc.cast(texts, kind)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_cast_one(texts.slice(place, 1), kind) for place in range(len(texts))])


def _cast_one(text: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return pc.cast(text, kind)
    except pa.ArrowInvalid:
        return pa.array([math.inf], kind)


def is_number(text: str) -> bool:
    """Return whether `text` is a number, nan or infinity."""
    return re.fullmatch(_FLOAT, text.strip()) is not None


def fits(text: str | None, dtype: np.dtype[Any]) -> bool:
    """Return whether `text` is a whole number that the integer `dtype` can hold."""
    if text is None or not re.fullmatch(_INTEGER, text):
        return False
    limits = np.iinfo(dtype)
    return len(text) < 30 and int(limits.min) <= int(text) <= int(limits.max)


def number_problem(
    text: str | None, dtype: np.dtype[Any], nulls: Sequence[str], gaps: bool, rounds: bool
) -> tuple[str, str] | None:
    """Return (why a cell is no number of `dtype`, the reason without its text), or None if it is one.

    For the arguments, see `numbers_of`.
    """
    stripped = (text or "").strip()
    if not stripped and "" not in nulls:
        return ("is empty, which input.nulls does not list",) * 2
    if not stripped or stripped in nulls or (dtype.kind == "f" and stripped.lower().lstrip("+-") == "nan"):
        hint = FILLS if dtype.kind == "f" else ""
        kind = "is empty" if not stripped else f"is {short(stripped)}"
        return None if gaps else (kind + hint, kind)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        between = f" from {limits.min} to {limits.max}" if re.fullmatch(_INTEGER, stripped) else ""
        said = f"not a whole number{between} ({dtype.name})"
        return None if fits(stripped, dtype) else (f"{short(text)} is {said}", said)
    if not re.fullmatch(_FLOAT, stripped):
        return f"{short(text)} is not a number", "not a number"
    if not np.isfinite(round_to(np.array(float(stripped)), dtype)):
        return f"{short(text)} is not a finite number", "not finite"
    return None if rounds else rounding(text)


def rounding(text: str | None) -> tuple[str, str] | None:
    """Return what is wrong with a number whose whole part float32 would change, or None.

    Numbers that are written with an exponent are not checked.
    """
    short_number = changed(text, np.dtype(np.float32))
    if short_number is None:
        return None
    keeps = "set input.dtype (float64 keeps it, float32 rounds it)"
    return f"{short(text)} is {short_number:f} in float32, the default; {keeps}", "rounded by float32, the default"


def changed(text: str | None, dtype: np.dtype[Any]) -> Decimal | None:
    """Return the number that the float `dtype` has instead, if it changes the whole part of the number in `text`.

    None for other numbers, for numbers that are written with an exponent, and for texts that are not numbers.
    """
    stripped = (text or "").strip()
    if not _PLAIN.fullmatch(stripped) or abs(float(stripped)) < WHOLE_FLOAT32:
        return None
    stored = Decimal(float(round_to(np.array(float(stripped)), dtype)))
    return None if abs(stored - Decimal(stripped)) < Decimal("0.5") else stored


def short(text: str | None) -> str:
    """Return `text` as error messages show it."""
    return repr(text if text is None or len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")


def label_kind(texts: Sequence[str | None]) -> str:
    """Return the kind of all these labels: integer, number or text."""
    if all(re.fullmatch(_INTEGER, (text or "").strip()) for text in texts):
        return "integer"
    finite = all(number_problem(text, np.dtype(np.float64), ("",), False, True) is None for text in texts)
    return "number" if finite else "text"
