"""Limits for what is asked of Spark's JVM: it may stand still, and py4j would wait for its answer for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparksplit.base.errors import RunError

PATIENCE = 15.0
"""Seconds for an answer that the JVM gives at once."""
AGAIN = 1.0
"""Seconds for each of the next answers, once it has not given one."""


class _Limits:
    """py4j's parameters of a client, with limits: a connection that is made asks them for its own.

    silent: whether the JVM has not answered in time. stopping: whether each new connection has a limit, until the JVM
    has answered there for the first time.
    """

    def __init__(self, client: Any) -> None:
        self.given, self.make = client.java_parameters, client._create_new_connection
        self.own, self.silent, self.stopping = threading.local(), False, False
        client.java_parameters, client._create_new_connection = self, self.connect

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)

    @property
    def until(self) -> float | None:
        """When this thread has waited for long enough; None: never."""
        return getattr(self.own, "until", None)

    @property
    def read_timeout(self) -> Any:
        if self.until is not None:
            return _seconds(self.until)
        return self.patience if self.stopping else self.given.read_timeout

    @property
    def patience(self) -> float:
        return AGAIN if self.silent else PATIENCE

    def connect(self) -> Any:
        """A connection of this thread, on which the JVM has answered."""
        begin, patience = time.monotonic(), self.patience
        try:
            connection = self.make()
        except Exception:
            self.silent = time.monotonic() >= begin + patience
            raise
        self.silent = False
        if self.until is None:
            connection.socket.settimeout(self.given.read_timeout or None)
        return connection


def limits_of(client: Any) -> _Limits:
    """The limits of py4j's `client`, which has none at first."""
    found = client.java_parameters
    return found if isinstance(found, _Limits) else _Limits(client)


@contextmanager
def limited(gateway: Any) -> Iterator[None]:
    """Within the block, calls of this thread into the JVM behind py4j's `gateway` end where it stands still.

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
        limits.silent = time.monotonic() >= end  # py4j does not always say why
        if not limits.silent:
            raise
        what = "Spark's own process, the JVM, does not answer: it is stopped, or its memory is full"
        raise RunError(f"{what}; end it, or give it more spark.driver.memory") from error
    finally:
        _set(client, limits, before)


def _set(client: Any, limits: _Limits, until: float | None) -> None:
    limits.own.until = until
    connection = client.get_thread_connection()
    if connection is not None and connection.socket is not None:
        connection.socket.settimeout(None if until is None else _seconds(until))


def _seconds(until: float) -> float:
    return max(AGAIN, until - time.monotonic())
