"""Asks all executors at the same time, within a time limit."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sparksplit.spark.jvm import limited

if TYPE_CHECKING:
    from pyspark import SparkContext


def answers(
    sc: SparkContext, count: int, ask: Callable[[Iterable[Any]], Iterator[str]], name: str, seconds: float
) -> list[str]:
    """Return what `ask` yields in the tasks of a barrier stage, one task on each of `count` executors.

    ask: picklable. name: of the command. Raise TimeoutError if the answers are late, and Spark's own errors.
    """
    group = f"sparksplit-{name}-{uuid.uuid4().hex[:8]}"
    texts: list[str] = []
    errors: list[Exception] = []

    def collect() -> None:
        try:
            sc.setJobGroup(group, f"sparksplit {name}", interruptOnCancel=True)
            texts.extend(sc.parallelize(range(count), count).barrier().mapPartitions(ask).collect())
        except Exception as error:
            errors.append(error)

    # Use a thread, because of the time limit, and because a job group belongs to a thread.
    collecting = threading.Thread(target=collect, name=name, daemon=True)
    collecting.start()
    try:
        collecting.join(seconds)
    finally:
        if late := collecting.is_alive():
            with limited(sc._gateway):
                sc.cancelJobGroup(group)
    if late:
        raise TimeoutError(f"have not answered within {seconds:g} s; their logs may say why")
    if errors:
        raise errors[0]
    return texts
