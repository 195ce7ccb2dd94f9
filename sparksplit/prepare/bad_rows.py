"""Rows that could not be read: counted by reason, kept with where they were, and how many there may be.

All of them stay in executors: the driver gets one count for each reason, and the first bad row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from hdfs_io import filesystem
from hdfs_io.errors import using
from sparksplit.base.errors import InputError, SparksplitError
from sparksplit.prepare.config import InputConfig
from sparksplit.prepare.source import BadRow
from sparksplit.prepare.tables.line_numbers import Lines, assigned, find_lines
from sparksplit.spark.job_names import described
from sparksplit.spark.task_facts import facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOLDER = "bad_rows"
_ORDER = ("path", "offset", "row", "reason", "text")
_WRITTEN = pa.schema([("path", pa.string()), ("row", pa.int64()), ("reason", pa.string()), ("text", pa.string())])
_ROWS_PER_FILE = 1_000_000
_LOOKED_UP = 100_000
"""Bad rows of text files whose lines are looked up; further ones are kept without their line."""
_SHOWN = 5
"""Reasons that a line names."""


@dataclass(frozen=True)
class Tally:
    """Bad rows by their reason's kind, the commonest first.

    first: the first of them, by file and row; one that stands for a whole file that could not be read comes before all
    others.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    first: BadRow | None = None

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(self.counts.values())


def said(counts: Mapping[str, int]) -> str:
    """`3 rows were left out: 2 column 'x': is null, 1 column 'y': is not finite`; empty where there are none.

    counts: rows by reason
    """
    if not counts:
        return ""
    shown = [f"{count:,} {kind}" for kind, count in list(counts.items())[:_SHOWN]]
    more = len(counts) - len(shown)
    left = f", and {more} other reason{'' if more == 1 else 's'}" if more else ""
    rows = sum(counts.values())
    return f"{_rows(rows)} {'was' if rows == 1 else 'were'} left out: {', '.join(shown)}{left}"


def left_out(tally: Tally) -> str:
    """What an error adds where no good row is left; empty where no row is bad."""
    return f"; {_rows(tally.rows, 'bad ')} left out, the first: {tally.first}" if tally.rows else ""


@dataclass(frozen=True)
class Limit:
    """How many rows may be bad. rows, fraction: where both are given, the stricter holds; None: not given."""

    rows: int | None = None
    fraction: float | None = None

    @classmethod
    def of(cls, config: InputConfig) -> Limit:
        """The limit that `config` gives: no row, where it gives none."""
        given = "max_bad_rows" in config.model_fields_set or config.max_bad_fraction is None
        return cls(config.max_bad_rows if given else None, config.max_bad_fraction)

    def check(self, tally: Tally, good: int) -> None:
        """Raise InputError, naming the first bad row, the number of them and the commonest reason, where there are too
        many or where a file is damaged. good: how many rows are not bad."""
        first = tally.first
        if first is None:
            return
        if first.fatal:
            raise InputError(str(first))
        every = tally.rows + good
        allowed = [] if self.rows is None else [(self.rows, f"input.max_bad_rows: {self.rows}")]
        if self.fraction is not None:
            allowed.append(
                (
                    int(Fraction(str(self.fraction)) * every),
                    f"input.max_bad_fraction: {self.fraction} of {_rows(every)}",
                )
            )
        most, key = min(allowed, default=(0, ""))
        if tally.rows <= most:
            return
        if tally.rows == 1:
            raise InputError(f"{first}")
        kind, count = next(iter(tally.counts.items()))
        commonest = f"most often: {kind}, {_rows(count)}" if len(tally.counts) > 1 else "all for this reason"
        raise InputError(f"{first} (the first of {_rows(tally.rows, 'bad ')}, {commonest}; {key})")


NONE = Limit(0)


def _rows(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}row{'' if count == 1 else 's'}"


def tally_of(counted: Iterable[tuple[str, int, BadRow]]) -> Tally:
    """The tally of (kind, rows, the first of them)."""
    found = sorted(counted, key=lambda each: (-each[1], each[0]))
    counts: dict[str, int] = {}
    for kind, rows, _ in found:
        counts[kind] = counts.get(kind, 0) + rows
    first = min((row for _, _, row in found), key=lambda row: (not row.fatal, place_of(row)), default=None)
    return Tally(dict(sorted(counts.items(), key=lambda each: -each[1])), first)


