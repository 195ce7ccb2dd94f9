"""Finds the lines of bad rows in text files. Executors do this after the few rows to report are known.

Spark's readers give no line numbers. So a bad row carries a mark of its text (`row`, below 0). The lines of its file
with this mark are then numbered. The mark leaves out what a parser may remove: quotes, backslashes and white space.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sparksplit.prepare.source import BadRow
from sparksplit.prepare.tables.readers import METADATA, for_spark, plain_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DROPPED = "\"'\\ \t\r\ufeff"
_DIGITS = 15
ROW_TEXT = 200
"""Characters of a bad row's text that are kept."""
_FILES = 1000
"""Largest number of files to read again."""


def line_mark(text: str) -> int:
    """Return a number below 0 for the first line of `text`. Lines that differ only in what parsers remove have equal
    numbers."""
    line = text.split("\n", 1)[0].translate({ord(character): None for character in _DROPPED})
    return -1 - int(hashlib.md5(line.encode(), usedforsecurity=False).hexdigest()[:_DIGITS], 16)


def line_mark_sql(line: str) -> str:
    """Return `line_mark` of one line in Spark's SQL. line: an SQL expression"""
    dropped = r"""'"\'\\ \t\r\uFEFF'"""
    return f"-1 - CAST(conv(substring(md5(translate({line}, {dropped}, '')), 1, {_DIGITS}), 16, 10) AS BIGINT)"


Lines = dict[tuple[str, int], dict[int, str]]
"""By file and mark: the lines with this mark, by number, and how each begins."""


def find_lines(spark: SparkSession, wanted: Sequence[tuple[str, int]]) -> Lines:
    """Return the lines of files that have these marks. wanted: (file, mark)"""
    from pyspark.sql import functions as sql

    files, marks = sorted({file for file, mark in wanted if mark < 0})[:_FILES], {mark for _, mark in wanted}
    if not files:
        return {}
    lines = spark.read.text([for_spark(file) for file in files])
    numbered = lines.select(
        sql.expr(METADATA).alias("file"),
        sql.expr("_metadata.file_block_start").alias("start"),
        sql.monotonically_increasing_id().alias("id"),
        sql.expr(line_mark_sql("value")).alias("mark"),
        sql.substring("value", 1, ROW_TEXT).alias("begin"),
    )
    # Each task numbers the lines of its blocks in order. The number of lines in a block shows where the next block
    # begins.
    blocks = numbered.groupBy("file", "start").agg(sql.min("id"), sql.count("id")).collect()
    before: dict[tuple[str, int], int] = {}
    for file in {block.file for block in blocks}:
        count = 0
        for _, start, first, size in sorted(block for block in blocks if block.file == file):
            before[file, start] = count - first + 1
            count += size
    by_mark: Lines = {}
    for file, start, number, mark, begin in numbered.where(sql.col("mark").isin(list(marks))).sort("id").collect():
        if begin.rstrip("\r"):
            by_mark.setdefault((plain_path(file), mark), {})[number + before[file, start]] = begin
    return {key: dict(sorted(lines.items())) for key, lines in by_mark.items()}


def assigned(rows: Sequence[BadRow], found: Lines) -> list[BadRow]:
    """Return `rows` with the number of their line, from 1, in place of a mark. 0: the line is unknown.

    found: each line that is assigned to a row is removed. A line that begins like a row's text belongs to this row.
        Equal rows are bad for one reason, so it does not matter which of them gets which line
    """
    numbers: dict[int, int] = {}
    for exact in (True, False):
        for place, row in enumerate(rows):
            lines = found.get((row.path, row.row), {})
            text = row.text.split("\n", 1)[0].rstrip("\r")
            fitting = (line for line, begin in lines.items() if not exact or begin.rstrip("\r") == text)
            if row.row < 0 and place not in numbers and (line := next(fitting, None)) is not None:
                numbers[place] = line
                del lines[line]
    return [replace(row, row=numbers.get(place, 0), offset=0) if row.row < 0 else row for place, row in enumerate(rows)]
