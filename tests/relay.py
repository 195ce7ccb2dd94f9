"""A network device between a process and a server: it passes bytes on, cuts connections, or falls silent."""

from __future__ import annotations

import random
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress


def at_random(most: int, seed: int = 1) -> Callable[[bytes], int]:
    """Cuts whenever so many bytes have passed: some number below `most`, another one each time."""
    chance = random.Random(seed)
    left = chance.randrange(most)

    def cut(piece: bytes) -> int:
        nonlocal left
        left -= len(piece)
        if left > 0:
            return len(piece)
        passed, left = len(piece) + min(left, -1), chance.randrange(most)
        return max(0, passed)

    return cut


class Relay:
    """Passes on what comes to `address` to `target` and back. A context manager.

    cut: asked before each piece is passed on, how many of its bytes are; less than all of them, and both ends of the
    connection are reset. sent, received: all that has gone to the target and come from it.
    """

    def __init__(self, target: tuple[str, int], cut: Callable[[bytes], int] = len) -> None:
        self._target, self._cut = target, cut
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address: tuple[str, int] = self._server.getsockname()
        self.sent, self.received = bytearray(), bytearray()
        self.cuts = self.calls = 0
        self._stalled, self._ended = threading.Event(), False
        self._forgotten: set[socket.socket] = set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join(10)

    def stall(self) -> None:
        """Pass nothing on any more, and say nothing of it."""
        self._stalled.set()

    def forget(self) -> None:
        """Pass nothing on any more of the connections there are, and say nothing of it; later ones are as usual."""
        self._forgotten.update(connection for pair in self._pairs for connection in pair)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector, self._server:
            selector.register(self._server, selectors.EVENT_READ)
            while not self._ended:
                for key, _ in selector.select(0.02):
                    if key.fileobj is self._server:
                        self._take(selector)
                    elif self._stalled.is_set() or key.data[0] in self._forgotten:
                        time.sleep(0.005)
                    elif key.data[0].fileno() >= 0:  # not closed in this round
                        self._pass(selector, key.data)
            for pair in self._pairs:
                for connection in pair:
                    connection.close()

    def _take(self, selector: selectors.BaseSelector) -> None:
        caller, _ = self._server.accept()
        self.calls += 1
        try:
            there = socket.create_connection(self._target, 5)
        except OSError:
            caller.close()
            return
        self._pairs.append((caller, there))
        selector.register(caller, selectors.EVENT_READ, (caller, there, self.sent))
        selector.register(there, selectors.EVENT_READ, (there, caller, self.received))

    def _pass(self, selector: selectors.BaseSelector, way: tuple[socket.socket, socket.socket, bytearray]) -> None:
        source, sink, seen = way
        try:
            piece = source.recv(65536)
            wanted = self._cut(piece) if piece else 0
            seen += piece[:wanted]
            sink.sendall(piece[:wanted])
        except OSError:
            piece, wanted = b"", 0
        if piece and wanted >= len(piece):
            return
        reset = bool(piece)
        self.cuts += reset
        for connection in (source, sink):
            with suppress(KeyError):
                selector.unregister(connection)
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        self._pairs = [pair for pair in self._pairs if source not in pair]
