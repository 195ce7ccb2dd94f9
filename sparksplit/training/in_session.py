"""The Spark session of a run: its own, or the session of a caller that makes several runs at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparksplit.spark.session import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CHECK_SECONDS = 0.5
"""Seconds between two calls of `check` while a run sleeps."""


@dataclass(frozen=True)
class InSession:
    """What a caller gives to each of several runs. The default is a run of its own.

    spark: the session, which lasts longer than the run. Another thread may have started it. None: the run gets a
        session by itself. With a session, the run skips the test rows.
    name: what the run's lines begin with.
    check: called while the run waits and while its nodes run. It ends the run by raising an error.
    beside: returns the number of executors that the caller's other runs use now.
    run_name: the name of the run in MLflow. Empty: the name of its folder.
    """

    spark: SparkSession | None = None
    name: str = ""
    check: Callable[[], None] = lambda: None
    beside: Callable[[], int] = lambda: 0
    run_name: str = ""

    def sleep(self, seconds: float) -> None:
        """Sleep, but end the run as soon as `check` raises an error."""
        while seconds > 0:
            self.check()
            time.sleep(min(seconds, _CHECK_SECONDS))
            seconds -= _CHECK_SECONDS

    @contextmanager
    def session(self, own: Callable[[], AbstractContextManager[SparkSession]]) -> Iterator[SparkSession]:
        """Give the session. own: starts a session for a run of its own."""
        if self.spark is None:
            with own() as spark:
                yield spark
        else:
            with asking(self.spark.sparkContext):
                yield self.spark


ALONE = InSession()
"""A run of its own."""
