"""What both ends of the driver's channel share: limits in seconds, messages, a process's ties to its parent.

The wire is TCP, or TLS over it, with one JSON object per line, sealed as in seal.py. Every line of a client's
has an `id` and is answered by `{"received": id}`, so each end knows that the other one is alive. Nothing is unpickled.
"""

from __future__ import annotations

import ctypes
import json
import logging
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from sparksplit.base.errors import RunError
from sparksplit.base.reading import read_exactly
from sparksplit.network.seal import NONCE, Seal, Text, seals
from sparksplit.network.tls import Connection

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
_SHORTEST = 0.001  # as a time-out, 0 would mean not to wait at all
_ACCEPT_PAUSE = 0.1

LONGEST_HELLO = 4 << 10
LONGEST_LINE = 64 << 20
"""Bytes; a longer line ends the connection. `text_of` makes none: it would be sent again over every next connection."""
_SPARE = 1 << 10
"""Bytes of these for a line's seal, and for what the driver puts around the values of all nodes."""


class Wire:
    """Sealed JSON lines over a connected socket: `send` from any thread, `lines` from one.

    heard: when the last bytes came (monotonic seconds).
    """

    def __init__(self, connection: Connection) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self._read = bytearray()
        self._sends: Seal | None = None
        self._receives: Seal | None = None
        self.heard = time.monotonic()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def challenge(self, secret: str, deadline: float) -> dict[str, Any] | None:
        """The hello of a caller that knows `secret`; None where it ends first. Raises like `line`.

        What is sent from then on proves this end.
        """
        own = secrets.token_bytes(NONCE)
        limit_until(self._socket, deadline)
        self._socket.sendall(own)
        self._sends, self._receives = seals(secret, own, self._exactly(NONCE, deadline))
        return self.line(LONGEST_HELLO, max(0.0, deadline - time.monotonic()))

    def introduce(self, secret: str, hello: dict[str, Any], deadline: float) -> dict[str, Any] | None:
        """Say `hello` to the driver; returns its answer, which proves that it knows `secret`. None where it ends first.
        Raises like `line`."""
        theirs, own = self._exactly(NONCE, deadline), secrets.token_bytes(NONCE)
        self._receives, self._sends = seals(secret, theirs, own)
        limit_until(self._socket, deadline)
        self._socket.sendall(own)
        self.send(hello)
        return self.line(LONGEST_HELLO, max(0.0, deadline - time.monotonic()))

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; raises OSError if the other end is gone."""
        self.send_text(text_of(message))

    def send_text(self, text: Text) -> None:
        """Send what `text_of` has made; raises OSError if the other end is gone, and from then on."""
        with self._lock:
            if self._sends is None:
                raise ConnectionError("nothing can be sent: it has not begun, or has failed")
            try:
                self._socket.sendall(self._sends.mark(text) + text.line)
            except OSError:
                # Part of the line may have gone out. What the other end has sent before can still be read.
                self._sends = None
                raise

    def line(self, longest: int = LONGEST_LINE, within: float | None = None) -> dict[str, Any] | None:
        """The next message; None at the end. OSError and ValueError (not sealed, not a JSON object, too long) end the
        wire.

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
            piece = self._received(min(_PIECE, longest - searched))
            if not piece:
                if self._read:
                    raise ConnectionResetError("a line is cut")
                return None
            self._read += piece
        text = bytes(self._read[: end + 1])
        del self._read[: end + 1]
        if within is not None:
            self._socket.settimeout(max(within, _SHORTEST))
        if self._receives is None:
            raise ValueError("a line came before the other end had begun")
        return parsed(self._receives.opened(text))

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

    def end(self) -> None:
        """End both directions; a thread that is waiting in `lines` returns, and must `close`."""
        # Fails if the other end was faster.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """`end`, and free the descriptor."""
        self.end()
        self._socket.close()

    def _received(self, most: int) -> bytes:
        piece = self._socket.recv(most)
        if piece:
            self.heard = time.monotonic()
        return piece

    def _exactly(self, size: int, deadline: float) -> bytes:
        def receive(most: int) -> bytes:
            limit_until(self._socket, deadline)
            return self._received(most)

        data = read_exactly(receive, size)
        if len(data) < size:
            raise ConnectionResetError("the other end ended the connection before its beginning")
        return data


def text_of(message: dict[str, Any], share: int = 1) -> Text:
    """A message as it is sent, but for its seal. Raises RunError where it is too long.

    share: how many such messages fit into the longest line, since the driver sends all of them on in one.
    """
    line, most = json.dumps(message, default=_plain).encode() + b"\n", (LONGEST_LINE - _SPARE) // share
    if len(line) > most:
        names = [f"{key} {value}" if key in ("gather", "told") else key for key, value in message.items()]
        raise RunError(
            f"a message to or from the driver ({', '.join(names)}) has {len(line):,} bytes, and may have {most:,}: "
            "put what is larger into a file"
        )
    return Text.of(line)


def limit_until(connection: Connection, deadline: float) -> None:
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
                log.warning("nodes cannot connect at the moment, trying again: %s", error.strerror or error)
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
