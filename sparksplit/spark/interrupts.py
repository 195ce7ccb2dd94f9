"""SIGINT and SIGTERM: neither is lost, they end a call into the JVM, and whatever cleans up can still use the JVM, if
that answers."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from sparksplit.base.errors import Interrupted
from sparksplit.spark.jvm import limited, limits_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Handler = Callable[[int, FrameType | None], Any]

_AGAIN_SECONDS = 0.02


@contextmanager
def insistent() -> Iterator[None]:
    """Send a signal again if Python drops what its handler raised, and in any case let the signal end the block.

    Python prints and drops what is raised in a `__del__`, or in a callback of a weak reference or of the garbage
    collector, and every import runs one. The command would go on, and a scheduler that wants it stopped would wait for
    ever. For the main thread only, where handlers run.
    """
    main, before = threading.get_ident(), sys.unraisablehook
    dropped: list[int] = []
    again: SimpleQueue[int] = SimpleQueue()  # may be filled from anywhere, also from within its own get()
    over = threading.Event()

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            dropped.append(getattr(unraisable.exc_value, "signum", signal.SIGINT))
            again.put(dropped[-1])
        else:
            before(unraisable)

    def send() -> None:
        # Not at once: it would hit the same callback again.
        while (signum := again.get()) and not over.wait(_AGAIN_SECONDS):
            signal.pthread_kill(main, signum)

    sender = threading.Thread(target=send, name="dropped signals", daemon=True)
    sender.start()
    sys.unraisablehook = hook
    try:
        yield
    finally:
        try:
            over.set()
            again.put(0)
            sender.join()
        finally:
            sys.unraisablehook = before
        if dropped:  # by then there may be another error, or none
            raise Interrupted(dropped[0])


@contextmanager
def starting() -> Iterator[None]:
    """Keep pyspark from setting its SIGINT handler while it starts.

    That handler would call the JVM on the very connection whose call it interrupts, which then fails with some other
    error instead of the KeyboardInterrupt.
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

    From then on a connection to the JVM, which may be what stands still, is not waited for as long as one likes; and
    the block ends with what the signal has raised, even where the cleaning up fails.

    handlers: what the signals otherwise do.
    """
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    limits, raised = limits_of(client), list[BaseException]()

    def forwarding(handler: _Handler) -> _Handler:
        def handle(signum: int, frame: FrameType | None) -> Any:
            connection = client.get_thread_connection()
            in_a_call = connection is not None and connection not in client.deque
            if connection is not None:
                # The interrupted call's answer would still arrive on this thread's connection. Left to itself, py4j
                # would then close the connections of all other threads as well.
                connection.close()
            limits.stopping = True
            if in_a_call:
                _cancel_jobs(spark)
            try:
                return handler(signum, frame)
            except BaseException as error:
                raised.append(error)
                raise

        return handle

    for signum, handler in handlers.items():
        signal.signal(signum, forwarding(handler) if callable(handler) else handler)
    try:
        yield
    except Exception as error:
        if raised:
            raise raised[0] from error
        raise
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        limits.stopping = False


@contextmanager
def interruptible_program(spark: SparkSession) -> Iterator[None]:
    """As `interruptible`, for SIGINT in a program whose own session is used: instead of pyspark's handler (see
    `starting`), which is set again afterwards."""
    before = stopping_handlers().get(signal.SIGINT)
    if getattr(before, "__module__", None) != "pyspark.context":
        yield
        return
    try:
        with py4j_quiet(), interruptible({signal.SIGINT: signal.default_int_handler}, spark):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def _cancel_jobs(spark: SparkSession) -> None:
    """Otherwise what the interrupted call was waiting for would go on, and keep the executors from the cleaning up."""
    try:
        with limited(spark.sparkContext._gateway):
            spark.sparkContext.cancelAllJobs()
    except Exception as error:  # the JVM may be what was interrupted; its end ends the jobs too
        logging.getLogger(__name__).debug("the jobs were not cancelled: %s", error)


@contextmanager
def py4j_quiet() -> Iterator[None]:
    """Drop what py4j logs about interrupted calls: with tracebacks, and in part to the root logger."""

    def wanted(record: logging.LogRecord) -> bool:
        return record.module != "java_gateway" and record.funcName != "shutdown_socket"

    loggers = logging.getLogger(), logging.getLogger("py4j.clientserver")
    for logger in loggers:
        logger.addFilter(wanted)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(wanted)


def stopping_handlers() -> dict[signal.Signals, Any]:
    """What the stopping signals do now; {} outside the main thread, since only that may change it."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep a second Ctrl-C from leaving half a cluster behind: everything inside has a time limit."""
    handlers = stopping_handlers()
    try:
        for signum in handlers:
            signal.signal(signum, lambda *_: None)
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
