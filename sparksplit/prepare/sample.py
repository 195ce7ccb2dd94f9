"""A sample of a source's rows, and what it tells of the whole input: how many rows, to which splits, in what time.

The sample is the beginning of some of the tasks that would read the input, each in an executor, by the very reader that
`preprocess` uses; so a row that it rejects will be rejected.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparksplit.base.errors import InputError
from sparksplit.dataset import row_ids
from sparksplit.dataset.lane_files import LABEL
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.config import PreprocessConfig
from sparksplit.prepare.passes.cut import Cut, outside
from sparksplit.prepare.passes.cut_fit import fitted as fitted_cut
from sparksplit.prepare.passes.identify import Identify
from sparksplit.prepare.passes.parse import (
    BAD,
    CONTENT,
    CUT,
    NUMBER,
    PART,
    parsed_schema,
    reader_of,
    to_batch,
)
from sparksplit.prepare.source import BadRow, BadRows, ParsedRows, Reader, Source
from sparksplit.spark.batches import bounded_batches, rows_per_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = 8
"""How many tasks the sample is from, at least, where the input has so many with rows."""
TASK_ROWS = 10_000
TASK_SECONDS = 5.0
"""How much of a task is read: so many rows, for so long."""
SHOWN_ROWS = 5
VALUE_BYTES = 1024 * 1024
"""Of the features of a task's first rows: what columns look like is told by these."""
WORK = 3.0
"""What a whole job costs where reading and parsing all rows costs 1: they are kept, gone over, shuffled, sorted and
written (docs/operations.md has the measurements)."""
_BATCH = 1_000
"""Rows of a batch, so that Spark reads little more than the sample."""


@dataclass(frozen=True)
class Sample:
    """Rows of some tasks.

    rows: columns as in `parsed_schema`, with the features of each task's first ones only. rate: rows/s of the fastest
    task, of one core. whole: whether these are all rows that there are. row_bytes: of a file for each row; None where
    our own tasks read the files. valued: the good rows that have their features; None: none that are known.
    """

    rows: pa.Table
    rate: float
    whole: bool
    row_bytes: float | None = None
    valued: pa.Table | None = None

    @property
    def bad(self) -> list[BadRow]:
        """The rejected rows."""
        found = self.rows.column(BAD)
        return [BadRow(**row) for row in found.filter(found.is_valid()).to_pylist()]

    @property
    def good(self) -> pa.Table:
        """The other rows."""
        return self.rows.filter(self.rows.column(BAD).is_null())


@dataclass(frozen=True)
class Facts:
    """What a sample tells of the whole input.

    rows: of the whole input, good and bad; None where nothing tells. splits: rows that fall to each, or shares of those
    that are cut, where `rows` is None. seconds: what the whole job would take. note: why there are no splits.
    """

    rows: int | None
    splits: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    cores: int = 1
    note: str = ""


@dataclass(frozen=True, eq=False)
class _Take:
    """What a task of the sample does: one row with the beginning of its rows, as an Arrow stream; none without rows."""

    read: Reader
    schema: pa.Schema
    most: int
    """Rows to take."""
    valued: int = SHOWN_ROWS
    """So many of them with their features, the first good ones."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken: list[pa.RecordBatch] = []
        kept, valued, head_end, ended = 0, 0, 0, True
        clock = _Clock()
        for name, item in self.read(batches):
            clock.saw(1 if isinstance(item, BadRow) else len(item))
            if kept >= self.most or clock.seconds > TASK_SECONDS:
                ended = False
                break
            if not isinstance(item, ParsedRows):
                taken.append(to_batch(item, name, self.schema))
                kept += len(item) if isinstance(item, BadRows) else 1
            else:
                stop = min(len(item), self.most - kept)
                head = min(stop, self.valued - valued)
                ended = ended and stop == len(item)
                taken += [to_batch(_slice(item, 0, head), name, self.schema)] if head else []
                taken += [to_batch(_slice(item, head, stop), name, self.schema, wanted=False)] if head < stop else []
                head_end = kept + head if head else head_end
                kept, valued = kept + stop, valued + head
        if kept:
            yield pa.RecordBatch.from_pylist(
                [{"rate": clock.rate, "ended": ended, "valued": head_end, "rows": _stream(taken, self.schema)}]
            )


class _Clock:
    """How fast rows come. It starts with the first of them, which waited for Spark's own start, if more follow."""

    def __init__(self) -> None:
        self.looks, self._begin, self._rows = 0, time.perf_counter(), 0
        self._first: tuple[float, int] | None = None
        self._now = self._begin

    def saw(self, rows: int) -> None:
        """So many more rows have come."""
        self.looks, self._rows, self._now = self.looks + 1, self._rows + rows, time.perf_counter()
        self._first = self._first or (self._now, self._rows)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._now - self._begin

    @property
    def rate(self) -> float:
        """Rows/s."""
        begin, before = self._first if self._first and self.looks > 1 else (self._begin, 0)
        return (self._rows - before) / max(self._now - begin, 1e-6)


def _slice(rows: ParsedRows, start: int, stop: int) -> ParsedRows:
    return ParsedRows(
        [tensor[start:stop] for tensor in rows.tensors],
        None if rows.label is None else rows.label[start:stop],
        [column[start:stop] for column in rows.keep],
        None if rows.cut is None else rows.cut[start:stop],
        [text[start:stop] for text in rows.texts],
        None if rows.weight is None else rows.weight[start:stop],
    )


