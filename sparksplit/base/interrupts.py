"""SIGINT and SIGTERM while Spark runs: they end a call into the JVM, and what cleans up afterwards can still use it."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def starting() -> Iterator[None]:
    """Keep pyspark from setting its handler of SIGINT while it starts.

    It would call the JVM on the very connection of the call that it interrupts, and that call then fails with an error
    of another kind in place of the KeyboardInterrupt.
    """
    from pyspark import context

    context.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)  # type: ignore[assignment,attr-defined]
    try:
        yield
    finally:
        context.signal = signal  # type: ignore[attr-defined]


@contextmanager
def interruptible(handlers: dict[signal.Signals, Any], spark: SparkSession) -> Iterator[None]:
    """Let SIGINT and SIGTERM end a call into the JVM, and keep the JVM usable for what cleans up after them.

    handlers: what the signals do otherwise.
    """
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]

    def forwarding(handler: _Handler) -> _Handler:
        def handle(signum: int, frame: FrameType | None) -> Any:
            connection = client.get_thread_connection()
            if connection is not None:
                in_a_call = connection not in client.deque
                # The interrupted call's answer would still come on this thread's connection. Left to itself, py4j then
                # closes the connections of all other threads as well.
                connection.close()
                if in_a_call:
                    _cancel_jobs(spark)
            return handler(signum, frame)

        return handle

    for signum, handler in handlers.items():
        signal.signal(signum, forwarding(handler) if callable(handler) else handler)
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def _cancel_jobs(spark: SparkSession) -> None:
    """What the interrupted call was waiting for would go on, and keep the executors from whatever cleans up."""
    try:
        spark.sparkContext.cancelAllJobs()
    except Exception as error:  # the JVM may be what was interrupted; its end ends the jobs too
        logging.getLogger(__name__).debug("the jobs were not cancelled: %s", error)


@contextmanager
def py4j_quiet() -> Iterator[None]:
    """Drop what py4j logs, with tracebacks and to the root logger, about calls that were interrupted."""

    def wanted(record: logging.LogRecord) -> bool:
        return record.module != "java_gateway"

    root = logging.getLogger()
    root.addFilter(wanted)
    try:
        yield
    finally:
        root.removeFilter(wanted)


def stopping_handlers() -> dict[signal.Signals, Any]:
    """What the stopping signals do now; {} outside the main thread, which alone may say what they do."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep a second Ctrl-C from leaving half of a cluster behind: everything inside has a time limit."""
    handlers = stopping_handlers()
    try:
        for signum in handlers:
            signal.signal(signum, lambda *_: None)
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
