"""SIGINT and SIGTERM: no signal is lost. A signal ends a call into the JVM, and clean-up code can still use the JVM if
the JVM answers.
"""

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
    from pyspark import SparkContext

_Handler = Callable[[int, FrameType | None], Any]

_AGAIN_SECONDS = 0.02


@contextmanager
def insistent() -> Iterator[None]:
    """Send a signal again if Python dropped its handler's exception. The block then always ends with Interrupted.

    Python prints and drops an exception in a `__del__`, or in a callback of a weak reference or of the garbage
    collector. Every import runs such a callback. The command would go on, and a scheduler that stops it would wait
    forever. For the main thread only, where handlers run.
    """
    main, before = threading.get_ident(), sys.unraisablehook
    dropped: list[int] = []
    again: SimpleQueue[int] = SimpleQueue()  # put() is safe anywhere, even during its own get()
    over = threading.Event()

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            dropped.append(getattr(unraisable.exc_value, "signum", signal.SIGINT))
            again.put(dropped[-1])
        else:
            before(unraisable)

    def send() -> None:
        # Wait first: a signal at once would hit the same callback again.
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
        if dropped:  # replaces any other error
            raise Interrupted(dropped[0])


@contextmanager
def starting() -> Iterator[None]:
    """Keep pyspark from setting its SIGINT handler while it starts.

    That handler would call the JVM on the same connection whose call it interrupts. The call would then fail with
    another error instead of KeyboardInterrupt.
    """
    from pyspark import context

    context.signal = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda *_: None)  # type: ignore[assignment,attr-defined]
    try:
        yield
    finally:
        context.signal = signal  # type: ignore[attr-defined]


@contextmanager
def interruptible(handlers: dict[signal.Signals, Any], context: SparkContext) -> Iterator[None]:
    """Make SIGINT and SIGTERM end a call into the JVM. The JVM stays usable for the clean-up.

    After a signal, new connections to the JVM get a time limit, because the JVM itself may hang. The block always ends
    with the signal's exception, even if the clean-up fails.

    handlers: the signals' usual handlers.
    """
    client = context._gateway._gateway_client  # type: ignore[union-attr]
    limits, raised = limits_of(client), list[BaseException]()

    def forwarding(handler: _Handler) -> _Handler:
        def handle(signum: int, frame: FrameType | None) -> Any:
            connection = client.get_thread_connection()
            in_a_call = connection is not None and connection not in client.deque
            if connection is not None:
                # The interrupted call's answer would still arrive on this thread's connection. py4j would then close
                # the connections of all other threads too.
                connection.close()
            limits.stopping = True
            if in_a_call:
                _cancel_jobs(context)
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
def interruptible_program(context: SparkContext) -> Iterator[None]:
    """Like `interruptible`, for SIGINT in a program whose own session is used.

    It replaces pyspark's handler (see `starting`) and sets it again afterwards.
    """
    before = stopping_handlers().get(signal.SIGINT)
    if getattr(before, "__module__", None) != "pyspark.context":
        yield
        return
    try:
        with py4j_quiet(), interruptible({signal.SIGINT: signal.default_int_handler}, context):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def _cancel_jobs(context: SparkContext) -> None:
    """Cancel the interrupted call's jobs. Otherwise they would keep the executors busy during the clean-up."""
    try:
        with limited(context._gateway):
            context.cancelAllJobs()
    except Exception as error:  # the signal may have ended the JVM, and the jobs with it
        logging.getLogger(__name__).debug("the jobs were not cancelled: %s", error)


@contextmanager
def py4j_quiet() -> Iterator[None]:
    """Drop py4j's log records about interrupted calls: tracebacks, some of them in the root logger."""

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
    """Return the current handlers of the stopping signals. Return {} outside the main thread, because only that thread
    may change them.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore further signals inside the block, so that a second Ctrl-C does not leave half a cluster behind. Everything
    inside has a time limit.
    """
    handlers = stopping_handlers()
    try:
        for signum in handlers:
            signal.signal(signum, lambda *_: None)
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
