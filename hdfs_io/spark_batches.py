"""Record batches between Spark and Python, bounded in bytes: by default they have 10,000 rows, however large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_BYTES = 8 * 1024 * 1024
"""Bytes of a batch."""


@contextmanager
def bounded_batches(spark: SparkSession, rows: int) -> Iterator[None]:
    """Inside the block, Spark's batches have at most `rows` rows."""
    keys = ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.inMemoryColumnarStorage.batchSize")
    before = {key: spark.conf.get(key) for key in keys}
    for key in keys:
        spark.conf.set(key, str(rows))
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, str(value))


def rows_per_batch(row_bytes: int, batch_bytes: int = BATCH_BYTES) -> int:
    """How many rows of `row_bytes` go into a record batch of at most `batch_bytes` between Spark and Python."""
    return max(1, min(10_000, batch_bytes // max(row_bytes, 1)))
