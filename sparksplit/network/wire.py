"""Sealed JSON lines over a connection: the channel between the driver and its nodes, and how nodes meet each other.

The wire is TCP, a Unix socket, or TLS over TCP, with one JSON object per line, sealed as in seal.py. Nothing is
unpickled.
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
_SHORTEST = 0.1  # seconds that a call is tried for, however late it is

LONGEST_HELLO = 4 << 10
"""Bytes of a hello, and of its answer."""
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

    def challenge(self, secret: bytes, deadline: float) -> dict[str, Any]:
        """The hello of a caller that knows `secret`; what is sent from then on proves this end.

        No byte behind the hello is read, so the connection can go on without this wire.
        Raises OSError, ValueError where the caller is a stranger.
        """
        own = secrets.token_bytes(NONCE)
        limit_until(self._socket, deadline)
        self._socket.sendall(own)
        self._sends, self._receives = seals(secret, own, self._exactly(NONCE, deadline))
        return self._greeting(deadline)

    def introduce(self, secret: bytes, hello: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Say `hello` to the end that was called; returns its answer, which proves that it knows `secret`.

        No byte behind the answer is read. Raises like `challenge`.
        """
        theirs, own = self._exactly(NONCE, deadline), secrets.token_bytes(NONCE)
        self._receives, self._sends = seals(secret, theirs, own)
        limit_until(self._socket, deadline)
        self._socket.sendall(own)
        self.send(hello)
        return self._greeting(deadline)

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

    def lines(self) -> Iterator[dict[str, Any]]:
        """All messages up to the end; OSError and ValueError (not sealed, not a JSON object, too long) end the wire."""
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
    """A connection to (host, port), encrypted where the other end's certificate has a `fingerprint`.

    deadline: in monotonic seconds. Raises OSError.
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


def _plain(value: Any) -> Any:
    """NumPy and TensorFlow scalars and arrays as Python's own values."""
    for name in ("tolist", "item", "numpy"):
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")