def _stream(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def sampled(spark: SparkSession, source: Source) -> Sample:
    """A sample of the source's rows. Raises InputError where there is none."""
    frame, read = source.raw(spark)
    schema = parsed_schema(source)
    before = _read_so_far(spark)
    row_bytes = max(sum(tensor.row_bytes for tensor in source.tensors), source.raw_bytes)
    with bounded_batches(spark, min(_BATCH, rows_per_batch(row_bytes))):
        # Spark goes from task to task until it has so many of these rows.
        valued = max(SHOWN_ROWS, min(TASK_ROWS, VALUE_BYTES // max(1, row_bytes)))
        take = _Take(reader_of(source, read), schema, TASK_ROWS, valued)
        found = frame.mapInArrow(take, "rate double, ended boolean, valued bigint, rows binary").take(TASKS + 1)
    if not found:
        raise InputError(f"{source.place}: has no rows")
    tables = [pa.ipc.open_stream(pa.py_buffer(bytes(row.rows))).read_all() for row in found]
    whole = len(found) <= TASKS and all(row.ended for row in found)
    size, records = (now - then for now, then in zip(_read_so_far(spark), before, strict=True))
    heads = pa.concat_tables(table.slice(0, row.valued) for table, row in zip(tables, found, strict=True))
    rate, of_file = max(row.rate for row in found), size / records if records else None
    return Sample(pa.concat_tables(tables), rate, whole, of_file, heads.filter(heads.column(BAD).is_null()))


def facts(spark: SparkSession, config: PreprocessConfig, source: Source, sample: Sample) -> Facts:
    """What the sample tells."""
    parts = _by_part(sample.rows) if sample.whole else source.expected_rows(sample.row_bytes)
    rows = None if parts is None else sum(parts.values())
    dealt, note = _dealt(spark, config, source, sample.good)
    cores = max(1, spark.sparkContext.defaultParallelism)
    seconds = None if rows is None else rows * WORK / sample.rate / cores
    return Facts(rows, expected_splits(dealt, _by_part(sample.good) if sample.whole else parts), seconds, cores, note)


def _by_part(rows: pa.Table) -> dict[str, int]:
    counts = np.bincount(rows.column(PART).to_numpy(), minlength=len(SPLITS)).tolist()
    return {name: count for name, count in zip(SPLITS, counts, strict=True) if count}


def expected_splits(dealt: Mapping[str, float], parts: Mapping[str, int] | None) -> dict[str, float]:
    """Rows by split where `parts` are the rows by part; shares of the rows that are cut, where that is unknown.

    dealt: the shares of the rows of the part train that fall to each split
    """
    if parts is None or not dealt:
        return dict(dealt)
    return {name: parts.get("train", 0) * dealt[name] + (name != "train" and parts.get(name, 0)) for name in SPLITS}


def _dealt(
    spark: SparkSession, config: PreprocessConfig, source: Source, good: pa.Table
) -> tuple[dict[str, float], str]:
    """(the shares of the rows of the part train that fall to each split, why that cannot be told)."""
    if not good.num_rows:
        return {}, "unknown: all rows of the sample are rejected"
    cut = Cut() if source.deals else Cut.of(config, [name for name in source.parts() if name != "train"])
    cut = replace(cut, reach=source.windows.reach if source.windows is not None else 0)
    content = np.stack([row_ids.unsigned(good.column(word).to_numpy()) for word in CONTENT], axis=1)
    number, part = row_ids.duplicate_numbers(content), good.column(PART).to_numpy()
    by = good.column(CUT) if CUT in good.column_names else None
    label = good.column(LABEL) if LABEL in good.column_names else None
    try:
        if cut.fits:
            keys = {word: good.column(word).to_pylist() for word in (*CONTENT, PART)}
            keys |= {NUMBER: number.tolist()} | ({} if by is None else {CUT: by.to_pylist()})
            keys |= {} if label is None else {LABEL: label.to_pylist()}
            rows = list(zip(*keys.values(), strict=True))
            cut = fitted_cut(cut, spark.createDataFrame(rows, _schema(keys, good)), Identify(None))
        labels = None if label is None else label.combine_chunks()
        dealt = cut.splits(content, number, part, None if by is None or by.null_count else by.to_numpy(), labels)
    except InputError as error:
        return {}, f"unknown from the sample alone: {error}"
    mine = part == SPLITS.index("train")
    wanted = mine if by is None or not cut.left_out else mine & outside(by.to_numpy(), cut.left_out)
    counts = np.bincount(dealt[wanted], minlength=len(SPLITS))
    return {name: count / max(1, int(mine.sum())) for name, count in zip(SPLITS, counts.tolist(), strict=True)}, ""


def _schema(keys: Iterable[str], good: pa.Table) -> str:
    kinds = {pa.string(): "string", pa.binary(): "binary", pa.float64(): "double", pa.int32(): "int"}
    own = {NUMBER: pa.int64()}
    types = {name: kinds.get(own.get(name) or good.schema.field(name).type, "bigint") for name in keys}
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def _read_so_far(spark: SparkSession) -> tuple[int, int]:
    """(bytes, rows) that Spark's own readers have read in this session; zeros for files that our tasks read."""
    context = spark.sparkContext
    jvm, scala = context._jvm, context._jsc.sc()
    assert jvm is not None and context._gateway is not None
    scala.listenerBus().waitUntilEmpty()
    none = jvm.java.util.ArrayList()
    stages = scala.statusStore().stageList(none, False, False, context._gateway.new_array(jvm.double, 0), none)
    found = [stages.apply(place) for place in range(stages.size())]
    return sum(stage.inputBytes() for stage in found), sum(stage.inputRecords() for stage in found)
