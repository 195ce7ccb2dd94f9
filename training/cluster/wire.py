"""What both ends of the driver's channel share: limits in seconds, messages, a process's ties to its parent.

The wire is TCP with one JSON object a line. A client's first line carries the run's secret; every line of a client has
an `id` and is answered by `{"received": id}`, so each end knows that the other one lives. Nothing is unpickled.
"""

from __future__ import annotations

import ctypes
import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

BEAT = 2.0
"""A node and its launcher each send their state this often."""
SILENT = 5.0
"""Silence that makes a node the culprit where another node has failed."""
DEAD = 10.0
"""Silence that is a failure of its own."""
ORPHAN = 20.0
"""A node ends itself after this much silence of the driver."""

ORPHANED = 113
"""Exit status of a node that ended itself because the driver or its launcher was gone."""

LONGEST_HELLO = 4 << 10
LONGEST_LINE = 64 << 20
"""Bytes; a longer line ends the connection."""


class Wire:
    """JSON lines over a connected socket: `send` from any thread, `lines` from one."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self._file = connection.makefile("rb")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; OSError when the other end is gone."""
        line = json.dumps(message, default=_plain).encode() + b"\n"
        with self._lock:
            self._socket.sendall(line)

    def line(self, longest: int = LONGEST_LINE) -> dict[str, Any] | None:
        """The next message; None at the end. OSError and ValueError (not a JSON object, too long) end the wire."""
        text = self._file.readline(longest)
        if not text:
            return None
        if not text.endswith(b"\n"):
            raise ValueError("a line is cut or too long")
        message = json.loads(text)
        if not isinstance(message, dict):
            raise ValueError("a line is not a JSON object")
        return message

    def lines(self) -> Iterator[dict[str, Any]]:
        """All messages up to the end."""
        while (message := self.line()) is not None:
            yield message

    def limit(self, seconds: float) -> None:
        """Let every further send or receive fail after so many seconds."""
        self._socket.settimeout(seconds)

    def own_address(self) -> str:
        """This end's address: on a node, the one that the driver's network reaches."""
        return str(self._socket.getsockname()[0])

    def close(self) -> None:
        """End both directions; a thread that waits in `lines` comes back."""
        # Fails where the other end was faster.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        # The descriptor is free only when the file over it is closed too.
        self._file.close()
        self._socket.close()


def own_address_towards(driver: tuple[str, int]) -> str:
    """The address of this host on the network that leads to the driver; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(driver)
        return str(probe.getsockname()[0])


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends: also where this one is stopped.

    Linux only (prctl PR_SET_PDEATHSIG); a program that was started before its parent's end must compare getppid().
    """
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _plain(value: Any) -> Any:
    """NumPy and TensorFlow scalars and arrays as Python's own values."""
    for name in ("tolist", "item", "numpy"):
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")
