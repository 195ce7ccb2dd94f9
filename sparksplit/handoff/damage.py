"""Finds the damaged file of a prepared data set, after Spark has failed to read the data set or has read other rows.

If a page cannot be decompressed, Spark's error names no file. If it can, Spark does not notice a flipped byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from sparksplit.base.errors import InputError
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.spark.task_facts import facts_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TASKS = 64


@dataclass(frozen=True)
class Damage:
    """The first damage that a task has found, and its lane."""

    lane: int
    text: str


def find(spark: SparkSession, data: PreparedDataSet, split: str) -> str | None:
    """Return the first damage in the files of a split, by lane; None if there is no damage.

    Spark's executors read the whole split, and compare the checksums with the manifest.
    """
    tasks = min(_TASKS, data.manifest.lanes)
    parts = spark.range(0, tasks, 1, tasks)

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[Damage]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _first(data, split, number, tasks)

    damages = facts_of(parts, task, Damage)
    return min(damages, key=lambda damage: damage.lane).text if damages else None


def _first(data: PreparedDataSet, split: str, number: int, tasks: int) -> Iterator[Damage]:
    """The first damage in the lanes of task `number`."""
    lane = number
    with data.split(split).reader() as reader:
        try:
            for lane in range(number, data.manifest.lanes, tasks):
                for block in range(data.manifest.blocks(split, lane)):
                    reader.read(lane, block)
        except InputError as error:
            yield Damage(lane, str(error))
