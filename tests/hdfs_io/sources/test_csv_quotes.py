"""CSV: quotes and carriage returns never make a line vanish, wherever blocks and ranges end."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hdfs_io.config import InputConfig
from hdfs_io.sources import ParsedRows, Source, csv, csv_lines, open_source
from sparksplit.base.config import parse
from sparksplit.base.errors import InputError

OPEN = "a quoted field does not close on its line"
CR = "has a carriage return within the line (lines end in LF or CR LF)"


def source(path: Path, **keys: Any) -> Source:
    keys = {"keep": [0], "label_type": "integer", "max_bad_rows": 1000} | keys
    return open_source(parse(InputConfig, {"format": "csv", "path": f"{path}", **keys}))


def read(opened: Source) -> tuple[list[tuple[str | None, float, int]], list[tuple[int, str]]]:
    """(kept text, feature, label) of the good rows; (line, reason) of the bad ones."""
    good, bad = [], []
    for task in opened.tasks():
        for item in opened.read(task):
            if isinstance(item, ParsedRows):
                assert isinstance(item.label, type(item.tensors[0]))
                good += list(zip(item.keep[0], item.tensors[0][:, 0].tolist(), item.label.tolist(), strict=True))
            else:
                assert not item.fatal, item
                bad.append((item.row + csv.lines_before(item.path, item.offset), item.reason))
    return good, bad


def write(folder: Path, content: bytes) -> Path:
    path = folder / "rows.csv"
    path.write_bytes(content)
    return path


HEADER = b"t,x,y\n"


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("size", [1, 5, 8, 16, 10_000])
def test_a_stray_quote_costs_its_own_line_alone(
    tmp_path: Path, size: int, compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = HEADER + b'a,1,0\n"b,2,1\nc,3,2\n"d,4,3\ne,5,4\n'
    monkeypatch.setattr(csv, "BATCH_BYTES", size)
    monkeypatch.setattr(csv, "RANGE_BYTES", 2 * size)
    good, bad = read(source(write(tmp_path, gzip.compress(content, mtime=0) if compressed else content)))
    assert good == [("a", 1, 0), ("c", 3, 2), ("e", 5, 4)]
    assert bad == [(3, OPEN), (5, OPEN)]


LINES = {
    b'"a,b",1,0': ("a,b", 1, 0),
    b'"a ""b""",1,0': ('a "b"', 1, 0),
    b'"",1,0': ("", 1, 0),
    b'5" disk,1,0': ('5" disk', 1, 0),
    b'a"b,1,"0"': ('a"b', 1, 0),
    b'"a"b"c,1,0': ('ab"c', 1, 0),
    b"a,1,0\r": ("a", 1, 0),
    b'"a",1,"0"\r\r': ("a", 1, 0),
    b'"a\rb",1,0': ("a\rb", 1, 0),
    b'a,1,"0': OPEN,
    b'a,1,0"': "column 3 (y), the label: '0\"' is not a whole number (int64)",
    b'"a"",1,0': OPEN,
    b'"a""": ,1,0': ('a": ', 1, 0),
    b'x"y,"1,0': OPEN,
    b'"': OPEN,
    b'"a\r': OPEN,
    b"a,1,0\rb,2,1": CR,
    b"\ra,1,0": CR,
    b'"a"\r,1,0': CR,
    b'"a",1': "has 2 columns, 3 are needed",
}


@pytest.mark.parametrize(("line", "expected"), LINES.items())
def test_a_line_means_the_same_alone_and_among_others(tmp_path: Path, line: bytes, expected: Any) -> None:
    for before, after in (
        (b"", b""),
        (b"", b"\n"),
        (b"z,9,9\n\n", b'\n"q"",9,9\nz,8,8\n'),
        (b'"y",7,7\r\n', b"\n\n\r\n"),
    ):
        good, bad = read(source(write(tmp_path, HEADER + before + line + after)))
        good = [row for row in good if row[0] not in ("z", "y")]
        bad = [reason for number, reason in bad if number == before.count(b"\n") + 2]
        if isinstance(expected, tuple):
            assert (good, bad) == ([expected], [])
        else:
            assert good == [] and len(bad) == 1 and bad[0].startswith(expected)


