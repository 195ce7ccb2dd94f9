"""A TCP ring in NumPy: reduce-scatter and all-gather (Patarasuk and Yuan, 2009), summed in the ring's fixed order.

Between CPU nodes it beats gRPC several times, because nothing is copied but into and out of the sockets. Each node
binds its own address only, and both ends of a connection prove that they know the run's secret before any data.
"""

from __future__ import annotations

import hmac
import secrets
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from sparksplit.errors import PeerLost
from training.transport.base import Array, PeerTimeout, Transport

_ALIGN = 64  # bytes; TensorFlow takes over an aligned array without a copy
_PIECE = 1 << 20  # bytes given to the kernel at once
_HELLO_TIMEOUT = 10.0  # seconds for a stranger to prove itself


class Ring(Transport):
    """The ring over connected sockets: `to_next` is only written, `from_previous` only read."""

    def __init__(
        self,
        rank: int,
        size: int,
        to_next: socket.socket,
        from_previous: socket.socket,
        timeout: float,
        waiting: Callable[[bool], None] = lambda _: None,
    ) -> None:
        super().__init__(rank, size)
        self._next, self._previous, self._timeout, self._waiting = to_next, from_previous, timeout, waiting
        for connection in (to_next, from_previous):
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._layouts: dict[tuple[Any, ...], _Layout] = {}
        self._received = np.empty(0, np.uint8)
        self._failure: BaseException | None = None

    @classmethod
    def connect(
        cls,
        rank: int,
        size: int,
        host: str,
        secret: bytes,
        gather: Callable[[str, Any], list[Any]],
        timeout: float = 600.0,
        waiting: Callable[[bool], None] = lambda _: None,
    ) -> Ring:
        """Form the ring.

        host: this node's own address. gather(name, value): every rank's value by rank. timeout: seconds that a peer
        may be silent in an exchange. waiting: told true when a peer keeps this node waiting, false when it goes on.

        Raises PeerTimeout when a neighbour does not appear within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        with socket.create_server((host, 0), backlog=8) as server, ThreadPoolExecutor(1) as answering:
            addresses = gather("ring", [host, server.getsockname()[1]])
            # Every node calls and answers at once: one after the other would wait in a circle.
            answered = answering.submit(_accept, server, (rank - 1) % size, secret, deadline)
            to_next = _call(addresses[(rank + 1) % size], rank, secret, deadline)
            try:
                return cls(rank, size, to_next, answered.result(), timeout, waiting)
            except BaseException:
                to_next.close()
                raise

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        began = time.perf_counter()
        signature = tuple((array.shape, array.dtype.str) for array in arrays)
        layout = self._layouts.get(signature)
        if layout is None:
            layout = self._layouts[signature] = _Layout(arrays)
        results = layout.fill(arrays)
        for source, out in layout.flats():
            self._sum_flat(source, out)
        self.seconds += time.perf_counter() - began
        return results

    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        sums = tf.numpy_function(self._sum_kept, list(tensors), [tensor.dtype for tensor in tensors])
        for result, tensor in zip(sums, tensors, strict=True):
            result.set_shape(tensor.shape)
        return list(sums)

    def failure(self) -> BaseException | None:
        return self._failure

    def close(self) -> None:
        self._next.close()
        self._previous.close()

    def _sum_kept(self, *arrays: Array) -> list[Array]:
        try:
            return self.sum(arrays)
        except BaseException as error:
            self._failure = error
            raise

    def _sum_flat(self, source: Array, out: Array) -> None:
        """Sum `source` (1-D) over the ring into `out`. Slice i is summed in the order i, i+1, ..., wherever it is."""
        size, rank = self.size, self.rank
        share = -(-len(source) // size)
        slices = [slice(min(i * share, len(source)), min((i + 1) * share, len(source))) for i in range(size)]
        if self._received.nbytes < share * source.itemsize:
            self._received = np.empty(share * source.itemsize, np.uint8)
        received = self._received[: share * source.itemsize].view(source.dtype)
        for step in range(size - 1):
            sent, summed = slices[(rank - step) % size], slices[(rank - step - 1) % size]
            part = received[: summed.stop - summed.start]
            self._exchange((source if step == 0 else out)[sent], part)
            np.add(part, source[summed], out=out[summed])
        for step in range(size - 1):
            sent, got = slices[(rank + 1 - step) % size], slices[(rank - step) % size]
            self._exchange(out[sent], out[got])

    def _exchange(self, outgoing: Array, incoming: Array) -> None:
        """Send `outgoing` to the next node while receiving `incoming` from the previous one."""
        send, receive = memoryview(outgoing.data).cast("B"), memoryview(incoming.data).cast("B")
        to_send, to_receive, sent, got = len(send), len(receive), 0, 0
        deadline, idle = time.monotonic() + self._timeout, False
        while sent < to_send or got < to_receive:
            moved = 0
            if sent < to_send:
                moved = self._send(send[sent : sent + _PIECE])
                sent += moved
            if got < to_receive:
                count = self._receive(receive[got : got + _PIECE])
                got += count
                moved += count
            if moved:
                continue
            readable, writable, _ = select.select(
                [self._previous] if got < to_receive else [], [self._next] if sent < to_send else [], [], 1.0
            )
            if readable or writable:
                deadline = time.monotonic() + self._timeout
                if idle:
                    idle = False
                    self._waiting(False)
                continue
            if not idle:
                idle = True
                self._waiting(True)
            if time.monotonic() > deadline:
                peer = self.rank - 1 if got < to_receive else self.rank + 1
                raise PeerTimeout(f"node {peer % self.size} exchanged nothing for {self._timeout:.0f} s")
        self.bytes_sent += to_send

    def _send(self, piece: memoryview) -> int:
        try:
            return self._next.send(piece)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(f"lost the connection to node {(self.rank + 1) % self.size}: {error.strerror}") from None

    def _receive(self, piece: memoryview) -> int:
        try:
            count = self._previous.recv_into(piece)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(f"lost the connection to node {(self.rank - 1) % self.size}: {error.strerror}") from None
        if count == 0:
            raise PeerLost(f"node {(self.rank - 1) % self.size} closed its connection")
        return count


class _Layout:
    """Flat buffers for one signature of arrays: one per dtype, each array at an aligned offset."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        sizes: dict[np.dtype[Any], int] = {}
        self._places: list[tuple[np.dtype[Any], int, tuple[int, ...]]] = []
        for array in arrays:
            offset = sizes.get(array.dtype, 0)
            self._places.append((array.dtype, offset, array.shape))
            step = _ALIGN // array.itemsize
            sizes[array.dtype] = offset + -(-array.size // step) * step
        self._source = {dtype: _aligned(size, dtype) for dtype, size in sizes.items()}
        # Two sets of results in turn: TensorFlow may still read the last ones when the next sum begins.
        self._outs = [{dtype: _aligned(size, dtype) for dtype, size in sizes.items()} for _ in range(2)]
        self._parts = self._views(self._source)
        self._results = [self._views(out) for out in self._outs]
        self._turn = 0

    def fill(self, arrays: Sequence[Array]) -> list[Array]:
        """Copy `arrays` into the source buffers; the views in which their sums will appear."""
        for part, array in zip(self._parts, arrays, strict=True):
            part[...] = array
        self._turn = 1 - self._turn
        return list(self._results[self._turn])

    def flats(self) -> list[tuple[Array, Array]]:
        """(source, result) for each dtype."""
        out = self._outs[self._turn]
        return [(source, out[dtype]) for dtype, source in self._source.items()]

    def _views(self, buffers: dict[np.dtype[Any], Array]) -> list[Array]:
        return [
            buffers[dtype][offset : offset + int(np.prod(shape))].reshape(shape)
            for dtype, offset, shape in self._places
        ]


def _aligned(size: int, dtype: np.dtype[Any]) -> Array:
    raw = np.zeros(size * dtype.itemsize + _ALIGN, np.uint8)
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + size * dtype.itemsize].view(dtype)


