"""The Spark session of a run: its own, or the session of a caller that makes several runs at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparksplit.spark.session import asking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class InSession:
    """What a caller gives to each of several runs. The default is a run of its own.

    spark: the session, which lasts longer than the run. Another thread may have started it. None: the run gets a
        session by itself. With a session, the run skips the test rows.
    name: what the run's lines begin with.
    check: called while the nodes run. It ends the run by raising an error.
    """

    spark: SparkSession | None = None
    name: str = ""
    check: Callable[[], None] = lambda: None

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
