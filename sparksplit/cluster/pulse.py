"""Whether Spark's executors answer. Spark itself notices a stopped executor or host only after two minutes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from sparksplit.cluster.channel.limits import BEAT, DEAD
from sparksplit.spark.settings.requirements import mebibytes

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

MOST = 64
"""Largest number of executors that are asked at the same time."""
COLLECTING = 1.0
"""Seconds of Java's garbage collection per GiB of memory, during which an executor does not answer."""


class Pulse:
    """Asks executors again and again, each in its own thread, and remembers when they answered.

    An executor with slow or hanging tasks answers at once. Only an executor that stands still as a whole does not
    answer.
    limit: seconds without an answer after which an executor counts as silent.
    """

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        memory = sc.getConf().get("spark.executor.memory") or "1g"
        self.limit = DEAD + COLLECTING * mebibytes(memory, "spark.executor.memory") / 1024
        self._answered: dict[str, float] = {}
        self._asking: dict[str, threading.Thread] = {}
        self._over = threading.Event()
        self._looked = time.monotonic()

    def silent(self, executors: Collection[str]) -> list[str]:
        """Return the executors among `executors` that do not answer, each at most once per `limit` seconds. Call this
        often.

        Only these executors are asked from now on.
        """
        now = time.monotonic()
        stood_still, self._looked = now - self._looked, now
        if stood_still > 2 * BEAT:  # this process stood still, or nobody looked: answers may be unread
            self._answered = {each: heard + stood_still for each, heard in self._answered.items()}
        wanted = sorted(executors)[:MOST]
        for executor in self._asking.keys() - wanted:
            del self._asking[executor]
        for executor in wanted:
            if executor not in self._asking:
                self._answered[executor] = now
                thread = threading.Thread(target=self._ask, args=(executor,), name=f"executor {executor}", daemon=True)
                self._asking[executor] = thread
                thread.start()
        silent = [executor for executor in wanted if now - self._answered[executor] > self.limit]
        self._answered |= dict.fromkeys(silent, now)
        return silent

    def close(self) -> None:
        """Stop asking."""
        self._asking.clear()
        self._over.set()

    def _ask(self, executor: str) -> None:
        while self._asking.get(executor) is threading.current_thread():
            try:
                # An executor answers this request at once, even if its tasks are busy or hang.
                self._sc._jsc.sc().getExecutorThreadDump(executor)
            except Exception as error:
                log.debug("executor %s could not be asked: %s", executor, error)
            self._answered[executor] = time.monotonic()
            self._over.wait(BEAT)
