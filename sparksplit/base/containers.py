"""How many executors YARN has granted, asked of its ResourceManager by the client in the driver's JVM.

A container that still fetches files counts for YARN and not yet for Spark. Other masters have nothing of the kind:
there an executor that is granted is with Spark within seconds.
"""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOOK_SECONDS = 2.0


class Containers:
    """Asks while its block lasts, in a thread: a ResourceManager that is away is asked again by its client for many
    minutes."""

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        self.granted: int | None = None
        """Executors that have a container; None as long as that is not known."""
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if self._sc.master == "yarn":
            threading.Thread(target=self._look, name="YARN's containers", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()

    def _look(self) -> None:
        client: Any = None
        try:
            while not self._ended.wait(_LOOK_SECONDS):
                if client is None:
                    client = _client(self._sc)
                self.granted = _granted(client, self._sc)
        except Exception as error:  # no ticket for the ResourceManager, say: only Spark's count is known then
            self.granted = None
            logging.getLogger(__name__).debug("YARN does not say how many containers there are: %s", error)
        finally:
            if client is not None:
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
