"""Bad rows: counts them by reason, checks the limit, and writes them with their file and line.

Bad rows stay in the executors. The driver gets the count and the first row of each reason. To find line numbers, the
driver also gets the files and marks of up to 100,000 rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from hdfs_io import filesystem
from sparksplit.base.errors import InputError
from sparksplit.dataset.part_file import PartFile, accept, attempt_name
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.source import BadRow
from sparksplit.prepare.tables.line_numbers import Lines, assigned, find_lines
from sparksplit.spark.batches import task_ids
from sparksplit.spark.job_names import described
from sparksplit.spark.task_facts import facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOLDER = "bad_rows"
_ORDER = ("path", "offset", "row", "reason", "text")
_WRITTEN = pa.schema([("path", pa.string()), ("row", pa.int64()), ("reason", pa.string()), ("text", pa.string())])
_ROWS_PER_FILE = 1_000_000
_LOOKED_UP = 100_000
"""Largest number of bad rows whose lines are looked up in text files. Further bad rows are kept without their line."""
_SHOWN = 5
"""Largest number of reasons in one message."""


@dataclass(frozen=True)
class Tally:
    """Counts of bad rows by kind of reason, the most frequent kind first.

    first: the first bad row, by file and row. A fatal row, such as one for a damaged file, comes before all other rows.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    first: BadRow | None = None

    @property
    def rows(self) -> int:
        """Number of bad rows."""
        return sum(self.counts.values())


def said(counts: Mapping[str, int]) -> str:
    """Return `3 rows were left out: 2 column 'x': is null, 1 column 'y': is not finite`, or "" if there are no bad
    rows.

    counts: bad rows by reason
    """
    if not counts:
        return ""
    shown = [f"{count:,} {kind}" for kind, count in list(counts.items())[:_SHOWN]]
    more = len(counts) - len(shown)
    left = f", and {more} other reason{'' if more == 1 else 's'}" if more else ""
    rows = sum(counts.values())
    return f"{_rows(rows)} {'was' if rows == 1 else 'were'} left out: {', '.join(shown)}{left}"


def left_out(tally: Tally) -> str:
    """Return the end of the error message for an input without good rows. Return "" if no row is bad."""
    return f"; {_rows(tally.rows, 'bad ')} left out, the first: {tally.first}" if tally.rows else ""


@dataclass(frozen=True)
class Limit:
    """Limit on bad rows. rows: largest number. fraction: largest fraction of all rows. None: not given.

    If both are given, the stricter limit holds.
    """

    rows: int | None = None
    fraction: float | None = None

    @classmethod
    def of(cls, config: InputConfig) -> Limit:
        """Return the limit in `config`. If `config` gives no limit, no row may be bad."""
        given = "max_bad_rows" in config.model_fields_set or config.max_bad_fraction is None
        return cls(config.max_bad_rows if given else None, config.max_bad_fraction)

    def check(self, tally: Tally, good: int) -> None:
        """Raise InputError if there are too many bad rows, or if a file is damaged. good: number of good rows

        The message names the first bad row, the number of bad rows and the most frequent reason.
        """
        first = tally.first
        if first is None:
            return
        if first.fatal:
            raise InputError(str(first))
        every = tally.rows + good
        allowed = [] if self.rows is None else [(self.rows, f"input.max_bad_rows: {self.rows}")]
        if self.fraction is not None:
            most = int(Fraction(str(self.fraction)) * every)
            allowed.append((most, f"input.max_bad_fraction: {self.fraction} of {_rows(every)}"))
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
    """Return the tally of (kind, number of rows, first row of this kind)."""
    ordered = sorted(counted, key=lambda each: (-each[1], each[0]))
    counts: dict[str, int] = {}
    for kind, rows, _ in ordered:
        counts[kind] = counts.get(kind, 0) + rows
    first = min((row for _, _, row in ordered), key=lambda row: (not row.fatal, place_of(row)), default=None)
    return Tally(dict(sorted(counts.items(), key=lambda each: -each[1])), first)


def place_of(row: BadRow) -> tuple[str, int, int, str, str]:
    """Return the sorting key of a bad row."""
    return row.path, row.offset, row.row, row.reason, row.text


def of(frame: DataFrame) -> DataFrame:
    """Return the bad rows of a parsed frame, with the fields of `source.BAD` as columns."""
    return frame.where("bad is not null").select("bad.*")


@described("bad rows")
def tally(bad: DataFrame) -> Tally:
    """Return the tally of a frame from `of`. The driver gets one row for each kind."""
    from pyspark.sql import functions as sql

    first = sql.min(sql.struct(*_ORDER)).alias("first")
    groups = bad.groupBy("kind", "fatal").agg(sql.count("*").alias("rows"), first).collect()
    counted = tally_of(
        (row["kind"], row["rows"], BadRow(**row["first"].asDict(), fatal=row["fatal"], kind=row["kind"]))
        for row in groups
    )
    if counted.first is None or counted.first.row >= 0:
        return counted
    lines = find_lines(bad.sparkSession, [(counted.first.path, counted.first.row)])
    return replace(counted, first=assigned([counted.first], lines)[0])


@dataclass
class _Written:
    name: str


@described("bad rows")
def write(bad: DataFrame, counted: Tally, folder: str) -> None:
    """Write the bad rows to bad_rows/ in `folder`, as Parquet, in executors. Write nothing if no row is bad.

    The columns are path, row, reason and text. The rows are sorted by path and row.

    bad, counted: from `of` and `tally`
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
        with PartFile(place, attempt_name(*task_ids()), ("path", "reason")) as file:
            for batch in batches:
                file.write(pa.table(_numbered(batch, lines)))
        if file.rows:
            yield _Written(file.name)

    accept(place, [written.name for written in facts_of(ordered, task, _Written)])


def _numbered(batch: pa.RecordBatch, lines: Lines) -> pa.RecordBatch:
    """Return the columns to write, with line numbers in place of marks.

    lines: the lines that are still free. The function removes each line that it uses
    """
    path, row, reason, text, _ = batch.columns
    if batch.num_rows and (row.to_numpy() < 0).any():
        rows = [BadRow(**values) for values in batch.to_pylist()]
        row = pa.array([numbered.row for numbered in assigned(rows, lines)], pa.int64())
    return pa.RecordBatch.from_arrays([path, row, reason, text], schema=_WRITTEN)
