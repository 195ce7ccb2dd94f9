"""Lines of CSV, split in the task that parses them: each is accounted for, whatever stands in the others."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.source import ParsedRows
from sparksplit.prepare.tables.cells import Cells
from sparksplit.prepare.tables.column_rows import ColumnReader
from sparksplit.prepare.tables.csv_lines import LineReader, blank, cells_of, decoded, loose_fields

Line = tuple[str, str, bool]
"""The line, its file, whether it is in the block that begins the file."""
DELIMITERS, QUOTES = [",", "\t", "\x01", ";", "|", " ", "^", "\\", "]"], ['"', "'", "^", None]
marks = st.tuples(st.sampled_from(DELIMITERS), st.sampled_from(QUOTES)).filter(lambda both: both[0] != both[1])


def lines_of(alphabet: str, size: int = 12) -> st.SearchStrategy[list[str]]:
    line = st.text(alphabet, min_size=1, max_size=size).filter(lambda text: not text.isspace())
    return st.lists(line, min_size=1, max_size=12)


def found(lines: list[str], columns: int, delimiter: str, quote: str | None) -> list[list[str] | None]:
    """The cells of each line; None where it has another number of them."""
    cells, bad = cells_of(pa.array(lines, pa.string()), columns, delimiter, quote)
    assert len(cells) == columns and {len(column) for column in cells} == {len(lines)}
    rows = [[cell or "" for cell in row] for row in zip(*(column.to_pylist() for column in cells), strict=True)]
    assert all(not any(row) for row, wrong in zip(rows, bad, strict=True) if wrong)
    return [None if wrong else row for row, wrong in zip(rows, bad, strict=True)]


@given(st.data(), marks, st.integers(2, 5))
def test_well_formed_lines_have_the_cells_that_pythons_parser_finds(
    data: st.DataObject, both: tuple[str, str | None], columns: int
) -> None:
    delimiter, quote = both
    cell = st.text(f"ab1.\u00e9\ufeff# {delimiter}{quote or ''}", max_size=5)
    if quote is None:
        cell = cell.filter(lambda text: delimiter not in text)
    rows = data.draw(st.lists(st.lists(cell, min_size=1, max_size=6), min_size=1, max_size=8))
    quoting = csv.QUOTE_NONE if quote is None else data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    lines, expected = [], []
    for row in rows:
        text = io.StringIO(newline="")
        try:
            csv.writer(text, delimiter=delimiter, quotechar=quote, quoting=quoting, lineterminator="").writerow(row)
        except csv.Error:
            continue
        line = text.getvalue()
        if not blank(pa.array([line]), columns, delimiter)[0]:
            lines.append(line)
            expected.append(row if len(row) == columns else None)
    assert not lines or found(lines, columns, delimiter, quote) == expected


@given(st.data(), marks, st.integers(2, 4))
def test_no_line_has_a_say_in_how_another_is_split(
    data: st.DataObject, both: tuple[str, str | None], columns: int
) -> None:
    delimiter, quote = both
    lines = data.draw(lines_of(f"a1 \u00e9\ufeff\t\\{delimiter * 3}{(quote or chr(34)) * 3}"))
    split = [line.split(delimiter) if quote is None else loose_fields(line, delimiter, quote) for line in lines]
    expected = [fields if len(fields) == columns else None for fields in split]
    assert found(lines, columns, delimiter, quote) == expected


def test_an_empty_cell_is_null_but_not_in_quotes() -> None:
    for lines in ([",1", '"",2'], [",1", '"",2', '"a" ,3']):  # the last one is split elsewhere
        cells, _ = cells_of(pa.array(lines), 2, ",", '"')
        assert cells[0].to_pylist()[:2] == [None, ""]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ('"a" ,b', ["a", "b"]),
        ('"a"b,c', ['"a"b', "c"]),
        ('"a" b,c', ['"a" b', "c"]),
        ('"a""b"c,d', ['"a"b"c', "d"]),
        ('a,"b,c', ["a", "b,c"]),
        ('a,"b""', ["a", 'b"']),
        ('a,"', ["a", '"']),
        ('a,"b" c"d', ["a", '"b" c"d"']),
        ('"a" "b"', ['"a" "b"']),
        ("", [""]),
        (",", ["", ""]),
    ],
)
def test_malformed_quotes_are_read_as_sparks_parser_does(line: str, fields: list[str]) -> None:
    assert loose_fields(line, ",", '"') == fields


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a,\xff,0", "a,\ufffd,0"),
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
        (b"\xc0\x80", "\ufffd" * 2),
        ("\u00e9\U0001f600".encode(), "\u00e9\U0001f600"),
    ],
)
def test_bytes_that_are_no_text_are_marked_as_java_does(raw: bytes, text: str) -> None:
    lines = pa.Array.from_buffers(pa.string(), 2, pa.array([raw, b"good"]).buffers())
    assert decoded(lines).to_pylist() == [text, "good"]


def test_blank_lines() -> None:
    lines = ["", " ", "\t", "\x01\x01", "\x00\x1f ", "a", " a ", "\u00a0", ","]
    assert blank(pa.array(lines), 3, ",").tolist() == [True] * 5 + [False] * 4


@pytest.mark.parametrize("delimiter", ["\t", "\x01", " "])
def test_a_line_of_empty_cells_is_not_blank(delimiter: str) -> None:
    lines = [delimiter * count for count in range(5)] + [f"{delimiter}\v{delimiter}", "\v\v"]
    assert (~blank(pa.array(lines), 3, delimiter)).nonzero()[0].tolist() == [1, 2, 3, 4, 5]
    assert blank(pa.array(lines), 1, delimiter).all()


def reader(header: bool, kept: int = 0) -> LineReader:
    cells = Cells("/f", ("k", "x", "y"), True, header, ",", '"', ("",), "UTF-8", False)
    tensor = TensorSpec(name="x", dtype="float32", shape=[1])
    rows = ColumnReader(
        "/f", ["x"], False, tensor, "y", "integer", 1 + kept, False, False, told=True, cells=cells, order=[2, 0, 1]
    )
    return LineReader(rows, [1, 2, 0, *range(3, 3 + kept)])


def batch(lines: list[Line], *partition: str, part: str = "train") -> pa.RecordBatch:
    own = [pa.array([text] * len(lines), pa.string()) for text in partition]
    text, file, begins = (pa.array(values, kind) for values, kind in zip(
        zip(*lines, strict=True), (pa.string(), pa.string(), pa.bool_()), strict=True
    ))  # fmt: skip
    columns = [text, *own, file, begins, pa.array([SPLITS.index(part)] * len(lines), pa.int8())]
    return pa.RecordBatch.from_arrays(columns, [f"{place}" for place in range(len(columns))])


def read(
    made: LineReader, batches: list[pa.RecordBatch]
) -> tuple[list[tuple[object, ...]], list[tuple[str, str, str]]]:
    """(kept, x, y) of the good rows; (file, reason, text) of the bad ones, with FATAL before a fatal one's."""
    good: list[tuple[object, ...]] = []
    bad = []
    for _, rows in made(batches):
        if isinstance(rows, ParsedRows):
            assert isinstance(rows.label, np.ndarray)
            good += zip(*rows.keep, rows.tensors[0][:, 0].tolist(), rows.label.tolist(), strict=True)
        else:
            bad += [(row.path, "FATAL " * row.fatal + row.reason, row.text) for row in rows]
    return good, bad


