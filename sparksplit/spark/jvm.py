"""Time limits for calls into Spark's JVM: the JVM may hang, and py4j would wait for its answer forever."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sparksplit.base.errors import RunError

PATIENCE = 15.0
"""Seconds for a call that the JVM answers at once."""
AGAIN = 1.0
"""Seconds for each further answer, after an answer was late."""
SILENCE = 120.0
"""Seconds without an answer that end a call which may take hours. A JVM that collects garbage needs some of them."""
LOOK = 5.0
"""Seconds between two checks whether the JVM answers."""
_SILENT = (
    "Spark's JVM does not answer: it is stopped, or its memory is full. End it, or set a larger spark.driver.memory"
)


class _Limits:
    """The parameters of a py4j client, with time limits. A new connection reads its limit from here.

    Each new connection has a limit until the JVM has answered on it once.

    silent: the JVM has not answered in time.
    dead: the JVM has not answered for SILENCE seconds.
    stopping: new connections get the short limit.
    watched: by thread, the connections of threads inside `watched`.
    """

    def __init__(self, client: Any) -> None:
        self.given, self.make = client.java_parameters, client._create_new_connection
        self.own, self.silent, self.dead, self.stopping = threading.local(), False, False, False
        self.watched: dict[int, Any] = {}
        client.java_parameters, client._create_new_connection = self, self.connect

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)

    @property
    def until(self) -> float | None:
        """The time at which this thread stops waiting; None: never."""
        return getattr(self.own, "until", None)

    @property
    def read_timeout(self) -> Any:
        if self.until is not None:
            return _seconds(self.until)
        return self.patience if self.stopping or self.dead else SILENCE

    @property
    def patience(self) -> float:
        return AGAIN if self.silent else PATIENCE

    def connect(self) -> Any:
        """Return a connection of this thread on which the JVM has answered."""
        begin, patience = time.monotonic(), self.read_timeout
        try:
            connection = self.make()
        except Exception:
            self.silent = time.monotonic() >= begin + patience
            self.dead = self.dead or (self.silent and patience >= SILENCE)
            raise
        self.silent = self.dead = False
        if self.until is None:
            connection.socket.settimeout(self.given.read_timeout or None)
        if (thread := threading.get_ident()) in self.watched:
            self.watched[thread] = connection
        return connection


def limits_of(client: Any) -> _Limits:
    """Return the limits of py4j's `client`. Add them if the client has none yet."""
    parameters = client.java_parameters
    return parameters if isinstance(parameters, _Limits) else _Limits(client)


@contextmanager
def limited(gateway: Any) -> Iterator[None]:
    """Inside the block, this thread's calls into the JVM behind py4j's `gateway` end if the JVM hangs.

    The block then raises RunError.
    """
    client = gateway._gateway_client
    limits, before, begin = limits_of(client), limits_of(client).until, time.monotonic()
    end = begin + limits.patience
    _set(client, limits, end)
    try:
        yield
        limits.silent = False
    except Exception as error:
        limits.silent = time.monotonic() >= end  # py4j's error does not always name the time limit
        if not limits.silent:
            raise
        raise RunError(_SILENT) from error
    finally:
        _set(client, limits, before)


@contextmanager
def watched(gateway: Any) -> Iterator[None]:
    """Inside the block, this thread's calls may take hours. They end if the JVM does not answer for SILENCE seconds.

    The block then raises RunError. Another thread checks the JVM by opening new connections.
    """
    client = gateway._gateway_client
    if not hasattr(client, "java_parameters"):  # one connection for all threads (PYSPARK_PIN_THREAD=false)
        yield
        return
    limits, thread, over, cut = limits_of(client), threading.get_ident(), threading.Event(), threading.Event()

    def watch() -> None:
        unanswered, heard = 0, time.monotonic()
        while not over.wait(0 if unanswered else LOOK):
            limits.own.until = time.monotonic() + PATIENCE
            try:
                limits.connect().close()
                unanswered, heard = 0, time.monotonic()
            except Exception:  # if the JVM has ended, the calls end by themselves
                unanswered = unanswered + 1 if limits.silent else 0
            # Not at the first failure: this process may have been stopped together with the JVM, and checks too late.
            if unanswered > 1 and time.monotonic() >= heard + SILENCE and not over.is_set():
                limits.dead = True
                if _cut(client, limits.watched.get(thread)):
                    cut.set()

    nested = thread in limits.watched
    try:
        limits.watched[thread] = client.get_thread_connection()
        threading.Thread(target=watch, name="the JVM's watch", daemon=True).start()
        yield
    except Exception as error:
        if (cut.is_set() or limits.silent or limits.dead) and _is_of_the_jvm(error):
            raise RunError(_SILENT) from error
        raise
    finally:
        over.set()
        if not nested:
            limits.watched.pop(thread, None)


def _is_of_the_jvm(error: BaseException) -> bool:
    """Whether pyspark or py4j raised `error`, directly or as the cause of a RunError from `spark_errors`. All other
    errors stay unchanged.
    """
    cause = error.__cause__ if type(error) is RunError else error
    return type(cause).__module__.partition(".")[0] in ("pyspark", "py4j")


def _cut(client: Any, connection: Any) -> bool:
    """End the call that waits for an answer on another thread's `connection`. Return whether a call was waiting."""
    if connection is None or connection in client.deque:
        return False
    connection.initiated_from_client = False  # otherwise py4j would send the call again
    with suppress(OSError, AttributeError):  # the other thread has just closed the connection
        connection.socket.shutdown(socket.SHUT_RDWR)
    return True


def _set(client: Any, limits: _Limits, until: float | None) -> None:
    limits.own.until = until
    connection = client.get_thread_connection()
    if connection is not None and connection.socket is not None:
        connection.socket.settimeout(None if until is None else _seconds(until))


def _seconds(until: float) -> float:
    return max(AGAIN, until - time.monotonic())
