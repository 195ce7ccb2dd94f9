"""What Spark is told that its jobs are for: its pages show it, and `diagnose` tells a preparation's parts by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

PREFIX = "sparksplit: "
PARTS = {
    "open": "the input's files are looked at",
    "parse": "rows are read, parsed, hashed and kept",
    "number": "equal rows are numbered",
    "count": "rows are cut and counted",
    "fit": "vocabularies and quantiles are fitted",
    "shuffle": "rows are sent to the tasks that write them",
    "write": "each file's rows are sorted and written",
    "bad rows": "bad rows are counted and written",
    "digest": "rows are compared with those of an earlier data set",
}
"""The parts of a preparation that Spark does, in their order. A job of `write` has the stage of `shuffle` too."""

_KEY = "spark.job.description"


@contextmanager
def described(part: str) -> Iterator[None]:
    """Inside the block, or the function that it decorates, the jobs that this thread starts are for `part`, of
    PARTS."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        yield
        return
    before = context.getLocalProperty(_KEY)
    context.setLocalProperty(_KEY, PREFIX + part)
    try:
        yield
    finally:
        # Whatever has ended Spark meanwhile is the error to report.
        if SparkContext._active_spark_context is context:
            context.setLocalProperty(_KEY, before)  # type: ignore[arg-type]
