"""Which line of a text file a bad row is."""

from __future__ import annotations

from sparksplit.prepare.source import BadRow
from sparksplit.prepare.tables.line_numbers import assigned, line_mark


def test_what_a_parser_takes_away_changes_no_mark() -> None:
    assert line_mark('"a ""b""" , 1\r') == line_mark("a b,1") == line_mark("\ufeffab,1\nmore") < 0
    assert line_mark("ab,2") != line_mark("ab,1")


def test_each_line_is_one_rows_and_the_one_that_is_written_like_it_first() -> None:
    mark = line_mark("a,1")
    rows = [BadRow("f", mark, "1", "a,1"), BadRow("f", mark, "2", 'a,"1'), BadRow("f", mark, "3", "a,1")]
    rows += [BadRow("f", mark, "4", "a,1"), BadRow("g", mark, "5", "a,1"), BadRow("h", 7, "6")]
    lines = {3: 'a,"1', 5: "a,1\r", 9: '"a",1'}
    found = assigned(rows, {("f", mark): lines})
    assert [(row.reason, row.row) for row in found] == [("1", 5), ("2", 3), ("3", 9), ("4", 0), ("5", 0), ("6", 7)]