def place_of(row: BadRow) -> tuple[str, int, int, str, str]:
    """What bad rows are ordered by."""
    return row.path, row.offset, row.row, row.reason, row.text


def of(frame: DataFrame) -> DataFrame:
    """The bad rows of a parsed frame: with the fields of base.BAD as columns."""
    return frame.where("bad is not null").select("bad.*")


@described("bad rows")
def tally(bad: DataFrame) -> Tally:
    """The tally of a frame as `of` gives it; the driver gets a row for each kind."""
    from pyspark.sql import functions as sql

    first = sql.min(sql.struct(*_ORDER)).alias("first")
    found = bad.groupBy("kind", "fatal").agg(sql.count("*").alias("rows"), first).collect()
    counted = tally_of(
        (row["kind"], row["rows"], BadRow(**row["first"].asDict(), fatal=row["fatal"], kind=row["kind"]))
        for row in found
    )
    if counted.first is None or counted.first.row >= 0:
        return counted
    lines = find_lines(bad.sparkSession, [(counted.first.path, counted.first.row)])
    return replace(counted, first=assigned([counted.first], lines)[0])


@dataclass
class _Written:
    path: str


@described("bad rows")
def write(bad: DataFrame, counted: Tally, folder: str) -> None:
    """Write bad_rows/ into `folder` from executors: path, row, reason and text of each, as Parquet, by path and row;
    nothing where there are none.

    bad, counted: as `of` and `tally` give them
    """
    if not counted.rows:
        return
    marked = bad.where("row < 0").select("path", "row").distinct().limit(_LOOKED_UP).collect()
    lines = find_lines(bad.sparkSession, [tuple(row) for row in marked])
    place = filesystem.join(folder, FOLDER)
    filesystem.make_folder(place)
    parts = -(-counted.rows // _ROWS_PER_FILE)
    placed = bad.repartitionByRange(parts, *_ORDER) if parts > 1 else bad.coalesce(1)
    ordered = placed.sortWithinPartitions(*_ORDER).select(*_WRITTEN.names, "offset")

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[_Written]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition, attempt = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        path = write_part(
            (_numbered(batch, lines) for batch in batches), place, f"part-{partition:05d}.parquet", attempt
        )
        if path is not None:
            yield _Written(path)

    kept = {written.path for written in facts_of(ordered, task, _Written)}
    for path in kept:
        filesystem.rename(filesystem.join(place, path), filesystem.join(place, path[1:].rpartition(".")[0]))
    for name in filesystem.listing(place):
        if name.startswith("."):  # what failed attempts have left behind
            filesystem.remove(filesystem.join(place, name))


def _numbered(batch: pa.RecordBatch, lines: Lines) -> pa.RecordBatch:
    """The columns that are written, with the lines of rows that have marks. lines: the rest of them stays in it"""
    path, row, reason, text, _ = batch.columns
    if batch.num_rows and (row.to_numpy() < 0).any():
        rows = [BadRow(**values) for values in batch.to_pylist()]
        row = pa.array([numbered.row for numbered in assigned(rows, lines)], pa.int64())
    return pa.RecordBatch.from_arrays([path, row, reason, text], schema=_WRITTEN)


def write_part(batches: Iterable[pa.RecordBatch], place: str, name: str, attempt: int) -> str | None:
    """Write the rows into the folder `place`. Returns the attempt's name for the file; None where there are no rows."""
    path = f".{name}.{attempt}"
    whole = filesystem.join(place, path)
    writer: pq.ParquetWriter | None = None
    begun = False
    try:
        with using(whole, "cannot be written"):
            for batch in batches:
                if batch.num_rows and writer is None:
                    begun = True
                    target, inner = filesystem.resolve(whole)
                    writer = pq.ParquetWriter(inner, _WRITTEN, filesystem=target)
                if writer is not None:
                    writer.write_batch(batch.cast(_WRITTEN))
            if writer is not None:
                writer.close()
    except BaseException:
        if begun:
            with suppress(OSError, SparksplitError):  # the first error is the one to report
                filesystem.remove(whole)
        raise
    return path if begun else None
