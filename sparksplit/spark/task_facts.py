"""Results that Spark's tasks send to the driver: dataclasses, each as one row of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pydantic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

T = TypeVar("T")
_COLUMN = "facts"


def facts_of(frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], Iterable[T]], kind: type[T]) -> list[T]:
    """Return the results of `task` for the rows of each partition of `frame`, in the order of the partitions. One Spark
    job.

    task: runs on executors, on a partition's record batches; must be picklable. kind: the dataclass that `task` yields;
    its fields must fit JSON.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for facts in task(batches):
            yield pa.RecordBatch.from_pydict({_COLUMN: [encode(facts)]})

    return [decode(kind, row[0]) for row in frame.mapInArrow(run, f"{_COLUMN} string").collect()]


def encode(facts: Any) -> str:
    """Return a dataclass as JSON."""
    return json.dumps(asdict(facts))


def decode(kind: type[T], text: str) -> T:
    """The inverse of `encode`. Raise pydantic.ValidationError if `text` does not fit `kind`."""
    return pydantic.TypeAdapter(kind).validate_python(json.loads(text))
