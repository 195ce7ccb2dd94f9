"""Descriptions of Spark's jobs. Spark's pages show them, and `diagnose` finds the parts of a preparation by them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sparksplit.spark.session import asking, running_context

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
"""The parts of a preparation that Spark runs, in order. A job of `write` also has the stage of `shuffle`."""

_KEY = "spark.job.description"


@contextmanager
def described(part: str) -> Iterator[None]:
    """Inside the block, or the decorated function, this thread's jobs are described as `part`, a key of PARTS."""
    context = running_context()
    if context is None:
        yield
        return
    with asking(context):  # this may be the first call into a program's own session
        before = context.getLocalProperty(_KEY)
        context.setLocalProperty(_KEY, PREFIX + part)
    try:
        yield
    finally:
        # If Spark has ended meanwhile, report the error that ended Spark.
        if running_context() is context:
            with asking(context):
                context.setLocalProperty(_KEY, before)  # type: ignore[arg-type]
