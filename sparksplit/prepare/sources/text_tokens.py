"""Streams the tokens of text files: byte ranges of files become pieces of text, cut between tokens, then counts and
codes.

A token belongs to the range that holds its first byte. So any number of tasks read each token once. Files follow one
another as one text, but a word ends where its file ends.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.base.errors import InputError, UsageError
from sparksplit.dataset.description import UNKNOWN
from sparksplit.prepare.source import GZIP_ERRORS, gzip_problem, open_raw

Codes = npt.NDArray[Any]
RANGE_BYTES = 64 * 1024 * 1024
"""Bytes of a file that one task reads."""
PIECE_BYTES = 1024 * 1024
"""Bytes to read at a time."""
_SPACE = re.compile(rb"[ \t\n\r\f\v]")
_WORD = re.compile(r"\w+|[^\w\s]")
_CODE_POINTS = 0x110000


@dataclass(frozen=True)
class Range:
    """The bytes start..stop-1 of a file. Of a compressed file, the range at 0 has all content, and other ranges have
    none."""

    path: str
    start: int
    stop: int | None
    """None: the end of the file."""


def ranges_of(files: Sequence[tuple[str, int]]) -> list[Range]:
    """Return ranges that cover `files` (path, bytes), in their order. No file is opened."""
    return [
        Range(path, start, start + RANGE_BYTES if start + RANGE_BYTES < size else None)
        for path, size in files
        for start in range(0, max(size, 1), RANGE_BYTES)
    ]


def pieces(part: Range, unit: str) -> Iterator[str]:
    """Yield the text of a range, piece by piece, cut between tokens.

    Raise InputError, which names the file, if the file cannot be read or is not UTF-8.
    """
    try:
        with open_raw(part.path) as (stream, compressed):
            if compressed and part.start:
                return
            yield from _cut(_decoded(part, stream, unit, compressed), unit)
    except GZIP_ERRORS as error:
        raise InputError(f"{part.path}: {gzip_problem(error)}") from None


def _decoded(part: Range, stream: Any, unit: str, compressed: bool) -> Iterator[str]:
    """Yield the range's text as it is read. Pieces may end within a token."""
    begin = 0
    if part.start:
        begin = _boundary(stream, part.start, unit)
        stream.seek(begin)
    end = None
    if part.stop is not None and not compressed:
        end = _boundary(stream, part.stop, unit)
        stream.seek(begin)
    decoder = codecs.getincrementaldecoder("utf-8")()
    position, at_start = begin, begin == 0
    while end is None or position < end:
        content = stream.read(PIECE_BYTES if end is None else min(PIECE_BYTES, end - position))
        held = len(decoder.getstate()[0])
        try:
            text = decoder.decode(content, final=not content)
        except UnicodeDecodeError as error:
            place = position - held + error.start
            problem = f"is not UTF-8 text: byte {place} is 0x{error.object[error.start]:02x}"
            raise InputError(f"{part.path}: {problem}") from None
        position += len(content)
        if text and at_start:
            text, at_start = text.removeprefix("\ufeff"), False
        if text:
            yield text
        if not content:
            return


def _boundary(stream: Any, place: int, unit: str) -> int:
    """Return the first byte at or after `place` where a token may begin: at a character, or after white space."""
    if unit == "characters":
        stream.seek(place)
        following = stream.read(3)
        return place + next((skip for skip, byte in enumerate(following) if byte & 0xC0 != 0x80), len(following))
    position = place - 1
    stream.seek(position)
    while content := stream.read(PIECE_BYTES):
        if space := _SPACE.search(content):
            return position + space.end()
        position += len(content)
    return int(position)


def _cut(texts: Iterator[str], unit: str) -> Iterator[str]:
    """Yield `texts`, cut again so that no piece ends within a token."""
    if unit == "characters":
        yield from texts
        return
    rest: list[str] = []
    for text in texts:
        end = len(text)
        while end and (text[end - 1].isalnum() or text[end - 1] == "_"):  # the characters of \w
            end -= 1
        if end:
            yield "".join([*rest, text[:end]])
            rest = []
        rest.append(text[end:])
    if last := "".join(rest):
        yield last


def split(text: str, unit: str) -> list[str]:
    """The tokens of a text."""
    return list(text) if unit == "characters" else _WORD.findall(text)


def count(part: Range, unit: str) -> int | InputError:
    """Return how many tokens the range has, or an InputError that says what is wrong with it."""
    try:
        return sum(len(text) if unit == "characters" else len(split(text, unit)) for text in pieces(part, unit))
    except UsageError as error:
        return InputError(str(error))


def frequencies(part: Range, first: int, last: int, unit: str) -> list[tuple[str, int]]:
    """Return the different tokens among first..last-1 of the range, and how often each occurs.

    Raise InputError if the file cannot be read.
    """
    counts: Counter[str] = Counter()
    position = 0
    for text in pieces(part, unit):
        tokens: Sequence[str] = text if unit == "characters" else split(text, unit)
        counts.update(tokens[max(0, first - position) : max(0, last - position)])
        position += len(tokens)
        if position >= last:
            break
    return list(counts.items())


class Encoder:
    """Turns tokens into indices of a vocabulary, in the smallest unsigned dtype. 0: the vocabulary lacks the token."""

    def __init__(self, vocabulary: Sequence[str], unit: str) -> None:
        self._unit, self.dtype = unit, np.min_scalar_type(len(vocabulary) - 1)
        self._known = {name: index for index, name in enumerate(vocabulary) if index}
        self._place = np.zeros(0, self.dtype)
        if unit == "characters":
            self._place = np.zeros(_CODE_POINTS, self.dtype)
            self._place[[ord(name) for name in self._known]] = list(self._known.values())

    def encode(self, text: str) -> Codes:
        """The indices of the tokens of `text`."""
        if self._unit == "characters":
            codes: Codes = self._place[np.frombuffer(text.encode("utf-32-le"), dtype="<u4")]
            return codes
        known = self._known
        return np.array([known.get(token, 0) for token in _WORD.findall(text)], self.dtype)


def vocabulary_of(counts: dict[str, int], limit: int | None) -> list[str]:
    """Return UNKNOWN, then the tokens of `counts` in the order of their code points.

    limit: keep this many of the most frequent tokens. In a tie, keep the token with the lowest code point
    """
    names = sorted(counts, key=lambda name: (-counts[name], name))[:limit]
    return [UNKNOWN, *sorted(names)]