# The handshake: each end sends a nonce, and answers the other's with an HMAC over both nonces, its role and its rank.


def _call(address: Sequence[Any], rank: int, secret: bytes, deadline: float) -> socket.socket:
    host, port = address
    try:
        connection = socket.create_connection((host, port), max(0.1, deadline - time.monotonic()))
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        mine = secrets.token_bytes(16)
        theirs = _read(connection, 16)
        connection.sendall(mine + struct.pack("!I", rank) + _proof(secret, b"call", theirs, mine, rank))
        proof = _read(connection, 32)
    except OSError as error:
        raise PeerLost(f"cannot reach the next node at {host}:{port}: {error}") from None
    if not hmac.compare_digest(proof, _proof(secret, b"answer", mine, theirs, rank)):
        connection.close()
        raise PeerLost(f"{host}:{port} does not know the run's secret")
    return connection


def _accept(server: socket.socket, previous: int, secret: bytes, deadline: float) -> socket.socket:
    """The connection from node `previous`; whoever cannot prove to be it is turned away."""
    while True:
        server.settimeout(max(0.1, deadline - time.monotonic()))
        try:
            candidate, _ = server.accept()
        except TimeoutError:
            raise PeerTimeout(f"node {previous} did not join the ring in time") from None
        if _answer(candidate, previous, secret):
            return candidate
        candidate.close()


def _answer(connection: socket.socket, expected: int, secret: bytes) -> bool:
    connection.settimeout(_HELLO_TIMEOUT)
    mine = secrets.token_bytes(16)
    try:
        connection.sendall(mine)
        hello = _read(connection, 52)
        theirs, rank, proof = hello[:16], struct.unpack("!I", hello[16:20])[0], hello[20:]
        if rank != expected or not hmac.compare_digest(proof, _proof(secret, b"call", mine, theirs, rank)):
            return False
        connection.sendall(_proof(secret, b"answer", theirs, mine, rank))
    except OSError:
        return False
    return True


def _proof(secret: bytes, role: bytes, challenge: bytes, own: bytes, rank: int) -> bytes:
    return hmac.digest(secret, role + challenge + own + struct.pack("!I", rank), "sha256")


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionResetError(104, "closed during the handshake")
        data += piece
    return data
