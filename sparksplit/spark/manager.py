"""Facts from the cluster manager that Spark's driver does not know, while the command waits for executors.

YARN's ResourceManager reports how many containers it has granted. A container whose host still downloads files counts
for YARN, but not yet for Spark. A standalone master reports the addresses of its workers' pages. There, a granted
executor registers with Spark within seconds.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sparksplit.spark.workers import pages_of

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOOK_SECONDS = 2.0


class Manager:
    """Ask the cluster manager in a thread while the block lasts. If nobody answers, Spark's and YARN's clients retry
    for many minutes.
    """

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        self.granted: int | None = None
        """Executors that have a container; None while unknown."""
        self.pages: list[str] = []
        """Known page addresses of a standalone cluster's workers."""
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if str(self._sc.master).startswith(("yarn", "spark://")):
            threading.Thread(target=self._look, name="the cluster's manager", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()

    def _look(self) -> None:
        client: Any = None
        try:
            while not self._ended.wait(_LOOK_SECONDS):
                if self._sc.master != "yarn":
                    self.pages = pages_of(self._sc)
                    return
                client = client or _client(self._sc)
                self.granted = _granted(client, self._sc)
        except Exception as error:  # such as no ticket for the ResourceManager; only Spark's own count is known then
            self.granted = None
            logging.getLogger(__name__).debug("the cluster's manager does not tell more: %s", error)
        finally:
            if client is not None:
                with suppress(Exception):  # the JVM may have ended meanwhile
                    client.stop()


def _client(sc: SparkContext) -> Any:
    jvm: Any = sc._jvm
    client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
    client.init(jvm.org.apache.hadoop.yarn.conf.YarnConfiguration(sc._jsc.hadoopConfiguration()))
    client.start()
    return client


def _granted(client: Any, sc: SparkContext) -> int | None:
    jvm: Any = sc._jvm
    application = jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(sc.applicationId)
    used = client.getApplicationReport(application).getApplicationResourceUsageReport()
    # One container is the application master's. YARN returns -1 to users without permission.
    return None if used is None or used.getNumUsedContainers() < 1 else int(used.getNumUsedContainers()) - 1
