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
_PAUSE = 0.1
"""Seconds until the next `accept` after one that failed for lack of descriptors or memory."""


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
        self._unproven: dict[socket.socket, Connection] = {}
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
            for stranger in self._unproven.values():
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
                time.sleep(_PAUSE)
                continue
            warned = False
            self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        with self._lock:
            if len(self._unproven) >= self.most:
                _end(self._unproven.pop(next(iter(self._unproven))))
            self._unproven[connection] = connection
            if self._closing:
                _end(connection)
        thread = threading.Thread(target=self._served_to_the_end, args=(connection,), name="callers-serve", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no room for another thread, for the moment
            log.warning("a node was turned away: %s", error)
            with self._lock:
                self._unproven.pop(connection, None)
            connection.close()
            return
        with self._lock:
            self._threads = [old for old in self._threads if old.is_alive()] + [thread]

    def _served_to_the_end(self, connection: socket.socket) -> None:
        opened: Connection = connection
        keep = False
        try:
            try:
                deadline = time.monotonic() + SECONDS
                if self._server.family == socket.AF_INET:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._served is not None:
                    limit_until(connection, deadline)
                    opened = encrypted = self._served.wrap(connection)
                    with self._lock:
                        if connection not in self._unproven:
                            raise ConnectionAbortedError("others have called meanwhile")
                        self._unproven[connection] = opened
                    encrypted.greet()
                wire = Wire(opened)
                hello = wire.challenge(self._secret, deadline)
            finally:
                with self._lock:
                    self._unproven.pop(connection, None)
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
