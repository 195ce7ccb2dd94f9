"""Sealed JSON lines over a connection: the channel between the driver and its nodes, and the handshake between nodes.

The connection is TCP, a Unix socket, or TLS over TCP. Each line is one JSON object, sealed as described in seal.py.
Nothing is unpickled.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from sparksplit.base.errors import RunError
from sparksplit.base.reading import read_exactly
from sparksplit.network.seal import NONCE, Seal, Text, seals
from sparksplit.network.tls import Connection, wrap_call

_PIECE = 64 << 10
_SHORTEST = 0.1  # seconds: shortest time for a connection attempt, even after the deadline

LONGEST_HELLO = 4 << 10
"""Most bytes of a hello, and of its answer."""
LONGEST_LINE = 64 << 20
"""Most bytes of a line. A longer line ends the connection. `text_of` refuses longer lines, because they would be sent
again over every new connection.
"""
_SPARE = 1 << 10
"""Bytes of a line reserved for its seal, and for the driver's text around the values of all nodes."""


class Wire:
    """Sealed JSON lines over a connected socket. `send` works from any thread, `lines` from one thread.

    heard: when the last bytes came, in monotonic seconds.
    """

    def __init__(self, connection: Connection) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self._read = bytearray()
        self._sends: Seal | None = None
        self._receives: Seal | None = None
        self.heard = time.monotonic()

    def challenge(self, secret: bytes, deadline: float) -> dict[str, Any]:
        """Return the hello of a caller that knows `secret`. Everything sent afterwards proves this end.

        No byte after the hello is read, so the connection can be used without this wire. Raise OSError or ValueError if
        the caller is a stranger.
        """
        own_nonce = secrets.token_bytes(NONCE)
        limit_until(self._socket, deadline)
        self._socket.sendall(own_nonce)
        self._sends, self._receives = seals(secret, own_nonce, self._exactly(NONCE, deadline))
        return self._greeting(deadline)

    def introduce(self, secret: bytes, hello: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Send `hello` to the called end. Return its answer, which proves that it knows `secret`.

        No byte after the answer is read. Raise OSError or ValueError like `challenge`.
        """
        theirs, own_nonce = self._exactly(NONCE, deadline), secrets.token_bytes(NONCE)
        self._receives, self._sends = seals(secret, theirs, own_nonce)
        limit_until(self._socket, deadline)
        self._socket.sendall(own_nonce)
        self.send(hello)
        return self._greeting(deadline)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message. Raise OSError if the other end is gone."""
        self.send_text(text_of(message))

    def send_text(self, text: Text) -> None:
        """Send the result of `text_of`. Raise OSError if the other end is gone; every later call then fails too."""
        with self._lock:
            if self._sends is None:
                raise ConnectionError("nothing can be sent: it has not begun, or has failed")
            try:
                self._socket.sendall(self._sends.mark(text) + text.line)
            except OSError:
                # A part of the line may have been sent. Lines that the other end sent before can still be read.
                self._sends = None
                raise

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield all messages up to the end. OSError and ValueError (not sealed, not a JSON object, too long) end the
        wire.
        """
        searched = 0
        while True:
            if (end := self._read.find(b"\n", searched)) >= 0:
                text, searched = bytes(self._read[: end + 1]), 0
                del self._read[: end + 1]
                yield self._opened(text)
                continue
            searched = len(self._read)
            if searched >= LONGEST_LINE:
                raise ValueError("a line is too long")
            piece = self._received(min(_PIECE, LONGEST_LINE - searched))
            if not piece:
                if self._read:
                    raise ConnectionResetError("a line is cut")
                return
            self._read += piece

    def limit(self, seconds: float) -> None:
        """Make every later send or receive fail after this many seconds."""
        self._socket.settimeout(seconds)

    def own_address(self) -> str:
        """Return this end's address. On a node, it is the address that the driver's network can reach."""
        return str(self._socket.getsockname()[0])

    def end(self) -> None:
        """End both directions. A thread that waits in `lines` returns, and must call `close`."""
        # Fails if the other end has already closed.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Call `end`, and free the descriptor."""
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
            raise ConnectionResetError("it ended the connection during the handshake")
        return data

    def _greeting(self, deadline: float) -> dict[str, Any]:
        line = bytearray()
        while not line.endswith(b"\n"):
            if len(line) >= LONGEST_HELLO:
                raise ValueError("a line is too long")
            line += self._exactly(1, deadline)
        return self._opened(bytes(line))

    def _opened(self, line: bytes) -> dict[str, Any]:
        if self._receives is None:
            raise ValueError("a line came before the other end had begun")
        return parsed(self._receives.opened(line))


def dialled(address: Sequence[Any], deadline: float, fingerprint: str | None = None) -> Connection:
    """Return a connection to (host, port). fingerprint: of the other end's certificate; the connection is then
    encrypted.

    deadline: in monotonic seconds. Raise OSError if the connection fails.
    """
    left = max(_SHORTEST, deadline - time.monotonic())
    plain = socket.create_connection((str(address[0]), int(address[1])), timeout=left)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if fingerprint is None:
        return plain
    try:
        opened = wrap_call(plain, fingerprint)
    except BaseException:
        plain.close()
        raise
    try:
        limit_until(opened, deadline)
        opened.greet()
    except BaseException:
        opened.close()
        raise
    return opened


def text_of(message: dict[str, Any], share: int = 1) -> Text:
    """Return a message as it is sent, without its seal. Raise RunError if it is too long.

    share: how many such messages must fit into the longest line, because the driver forwards the messages of all nodes
    in one line.
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
    """Make the next receive fail at `deadline` (monotonic seconds). Raise TimeoutError if the deadline has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("it took too long")
    connection.settimeout(left)


def parsed(text: bytes) -> dict[str, Any]:
    """Return the message in a line. Raise ValueError if the line is not a JSON object, or is nested too deeply for
    Python.
    """
    try:
        message = json.loads(text)
    except RecursionError:
        raise ValueError("a line is nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("a line is not a JSON object")
    return message


def _plain(value: Any) -> Any:
    """Turn NumPy and TensorFlow scalars and arrays into Python values."""
    for name in ("tolist", "item", "numpy"):
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")
