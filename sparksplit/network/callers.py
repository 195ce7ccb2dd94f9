"""Serve the callers of a listening socket, up to the proof that they know the run's secret. Strangers delay nobody.

One thread accepts. Each caller has its own thread, so a caller that sends its bytes slowly delays no other caller.
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
"""Seconds after its call at which a caller without proof is turned away."""
PATIENCE = 1.0
"""Seconds that the oldest unproven caller always gets, even if descriptors run out."""
_PAUSE = 0.1
"""Seconds until the next try if descriptors, memory or threads run out."""


class Callers:
    """Accept callers at `server`, a listening socket. `close` closes the socket.

    serve(connection, wire, hello): runs on the caller's thread after the proof. Returns whether the connection stays
        open. An OSError, ValueError, TypeError or OverflowError ends the connection.
    most: largest number of unproven callers. The next caller turns the oldest away.
    served: this end's certificate, with TLS.
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
        """The unproven callers and when each called, in monotonic seconds."""
        self._threads: list[threading.Thread] = []
        self._closing = False
        server.settimeout(None)
        self._accepting = threading.Thread(target=self._accept, name="callers-accept", daemon=True)
        self._accepting.start()

    @property
    def unproven(self) -> int:
        """Number of callers that have not proven themselves yet."""
        return len(self._unproven)

    def close(self) -> None:
        """Stop accepting, and turn unproven callers away. May be called again."""
        self._closing = True
        with suppress(OSError):  # already closed
            self._server.shutdown(socket.SHUT_RDWR)  # closing alone would leave `accept` waiting
        self._server.close()
        with self._lock:
            for stranger, _ in self._unproven.values():
                _end(stranger)

    def join(self, seconds: float) -> None:
        """Wait for the threads to end, at most this many seconds."""
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
                continue  # the caller left before it was accepted
            except OSError as error:
                if self._closing:
                    return
                if not warned:
                    log.warning("nodes cannot connect at the moment, trying again: %s", error.strerror or error)
                warned = True
                self._turn_away(PATIENCE)  # the oldest caller may hold the missing descriptor or memory
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
            except RuntimeError as error:  # no more threads at the moment
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
        """End the oldest unproven caller, if it called at least `after` seconds ago."""
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
                        # The connection may have been turned away meanwhile, by the plain socket that TLS has replaced.
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
    """Make the thread that waits for the connection wake up and close it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
