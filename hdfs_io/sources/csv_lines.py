"""Lines of a CSV file: what makes one line one row, whatever stands before and after it.

A line ends in LF or CR LF. A quote opens a quoted field only where the field begins, and only the quote that closes it
ends it: `""` within stands for one quote, and what follows up to the delimiter is taken as it is.
"""

from __future__ import annotations

import csv as stdlib_csv
import functools
import re
from typing import Any

from sparksplit.base.errors import InputError

OPEN_QUOTE = "a quoted field does not close on its line"
INNER_CR = "has a carriage return within the line (lines end in LF or CR LF)"
LINE_BYTES = 64 * 1024 * 1024
"""A longer line means that the file is not CSV."""
_INNER_CR = re.compile(rb"\r[^\r\n]")
_NOT_BLANK = re.compile(rb"^(?=\r*[^\r\n])", re.MULTILINE)


def read(path: str, stream: Any) -> bytes:
    """The next line of `stream`, or the rest of it. Raises InputError where it is too long for a line of CSV."""
    line: bytes = stream.readline(LINE_BYTES + 1)
    if len(line) > LINE_BYTES:
        raise too_long(path)
    return line


def too_long(path: str) -> InputError:
    """The error about a line of more than LINE_BYTES."""
    return InputError(f"{path}: has a line of more than {LINE_BYTES} bytes; is it a CSV file?")


def count(content: bytes) -> int:
    """How many lines of `content` are not blank."""
    if content[:1] in (b"", b"\r", b"\n") or b"\n\n" in content or b"\n\r" in content:
        return sum(1 for _ in _NOT_BLANK.finditer(content))
    # Ten times as fast; no line is blank here, as the check above would have found it.
    return content.count(b"\n") + (content[-1:] != b"\n")


def has_inner_cr(content: bytes) -> bool:
    """Whether there is a carriage return anywhere but at the end of a line: parsers take it for a line's end."""
    return b"\r" in content and _INNER_CR.search(content) is not None


def last(content: bytes) -> bytes:
    """The last line that is not blank."""
    return content.rstrip(b"\r\n").rpartition(b"\n")[2]


def problem(line: bytes, delimiter: str) -> str | None:
    """Why `line` is not one whole row, whatever its columns hold; None where it is."""
    line = line.rstrip(b"\r\n")
    if b'"' not in line:
        return INNER_CR if b"\r" in line else None
    closed, one_line = _patterns(delimiter)
    if not closed.fullmatch(line):
        return OPEN_QUOTE
    return None if one_line.fullmatch(line) else INNER_CR


def split(line: bytes, delimiter: str) -> list[str]:
    """The fields of `line`. Raises InputError where it is not UTF-8 or not one whole row."""
    try:
        text = line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start} of the line)") from None
    wrong = problem(line, delimiter)
    if wrong:
        raise InputError(wrong)
    try:
        return next(stdlib_csv.reader([text], delimiter=delimiter), [])
    except stdlib_csv.Error as error:
        raise InputError(f"cannot be split into columns: {error}") from None


@functools.cache
def _patterns(delimiter: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Patterns for a line whose quoted fields all close, and for one that also has no carriage return outside them."""
    end = re.escape(delimiter.encode())

    def line(rest: bytes) -> re.Pattern[bytes]:
        # Possessive: a quote is never taken back from `""`, and a line of any length is read once.
        field = rb'(?:"(?:[^"]++|"")*+"|(?!"))' + rest + rb"*+"
        return re.compile(field + rb"(?:" + end + field + rb")*+", re.DOTALL)

    return line(rb"[^" + end + rb"]"), line(rb"[^" + end + rb"\r]")
