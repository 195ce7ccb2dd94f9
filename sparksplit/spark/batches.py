"""Record batches between Spark and Python, bounded in bytes. By default a batch has 10,000 rows of any size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_BYTES = 8 * 1024 * 1024
"""Most bytes of a batch."""


_OFF = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.execution.arrow.useLargeVarTypes",
)
_SHUFFLED_BYTES = 64 * 1024 * 1024
"""Approximate bytes that a task reads from a shuffle."""


@contextmanager
def bounded_batches(spark: SparkSession, rows: int) -> Iterator[None]:
    """Inside the block, limit Spark's batches to `rows` rows and make reads repeatable, whatever the user's settings.

    The same files become the same partitions each time, even if executors come and go. A damaged or missing file is an
    error.
    """
    keys = ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.inMemoryColumnarStorage.batchSize")
    least = "spark.sql.files.minPartitionNum"
    known = (spark.conf.get(key, None) for key in (least, "spark.sql.leafNodeDefaultParallelism"))
    slots = next((value for value in known if value), str(spark.sparkContext.defaultParallelism))
    with settings(spark, {**dict.fromkeys(keys, str(rows)), least: slots, **dict.fromkeys(_OFF, "false")}):
        yield


@contextmanager
def shuffled(spark: SparkSession, size: int) -> Iterator[None]:
    """Inside the block, shuffles of about `size` bytes get enough partitions."""
    slots = spark.sparkContext.defaultParallelism
    wanted = -(-size // _SHUFFLED_BYTES)
    count = max(1, wanted if wanted < slots else -(-wanted // slots) * slots)
    with settings(spark, {"spark.sql.shuffle.partitions": str(count)}):
        yield


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Inside the block, the session has these settings."""
    before = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)


def rows_per_batch(row_bytes: int, batch_bytes: int = BATCH_BYTES) -> int:
    """Return how many rows of `row_bytes` fit into a record batch of at most `batch_bytes` between Spark and Python."""
    return max(1, min(10_000, batch_bytes // max(row_bytes, 1)))


def partition_id() -> int:
    """Return the partition number of the current task; 0 outside of Spark."""
    return task_ids()[0]


def task_ids() -> tuple[int, int]:
    """Return (partition number, id of the attempt) of the current task; (0, 0) outside of Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