def oracle(line: bytes) -> tuple[str, float, int] | str:
    """A line by itself, character by character: what its three fields are, or why it is no row."""
    fields, text, state = [], "", "begin"
    for character in line.decode().rstrip("\r"):
        if state == "quoted":
            state, text = ("closing", text) if character == '"' else (state, text + character)
        elif character == ",":
            fields.append(text)
            text, state = "", "begin"
        elif character == '"' and state in ("begin", "closing"):
            text, state = (text + '"' if state == "closing" else text), "quoted"
        elif character == "\r":
            return "CR" if b'"' not in line else "CR or open"
        else:
            text, state = text + character, "bare"
    if state == "quoted":
        return "open"
    fields.append(text)
    if len(fields) != 3:
        return f"has {len(fields)} columns"
    if not (re.fullmatch(" *[0-9] *", fields[1]) and re.fullmatch(" *[0-9] *", fields[2])):
        return "not numbers"
    return fields[0], float(fields[1]), int(fields[2])


PIECES = st.sampled_from(['"', '""', ",", "\r", "a", '"a"', '"1"', ",1,2", "\ufeff", " "])
ROWS = st.lists(st.one_of(st.sampled_from([*(line.decode() for line in LINES), ""]), st.lists(PIECES).map("".join)))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, size=st.integers(1, 40), step=st.integers(1, 80), compressed=st.booleans(), ended=st.booleans())
def test_every_line_is_a_row_or_a_bad_row_wherever_blocks_and_ranges_end(
    tmp_path: Path, rows: list[str], size: int, step: int, compressed: bool, ended: bool
) -> None:
    content = HEADER + "\n".join(rows).encode() + b"\n" * ended
    path = write(tmp_path, gzip.compress(content, mtime=0) if compressed else content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "BATCH_BYTES", size)
        patch.setattr(csv, "RANGE_BYTES", step)
        good, bad = read(source(path))
    expected = {number: oracle(row.encode()) for number, row in enumerate(rows, 2) if row.rstrip("\r")}
    assert good == [row for row in expected.values() if isinstance(row, tuple)]
    assert [number for number, _ in bad] == [number for number, row in expected.items() if isinstance(row, str)]
    assert len(good) + len(bad) == len(expected)
    for number, reason in bad:
        found = str(expected[number])
        assert found not in ("CR", "open") or reason == {"CR": CR, "open": OPEN}[found]


@given(rows=st.lists(st.text("a\r", max_size=3)), ended=st.booleans())
def test_lines_that_are_not_blank_are_counted(rows: list[str], ended: bool) -> None:
    content = "\n".join(rows).encode() + b"\n" * ended
    assert csv_lines.count(content) == sum(bool(row.rstrip("\r")) for row in rows)


def test_a_line_of_quotes_without_end_is_read_once() -> None:
    # Matched with backtracking, it would take until the end of time.
    assert csv_lines.problem(b'"' + b'""' * 200_000, ",") == OPEN
    assert csv_lines.problem(b'"' + b'""' * 200_000 + b'"', ",") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,"b\nc",d\n1,2,3\n', f"row 1: {OPEN}"),
        (b"a,b\r1,2\r3,4\r", f"row 1: {CR}"),
        (b"\na,b\n1,2\n", "row 1: is blank, where the header should be"),
        (b'a,b\n1,2\n\n1,"2\n1,3\n', f"row 4: {OPEN}"),
        (b'a,b\n1,x\n1,"2\n', "row 2: column 2 (b), the label: 'x' is not a whole number"),
        (b"a,b\n1," + b"x" * 200_000 + b"\n", "row 2: cannot be split into columns: field larger than field limit"),
    ],
)
def test_the_first_wrong_line_is_named_before_spark_starts(tmp_path: Path, content: bytes, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        source(path, keep=[], max_bad_rows=0)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_header_of_a_later_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for number, header in enumerate((b"a,b", b'a,"b')):
        (tmp_path / f"{number}.csv").write_bytes(header + b"\n1,2\n")
    opened = source(tmp_path, keep=[])
    found = [item for task in opened.tasks() for item in opened.read(task)]
    assert [str(item) for item in found if not isinstance(item, ParsedRows)] == [f"{tmp_path}/1.csv: row 1: {OPEN}"]


def test_labels_are_guessed_from_the_rows_that_can_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, b'a,b\n1,2\n"1,2\n1,\xff\n1\r1,2\n1,3\n')
    opened = source(path, keep=[], label_type="auto")
    assert opened.label_kind == "integer"
    found = [item for task in opened.tasks() for item in opened.read(task)]
    assert [len(item) if isinstance(item, ParsedRows) else item.row for item in found] == [1, 3, 4, 5, 1]
