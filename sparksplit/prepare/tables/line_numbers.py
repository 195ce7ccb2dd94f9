"""The lines that bad rows of text files are on: looked up in executors, once the few that are reported are known.

Spark's readers tell no line numbers. A bad row carries a mark of its text (`row`, below 0), and the lines of its file
that have the same mark are numbered. What a parser may take away does not count for a mark: quotes, backslashes and
white space.
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
"""Files that are read again at most."""


def line_mark(text: str) -> int:
    """A number below 0 for the first line of `text`; the same for lines that differ in what parsers drop alone."""
    line = text.split("\n", 1)[0].translate({ord(character): None for character in _DROPPED})
    return -1 - int(hashlib.md5(line.encode(), usedforsecurity=False).hexdigest()[:_DIGITS], 16)


def line_mark_sql(line: str) -> str:
    """`line_mark` of one line in Spark's SQL. line: an expression"""
    dropped = r"""'"\'\\ \t\r\uFEFF'"""
    return f"-1 - CAST(conv(substring(md5(translate({line}, {dropped}, '')), 1, {_DIGITS}), 16, 10) AS BIGINT)"


Lines = dict[tuple[str, int], dict[int, str]]
"""By file and mark: the lines that have it, by number, and how each begins."""


def find_lines(spark: SparkSession, wanted: Sequence[tuple[str, int]]) -> Lines:
    """The lines of files that have the marks; wanted: (file, mark)."""
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
    # Each task numbers the lines of its blocks in their order: how many a block has says where the next one begins.
    blocks = numbered.groupBy("file", "start").agg(sql.min("id"), sql.count("id")).collect()
    before: dict[tuple[str, int], int] = {}
    for file in {block.file for block in blocks}:
        count = 0
        for _, start, first, size in sorted(block for block in blocks if block.file == file):
            before[file, start] = count - first + 1
            count += size
    found: Lines = {}
    for file, start, number, mark, begin in numbered.where(sql.col("mark").isin(list(marks))).sort("id").collect():
        if begin.rstrip("\r"):
            found.setdefault((plain_path(file), mark), {})[number + before[file, start]] = begin
    return {key: dict(sorted(lines.items())) for key, lines in found.items()}


def assigned(rows: Sequence[BadRow], found: Lines) -> list[BadRow]:
    """`rows`, those that have a mark with the number of their line, from 1, or 0 where it cannot be told.

    found: each line that becomes a row's is taken out. A line that begins as a row's text does is that row's; rows that
    are equal are bad for the same reason, so it does not matter which is on which line.
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
