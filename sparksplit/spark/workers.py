"""Read the log of an executor that failed at its start on Spark standalone. The driver does not know such an executor,
and only the worker's page has its log.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from sparksplit.spark.reasons import executor_error
from sparksplit.spark.settings.masters import addresses_of

if TYPE_CHECKING:
    from pyspark import SparkContext

_PAGE_SECONDS = 2.0
"""Seconds of silence that end one request."""
_ALL_PAGES_SECONDS = 6.0
"""Seconds for all pages together. A page that sends a byte now and then is never silent."""
_MOST_PAGES = 20
"""Largest number of worker pages to ask."""

_MOST_BYTES = 1 << 24
KINDS = ("stderr", "stdout")
"""An executor's logs. Java's own errors are in the second."""

log = logging.getLogger(__name__)


def pages_of(sc: SparkContext) -> list[str]:
    """Return the addresses of the workers' pages, from Spark's master. Empty if the master is not standalone or does
    not answer.

    Spark must be running.
    """
    jvm: Any = sc._jvm
    for host, port in addresses_of(str(sc.master)):
        try:
            address = jvm.org.apache.spark.rpc.RpcAddress(host, port)
            master = sc._jsc.sc().env().rpcEnv().setupEndpointRef(address, "Master")
            messages = "org.apache.spark.deploy.DeployMessages$"
            ask = jvm.java.lang.Class.forName(f"{messages}RequestMasterState$").getField("MODULE$").get(None)
            answer = jvm.java.lang.Class.forName(f"{messages}MasterStateResponse")
            state = master.askSync(ask, jvm.scala.reflect.ClassTag.apply(answer))
            if pages := [str(worker.webUiAddress()) for worker in state.workers()]:  # a standby master has none
                return pages
        except Exception as error:
            log.debug("%s:%d does not tell its workers: %s", host, port, error)
    return []


def said_by_an_executor(sc: SparkContext, pages: Sequence[str]) -> str | None:
    """Return the error of an ended executor of the application. None if no worker's page, and no worker's folder on
    this machine, has one.

    pages: of the workers. All are asked at once, because each may take seconds behind a firewall.
    """
    application = str(sc.applicationId)
    errors: dict[str, str | None] = {}

    def ask(page: str) -> None:
        errors[page] = _error_in(_on_page(page, application))

    end = time.monotonic() + _ALL_PAGES_SECONDS
    # Daemons, so that the driver can end while a page still answers.
    threads = [threading.Thread(target=ask, args=(page,), daemon=True) for page in pages[:_MOST_PAGES]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return next(filter(None, map(errors.get, pages)), None) or _error_in(_in_folder(sc, application))


def _error_in(texts: Iterator[str]) -> str | None:
    """Return the first error in an executor's logs."""
    try:
        return next(filter(None, map(executor_error, texts)), None)
    except Exception as error:  # a closed page, a page that the driver cannot reach, or another user's folder
        log.debug("what an executor said is not known: %s", error)
        return None


def _on_page(page: str, application: str) -> Iterator[str]:
    """Yield the logs of the executor that ended last on this worker."""
    for number in ended_executors(json.loads(_read(f"{page}/json/")), application)[-1:]:
        for kind in KINDS:
            query = urlencode({"appId": application, "executorId": number, "logType": kind})
            yield _read(f"{page}/log?{query}").partition("\n")[2]  # the page adds a line before the text


def _in_folder(sc: SparkContext, application: str) -> Iterator[str]:
    """Yield the application's newest executor log of each kind, from Spark's default folder for workers on this
    machine.

    The workers of a local cluster write there.
    """
    jvm: Any = sc._jvm
    home = Path(jvm.java.lang.System.getenv("SPARK_HOME") or "")
    for kind in KINDS:
        for file in sorted(home.glob(f"work/{application}/*/{kind}"), key=lambda file: file.stat().st_mtime)[-1:]:
            yield file.read_text(errors="replace")


def ended_executors(page: Any, application: str) -> list[int]:
    """Return the ids of the application's ended executors, from a worker's page as JSON."""
    return sorted(one["id"] for one in page.get("finishedexecutors", ()) if one.get("appid") == application)


def _read(address: str) -> str:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(address, timeout=_PAGE_SECONDS) as answer:
        return str(answer.read(_MOST_BYTES).decode(errors="replace"))
