"""Splits CSV in the task that parses its rows: Spark passes whole lines, and Arrow's parser splits them.

This takes less than half the time of Spark's CSV reader, which passes every cell separately. The rows and cells equal
the result of Spark's reader. Arrow reads two things differently: a quoted cell that does not close, and one that
continues after its closing quote. Lines with such cells are split here as by Spark. No line affects how another line is
read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from sparksplit.base.errors import InputError
from sparksplit.prepare.source import BadRows, ParsedRows
from sparksplit.prepare.tables.cells import UNDECODED, Bools, Cells, split
from sparksplit.prepare.tables.column_rows import ColumnReader

LINE = "sparksplit: the line"
"""The column of lines. No user's column has this name."""
_TOLD = pa.struct([("reason", pa.string()), ("text", pa.string()), ("fatal", pa.bool_())])
_BLANK = "".join(map(chr, range(0x21)))
"""Characters that are white space in Java. A line of only these is no row, unless some of them are delimiters."""
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


@dataclass(frozen=True)
class LineReader:
    """Reads rows from record batches of lines; see `Reader`.

    rows: turns columns of cells into rows.
    places: the text columns that `rows` needs, in its order. A number below the file's number of columns is a place in
        a line. The folders' partition columns (`year=2020`) follow.

    A batch of lines has these columns: the line, the folders' partition columns, the file, whether the line's block
    begins a file, and the file part. The lines of a block are contiguous.
    """

    rows: ColumnReader
    places: Sequence[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ParsedRows | BadRows]]:
        """Yield the rows of all batches."""
        return self.rows(self.columns(batches))

    def columns(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of columns, as `ColumnReader` takes them, without headers and blank lines."""
        headers = _Headers()
        for batch in batches:
            lines = decoded(batch.column(0))
            are_rows = ~blank(lines, len(self._cells.names), self._cells.delimiter)
            wrong = self._headers(headers, batch, lines, are_rows)
            if are_rows.all():
                yield self._columns(batch, lines, wrong)
            elif are_rows.any():
                rows = pa.array(np.flatnonzero(are_rows))
                yield self._columns(batch.take(rows), lines.take(rows), wrong.take(rows))

    @property
    def _cells(self) -> Cells:
        assert self.rows.cells is not None
        return self.rows.cells

    def _headers(self, headers: _Headers, batch: pa.RecordBatch, lines: pa.Array, are_rows: Bools) -> pa.Array:
        """Return what is wrong with each line that is a header. Null for good headers and for other lines.

        are_rows: which lines are not blank. On return: which lines are rows
        """
        wrong: list[str | None] = [None] * len(lines)
        for row in headers.places(are_rows, *batch.columns[-3:-1]) if self._cells.header else ():
            wrong[row] = header_problem(lines[row].as_py(), self._cells)
            are_rows[row] = wrong[row] is not None
        return pa.array(wrong, pa.string())

    def _columns(self, batch: pa.RecordBatch, lines: pa.Array, wrong: pa.Array) -> pa.RecordBatch:
        """Return the columns of the lines. wrong: what is wrong with the header that a line is, or null"""
        cells = self._cells
        fields, bad = cells_of(lines, len(cells.names), cells.delimiter, cells.quote)
        fatal = wrong.is_valid()
        bad |= fatal.to_numpy(zero_copy_only=False)
        texts = [*fields, *batch.columns[1:-3]]
        told = pa.nulls(batch.num_rows, _TOLD)
        if bad.any():
            told = pa.StructArray.from_arrays([wrong, lines, fatal], fields=list(_TOLD), mask=pa.array(~bad))
        number = pa.nulls(batch.num_rows, pa.int64())
        columns = [*(texts[place] for place in self.places), told, number, batch.columns[-1], batch.columns[-3]]
        return pa.RecordBatch.from_arrays(columns, [f"{place}" for place in range(len(columns))])


@dataclass
class _Headers:
    """Finds the header of each file that a task begins: its first line that is not blank.

    file, begins: of the block of the last line. waiting: whether the block's header is still to come.
    """

    file: str | None = None
    begins: bool = False
    waiting: bool = False

    def places(self, found: Bools, files: pa.Array, begins: pa.Array) -> list[int]:
        """Return the rows of a batch that are headers. found: which rows are not blank. files, begins: of each row"""
        headers = []
        starts = begins.to_numpy(zero_copy_only=False)
        ends = pc.run_end_encode(files).run_ends.to_numpy()
        changes = np.flatnonzero(starts[1:] != starts[:-1]) + 1
        start = 0
        for end in np.union1d(ends, changes).tolist():
            file, first = files[start].as_py(), bool(starts[start])
            if (file, first) != (self.file, self.begins):
                self.file, self.begins, self.waiting = file, first, first
            if self.waiting and found[start:end].any():
                headers.append(start + int(found[start:end].argmax()))
                self.waiting = False
            start = end
        return headers


def header_problem(line: str, cells: Cells) -> str | None:
    """Return what is wrong with a file's header, or None if it is the header of the other files."""
    try:
        names = split(line.removeprefix("\ufeff"), cells.delimiter, cells.quote)
    except InputError as error:
        return f"its header {error}"
    if len(names) != len(cells.names):
        return f"its header has {len(names)} columns, but the other files have {len(cells.names)}"
    for name, wanted in zip(names, cells.names, strict=True):
        if name != wanted:
            return f"its header differs from the other files: it has {name!r} instead of {wanted!r}"
    return None


def decoded(lines: pa.Array) -> pa.Array:
    """Return the lines with U+FFFD in place of bytes that are not UTF-8, as Java decodes them."""
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        mark = UNDECODED.encode()
        raw = (_SURROGATE.sub(mark, line) for line in lines.cast(pa.binary()).to_pylist())
        return pa.array([line.decode(errors="replace") for line in raw], pa.string())
    return lines


def blank(lines: pa.Array, columns: int, delimiter: str) -> Bools:
    """Return which lines hold only white space and control characters.

    A line of empty cells is not blank, even if its delimiters are white space. It is a row, or a bad row.
    """
    mask: Bools = pc.equal(pc.binary_length(pc.ascii_trim(lines, _BLANK)), 0).to_numpy(zero_copy_only=False)
    if columns > 1 and delimiter <= " " and mask.any():
        mask &= pc.count_substring(lines, delimiter).to_numpy(zero_copy_only=False) == 0
    return mask


def cells_of(lines: pa.Array, columns: int, delimiter: str, quote: str | None) -> tuple[list[pa.Array], Bools]:
    """Return (by column, the text of each line's cell [lines]; which lines have a wrong number of cells [lines]).

    A cell is null if it is empty without quotes, or if the line has a wrong number of cells.

    lines: not blank, without line ends. columns: 2 or more
    """
    odd = np.zeros(len(lines), np.bool_)
    if quote is not None and _may_have(lines, quote):
        odd = ~pc.match_substring_regex(lines, _well_quoted(delimiter, quote)).to_numpy(zero_copy_only=False)
    else:
        quote = None
    plain = lines.filter(pa.array(~odd)) if odd.any() else lines
    cells, wrong = _by_arrow(plain, columns, delimiter, quote)
    bad = np.ones(len(lines), np.bool_)
    bad[np.flatnonzero(~odd)[~wrong]] = False
    if not odd.any() and not wrong.any():
        return cells, bad
    # Put the lines that Arrow's parser has split, and the other lines, back into their order.
    place = np.zeros(len(lines), np.int64)
    place[~bad] = np.arange(len(plain) - wrong.sum())
    loose: list[list[str]] = []
    for row in np.flatnonzero(odd).tolist():
        fields = loose_fields(lines[row].as_py(), delimiter, quote or "")
        if len(fields) == columns:
            place[row], bad[row] = len(plain) - wrong.sum() + len(loose), False
            loose.append(fields)
    taken = pa.array(place, mask=bad)
    others = [pa.array([fields[column] for fields in loose], pa.string()) for column in range(columns)]
    return [pa.concat_arrays(pair).take(taken) for pair in zip(cells, others, strict=True)], bad


def _may_have(lines: pa.Array, mark: str) -> bool:
    """Return whether one of the lines may contain this ASCII character."""
    data = lines.buffers()[2]
    return data is not None and bool((np.frombuffer(data, np.uint8) == ord(mark)).any())


def _well_quoted(delimiter: str, quote: str) -> str:
    """Return a regular expression of the lines whose quoted cells close right before a delimiter or the line's end."""
    d, q = re.escape(delimiter), re.escape(quote)
    cell = f"(?:[^{q}{d}][^{d}]*|{q}(?:[^{q}]|{q}{q})*{q}|)"
    return f"^{cell}(?:{d}{cell})*$"


def _by_arrow(lines: pa.Array, columns: int, delimiter: str, quote: str | None) -> tuple[list[pa.Array], Bools]:
    """Split lines with Arrow's parser. lines: well quoted

    Return (by column, the cells of lines with the right number of cells; which lines have a wrong number [lines]).
    """
    # The first line is ours. So a byte order mark is ordinary text, and there is always a row.
    texts = pa.concat_arrays([pa.array([delimiter * (columns - 1)]), lines])
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")[0].as_buffer()
    wrong = np.zeros(len(texts), np.bool_)

    def skip(row: arrow_csv.InvalidRow) -> str:
        wrong[row.number - 1] = True
        return "skip"

    names = [f"{place}" for place in range(columns)]
    table = arrow_csv.read_csv(
        pa.BufferReader(joined),
        arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=joined.size + 1),
        arrow_csv.ParseOptions(delimiter=delimiter, quote_char=quote or False, invalid_row_handler=skip),
        arrow_csv.ConvertOptions(
            check_utf8=False, column_types=dict.fromkeys(names, pa.string()), null_values=[""],
            strings_can_be_null=True, quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip
    assert table.num_rows + wrong.sum() == len(texts), "a line is not one record"
    return [column.combine_chunks()[1:] for column in table.columns], wrong[1:]


def loose_fields(line: str, delimiter: str, quote: str) -> list[str]:
    """Return the fields of a line whose quoting may be wrong, as Spark's parser does (Univocity, STOP_AT_DELIMITER)."""
    fields, place = [], 0
    while True:
        if line.startswith(quote, place):
            value, place = _quoted(line, place + 1, delimiter, quote)
        else:
            start, place = place, _end(line, place, delimiter)
            value = line[start:place]
        fields.append(value)
        if place == len(line):
            return fields
        place += 1


def _end(line: str, place: int, delimiter: str) -> int:
    end = line.find(delimiter, place)
    return len(line) if end < 0 else end


def _quoted(line: str, place: int, delimiter: str, quote: str) -> tuple[str, int]:
    """Return (the field whose text begins at `place`, after a quote; where the field ends)."""
    if place == len(line):
        return quote, place
    value = ""
    while True:
        close = line.find(quote, place)
        if close < 0:
            return value + line[place:], len(line)  # the quote does not close
        value += line[place:close]
        place = close + 1
        if not line.startswith(quote, place):
            break
        value, place = value + quote, place + 1
    behind = place
    while behind < len(line) and line[behind] <= " " and line[behind] != delimiter:
        behind += 1
    if behind == len(line) or line[behind] == delimiter:
        return value, behind  # white space after the closing quote does not count
    end = _end(line, behind, delimiter)
    # A quirk of Univocity: it adds a quote that it looked at last.
    again = end == len(line) and behind > place and line[behind] != quote and line.startswith(quote, behind + 1)
    return quote + value + quote + line[place:end] + (quote if again else ""), end
