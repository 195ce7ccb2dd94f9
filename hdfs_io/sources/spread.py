"""Raw rows dealt evenly to all tasks before they are parsed: a large file that one task has to read, such as a .gz,
then keeps the others busy too.

They travel as Spark reads them, many in one binary value, so that the task that reads them does little else. Which task
a stretch of rows comes to depends on nothing but where it stands in the input, so a task that is lost is done again
with the same rows; their order is not that of the files, which numbers and ids do not go by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io.plan import partition_keys
from hdfs_io.sources.base import BadRow, BadRows, ParsedRows, Reader, Source
from hdfs_io.spark_batches import BATCH_BYTES, partition_id, settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEY, _PLACE, _ROWS = "task", "place", "rows"
_SCHEMA = pa.schema([(_KEY, pa.int32()), (_PLACE, pa.int64()), (_ROWS, pa.binary())])
_TASK_BYTES = 32 * 2**20
"""Of the input's files, which may be compressed, for each task."""
_HELD_BYTES = 32 * 2**20
"""Of rows in a record batch of those that have been dealt."""
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@runtime_checkable
class Sequential(Protocol):
    """A reader to which it matters in which order a file's record batches come."""

    def alone(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The record batches of a task, in order, made so that each can be read without those before it."""


def spread(spark: SparkSession, source: Source, frame: DataFrame, read: Reader) -> tuple[DataFrame, Reader]:
    """(`frame`, the raw rows of `source`, dealt evenly to tasks; what reads them then). read: what reads `frame`"""
    slots = spark.sparkContext.defaultParallelism
    size = sum(file.bytes for file in source.files)
    tasks = slots * max(1, math.ceil(size / slots / _TASK_BYTES))
    deal = Deal(read if isinstance(read, Sequential) else None, partition_keys(tasks))
    kinds = f"{_KEY} int, {_PLACE} bigint, {_ROWS} binary"
    return frame.mapInArrow(deal, kinds).repartition(tasks, _KEY), Dealt(read)


@contextmanager
def dealt_batches(spark: SparkSession, rows: int) -> Iterator[None]:
    """Inside the block, Spark's record batches are so small that both raw rows and stretches of them fit into one.

    rows: that a batch of raw rows would have otherwise
    """
    row_bytes = BATCH_BYTES / rows
    with settings(spark, {_BATCH_ROWS: str(max(1, min(rows, int(math.sqrt(_HELD_BYTES / row_bytes)))))}):
        yield


@dataclass(frozen=True, eq=False)
class Deal:
    """Packs a task's record batches, each for the next task in turn. keys: by task, the int that Spark puts there."""

    reader: Sequential | None
    keys: npt.NDArray[np.int32]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place, turn = 0, partition_id()
        for batch in batches if self.reader is None else self.reader.alone(batches):
            if batch.num_rows:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as writer:
                    writer.write_batch(batch)
                values = [int(self.keys[turn % len(self.keys)])], [place], [sink.getvalue().to_pybytes()]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(value, field.type) for value, field in zip(values, _SCHEMA, strict=True)], schema=_SCHEMA
                )
                place, turn = place + batch.num_rows, turn + 1


@dataclass(frozen=True)
class Dealt:
    """Reads what a `Deal` has packed, in batches of a reasonable size again; see `Reader`. read: reads its rows"""

    read: Reader

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ParsedRows | BadRow | BadRows]]:
        for batch in batches:
            for place, content in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                rows = pa.ipc.open_stream(content.as_buffer()).read_all().to_batches()
                yield from ((part, _placed(item, place)) for part, item in self.read(rows))


def _placed(item: ParsedRows | BadRow | BadRows, place: int) -> ParsedRows | BadRow | BadRows:
    """Bad rows with the order that they would have if `place` rows stood before them."""
    if isinstance(item, BadRow):
        return replace(item, offset=item.offset + place) if item.offset else item
    if isinstance(item, BadRows):
        return BadRows.of([_placed(row, place) for row in item])  # type: ignore[misc]
    return item
