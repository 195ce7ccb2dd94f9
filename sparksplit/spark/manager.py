"""What the cluster's manager says while executors are waited for, and Spark's driver does not know.

YARN's ResourceManager says how many containers it has granted: one whose host still fetches files counts for YARN and
not yet for Spark. A standalone master says where its workers' pages are. There, an executor that is granted is with
Spark within seconds.
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
    """Asks while its block lasts, in a thread: where nobody answers, Spark's and YARN's own clients ask again for many
    minutes."""

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        self.granted: int | None = None
        """Executors that have a container; None as long as that is not known."""
        self.pages: list[str] = []
        """The addresses of a standalone cluster's workers, as far as they are known."""
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
        except Exception as error:  # no ticket for the ResourceManager, say: only Spark's count is known then
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
    # One is the application master's; YARN gives -1 to who may not know.
    return None if used is None or used.getNumUsedContainers() < 1 else int(used.getNumUsedContainers()) - 1
