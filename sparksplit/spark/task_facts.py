"""What Spark's tasks tell the driver: dataclasses, each sent as one row of JSON."""

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
    """What `task` yields for the rows of each partition of the frame, in the partitions' order; one Spark job.

    task: runs in executors, on a partition's record batches; picklable. kind: what it yields, a dataclass whose fields
    JSON can hold.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for facts in task(batches):
            yield pa.RecordBatch.from_pydict({_COLUMN: [encode(facts)]})

    return [decode(kind, row[0]) for row in frame.mapInArrow(run, f"{_COLUMN} string").collect()]


def encode(facts: Any) -> str:
    """The JSON of a dataclass."""
    return json.dumps(asdict(facts))


def decode(kind: type[T], text: str) -> T:
    """The inverse of `encode`; raises pydantic.ValidationError where `text` does not fit `kind`."""
    return pydantic.TypeAdapter(kind).validate_python(json.loads(text))
