"""What both ends of the driver's channel share: limits in seconds, messages, a process's ties to its parent.

The wire is TCP with one JSON object per line. A client's first line carries the run's secret; every line of a client's
has an `id` and is answered by `{"received": id}`, so each end knows that the other one is alive. Nothing is unpickled.
"""

from __future__ import annotations

import ctypes
import json
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)

BEAT = 2.0
"""How often a node and its launcher each send their state."""
SILENT = 5.0
"""Silence that makes a node the culprit when another node has failed."""
DEAD = 10.0
"""Silence that is a failure in itself."""
ORPHAN = 20.0
"""A node ends itself after hearing nothing from the driver for this long."""

ORPHANED = 113
"""Exit status of a node that ended itself because the driver or its launcher was gone."""

BACKLOG = 4096
"""Calls that wait to be accepted: all nodes of a run call at once, and the system turns away what is too many."""

_PIECE = 64 << 10
_ACCEPT_PAUSE = 0.1

LONGEST_HELLO = 4 << 10
LONGEST_LINE = 64 << 20
"""Bytes; a longer line ends the connection."""


class Wire:
    """JSON lines over a connected socket: `send` from any thread, `lines` from one."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self._read = bytearray()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; raises OSError if the other end is gone."""
        self.send_line(line_of(message))

    def send_line(self, line: bytes) -> None:
        """Send what `line_of` has made; raises OSError if the other end is gone."""
        with self._lock:
            self._socket.sendall(line)

    def line(self, longest: int = LONGEST_LINE, within: float | None = None) -> dict[str, Any] | None:
        """The next message; None at the end. OSError and ValueError (not a JSON object, too long) end the wire.

        within: seconds for the whole line, however its bytes arrive; afterwards it is also the limit for each further
        one.
        """
        deadline = None if within is None else time.monotonic() + within
        searched = 0
        while (end := self._read.find(b"\n", searched)) < 0:
            searched = len(self._read)
            if searched >= longest:
                raise ValueError("a line is too long")
            if deadline is not None:
                limit_until(self._socket, deadline)
            piece = self._socket.recv(min(_PIECE, longest - searched))
            if not piece:
                if self._read:
                    raise ValueError("a line is cut")
                return None
            self._read += piece
        text = bytes(self._read[:end])
        del self._read[: end + 1]
        if within is not None:
            self._socket.settimeout(within)
        return parsed(text)

    def lines(self) -> Iterator[dict[str, Any]]:
        """All messages up to the end."""
        while (message := self.line()) is not None:
            yield message

    def limit(self, seconds: float) -> None:
        """Let every further send or receive fail after this many seconds."""
        self._socket.settimeout(seconds)

    def own_address(self) -> str:
        """This end's address: on a node, the one that the driver's network can reach."""
        return str(self._socket.getsockname()[0])

    def close(self) -> None:
        """End both directions; a thread that is waiting in `lines` returns."""
        # Fails if the other end was faster.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def line_of(message: dict[str, Any]) -> bytes:
    """A message as it is sent."""
    return json.dumps(message, default=_plain).encode() + b"\n"


def limit_until(connection: socket.socket, deadline: float) -> None:
    """Let the next receive fail at `deadline` (monotonic seconds); raises TimeoutError if that has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("it took too long")
    connection.settimeout(left)


def parsed(text: bytes) -> dict[str, Any]:
    """The message in a line; raises ValueError for anything else, and for one nested too deeply for Python."""
    try:
        message = json.loads(text)
    except RecursionError:
        raise ValueError("a line is nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("a line is not a JSON object")
    return message


def accept(
    take: Callable[[], tuple[socket.socket, Any]], ended: Callable[[], bool] = lambda: False
) -> tuple[socket.socket, Any] | None:
    """The next connection and its address from `take`, a listening socket's `accept`; None once `ended`.

    Whatever keeps the kernel from handing one out (no descriptors, no memory) will pass: it is logged once and waited
    out.
    """
    said = False
    while not ended():
        try:
            return take()
        except ConnectionAbortedError:
            continue  # gone before anyone looked at it
        except OSError as error:
            if ended():
                break
            if not said:
                said = True
                log.warning("nodes cannot connect for the moment, trying on: %s", error.strerror or error)
            time.sleep(_ACCEPT_PAUSE)
    return None


def own_address_towards(driver: tuple[str, int]) -> str:
    """The address of this host on the network that leads to the driver; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(driver)
        return str(probe.getsockname()[0])


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends, even if this process is stopped.

    Linux only (prctl PR_SET_PDEATHSIG); a program that starts after its parent's end must compare getppid().
    """
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _plain(value: Any) -> Any:
    """NumPy and TensorFlow scalars and arrays as Python's own values."""
    for name in ("tolist", "item", "numpy"):
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")