def test_rows_of_several_files_and_what_is_wrong_with_them() -> None:
    one, two, three = ("file:/a%20b", True), ("file:/c", True), ("file:/a%20b", False)
    lines = [
        (" ", *one), ("k,x,y", *one), ('"a,b",1,0', *one), ("\x00", *one), ("k,x,y", *one), ("c,1,\"2", *one),
        ("d,1", *two), ("e,2,3", *two), ("f,3,4", *three), ("k,x,y", *three), ('"g,3,4', *three),
    ]  # fmt: skip
    expected = [("a,b", "p", 1, 0), ("c", "p", 1, 2), ("e", "p", 2, 3), ("f", "p", 3, 4)]
    wrong = [
        ("/a b", "column 'x': 'x' is not a number", "k,x,y"),
        ("/c", "FATAL its header has 2 columns, but the other files have 3", "d,1"),
        ("/a b", "column 'x': 'x' is not a number", "k,x,y"),
        ("/a b", "a quoted field does not close on its line (input.multiline: true reads line breaks within quotes)",
         '"g,3,4'),
    ]  # fmt: skip
    for size in (1, 2, 4, 100):
        batches = [batch(lines[start : start + size], "p") for start in range(0, len(lines), size)]
        assert read(reader(True, 1), batches) == (expected, wrong)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("k,x,y", None),
        ('k,"x",y', None),
        ("\ufeffk,x,y", None),
        ("K,x,y", "differs from the other files: it has 'K' instead of 'k'"),
        ("k,y,x", "differs from the other files: it has 'y' instead of 'x'"),
        ("k,x,y,z", "has 4 columns, but the other files have 3"),
    ],
)
def test_headers_are_those_of_the_first_file_to_the_letter(header: str, problem: str | None) -> None:
    good, bad = read(reader(True), [batch([(header, "/f", True), ("a,1,2", "/f", True)])])
    assert good == [("a", 1, 2)]
    assert bad == ([] if problem is None else [("/f", f"FATAL its header {problem}", header)])


@given(
    st.lists(st.tuples(lines_of('"",,1 \x01', 8), st.booleans()), min_size=1, max_size=4),
    st.sets(st.integers(0, 60)),
    st.booleans(),
)
def test_every_line_is_a_row_a_bad_row_blank_or_a_header(
    files: list[tuple[list[str], bool]], cuts: set[int], header: bool
) -> None:
    lines = [(line, f"/{number}", begins) for number, (own, begins) in enumerate(files) for line in own]
    ends = [0, *sorted(cut for cut in cuts if 0 < cut < len(lines)), len(lines)]
    made = reader(header)
    good, bad = read(made, [batch(lines[start:end]) for start, end in pairwise(ends)])
    blanks = sum(not line.strip(" \x01") for line, _, _ in lines)
    headers = sum(header and begins and any(line.strip(" \x01") for line in own) for own, begins in files)
    assert len(good) + len(bad) + blanks == len(lines)  # no header here is right
    assert sum(reason.startswith("FATAL") for _, reason, _ in bad) == headers
    assert (good, bad) == read(made, [batch(lines)])
