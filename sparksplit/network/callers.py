"""Whoever calls a listening socket, up to the proof that it knows the run's secret; strangers hold up nobody.

One thread accepts. Each caller has a thread of its own, so one that dribbles bytes keeps nobody waiting.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sparksplit.network.tls import Connection, Served
from sparksplit.network.wire import Wire, limit_until

log = logging.getLogger(__name__)

SECONDS = 10.0
"""A caller that has not proven itself this long after its call is turned away."""
PATIENCE = 1.0
"""Seconds that the oldest of these has in any case, where descriptors are lacking."""
_PAUSE = 0.1
"""Seconds until the next try where descriptors, memory or threads are lacking."""


class Callers:
    """Accepts at `server`, a listening socket, which it closes in the end.

    serve(connection, wire, hello): runs on the caller's thread once the caller has proven itself. It returns whether
    the connection stays open. Its OSError, ValueError, TypeError and OverflowError end the connection.
    most: unproven callers at any one time; the next one turns the oldest away. served: under TLS, this end's
    certificate.
    """

    def __init__(
        self,
        server: socket.socket,
        secret: bytes,
        serve: Callable[[Connection, Wire, dict[str, Any]], bool],
        most: int,
        served: Served | None = None,
    ) -> None:
        self._server, self._secret, self._serve, self.most, self._served = server, secret, serve, most, served
        self._lock = threading.Lock()
        self._unproven: dict[socket.socket, tuple[Connection, float]] = {}
        """With when each called, in monotonic seconds."""
        self._threads: list[threading.Thread] = []
        self._closing = False
        server.settimeout(None)
        self._accepting = threading.Thread(target=self._accept, name="callers-accept", daemon=True)
        self._accepting.start()

    @property
    def unproven(self) -> int:
        """How many callers have not proven themselves yet."""
        return len(self._unproven)

    def close(self) -> None:
        """Accept nobody any more, and turn strangers away; idempotent."""
        self._closing = True
        with suppress(OSError):  # it was closed before
            self._server.shutdown(socket.SHUT_RDWR)  # closing alone would leave `accept` waiting
        self._server.close()
        with self._lock:
            for stranger, _ in self._unproven.values():
                _end(stranger)

    def join(self, seconds: float) -> None:
        """Wait for the threads to end, so long at most."""
        deadline = time.monotonic() + seconds
        self._accepting.join(seconds)
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _accept(self) -> None:
        warned = False
        while not self._closing:
            try:
                connection, _ = self._server.accept()
            except ConnectionAbortedError:
                continue  # gone before anyone looked at it
            except OSError as error:
                if self._closing:
                    return
                if not warned:
                    log.warning("nodes cannot connect at the moment, trying again: %s", error.strerror or error)
                warned = True
                self._turn_away(PATIENCE)  # it may hold what is lacking
                time.sleep(_PAUSE)
                continue
            warned = False
            self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        if len(self._unproven) >= self.most:
            self._turn_away()
        with self._lock:
            self._unproven[connection] = connection, time.monotonic()
        work, warned = (connection,), False
        while not self._closing:
            thread = threading.Thread(target=self._served_to_the_end, args=work, name="callers-serve", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no room for another thread, for the moment
                if not warned:
                    log.warning("a node must wait: %s", error)
                warned = True
                time.sleep(_PAUSE)
                continue
            with self._lock:
                self._threads = [old for old in self._threads if old.is_alive()] + [thread]
            return
        self._forget(connection)
        connection.close()

    def _turn_away(self, after: float = 0.0) -> None:
        """End the oldest caller that has not proven itself, if it came more than `after` seconds ago."""
        with self._lock:
            oldest = next(iter(self._unproven), None)
            if oldest is not None and time.monotonic() - self._unproven[oldest][1] >= after:
                _end(self._unproven.pop(oldest)[0])

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._unproven.pop(connection, None)

    def _served_to_the_end(self, connection: socket.socket) -> None:
        opened: Connection = connection
        keep = False
        try:
            try:
                came = time.monotonic()
                deadline = came + SECONDS
                if self._server.family == socket.AF_INET:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._served is not None:
                    limit_until(connection, deadline)
                    opened = encrypted = self._served.wrap(connection)
                    with self._lock:
                        # Whoever ended the connection meanwhile had only the socket that TLS has taken over.
                        if self._closing or connection not in self._unproven:
                            raise ConnectionAbortedError("it was turned away")
                        self._unproven[connection] = opened, came
                    encrypted.greet()
                wire = Wire(opened)
                hello = wire.challenge(self._secret, deadline)
            finally:
                self._forget(connection)
            keep = self._serve(opened, wire, hello)
        except (OSError, ValueError, TypeError, OverflowError) as error:
            log.debug("a connection from another process of the run ended: %s", error)
        finally:
            if not keep:
                _end(opened)
                opened.close()


def _end(connection: Connection) -> None:
    """Have the thread that waits for it wake up and close it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
