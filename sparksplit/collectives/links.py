"""A node's TCP connections in a ring. The node only writes to the next node, and only reads from the previous node.

Each node binds only its own address. Both ends of a connection prove that they know the run's secret before any data is
sent.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Any

from sparksplit.base.errors import PeerLost
from sparksplit.collectives.base import Array
from sparksplit.collectives.handshake import neighbours
from sparksplit.network.listening import ANY, Network
from sparksplit.network.tls import Connection, Served

CONNECT_SECONDS = 100.0
"""Shorter than the default start_timeout: only the nodes see that a network separates them, so they must report it."""

_PIECE = 256 << 10  # bytes per system call: less than the caches hold
_MOST_BUFFERS = 64  # buffers per system call; the kernel accepts 1024
_SPIN = 200e-6  # seconds of polling before sleeping: waking up takes longer than most waits


class Links:
    """The connections to the neighbours, over connected sockets.

    following, previous: ranks of the next and the previous node. waiting: called with True when a peer makes this node
    wait, and with False when the exchange goes on.
    """

    def __init__(
        self,
        to_next: Connection,
        from_previous: Connection,
        following: int,
        previous: int,
        waiting: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._next, self._previous, self._waiting = to_next, from_previous, waiting
        self._names = following, previous

    def close(self) -> None:
        self._next.close()
        self._previous.close()

    def exchange(self, outgoing: list[memoryview], incoming: list[memoryview], note: Callable[[int, int], None]) -> int:
        """Send `outgoing` to the next node while receiving `incoming` from the previous node. Return the bytes sent.

        note: called repeatedly with the bytes (sent, received). This node waits for a peer as long as the driver
        allows. It notices only a connection that ends. The driver notices all other problems of a peer. Raise PeerLost
        if a connection ends.
        """
        to_send, to_receive = _Cursor(outgoing), _Cursor(incoming)
        total = to_send.left
        idle = False
        spin_until = 0.0
        while to_send.left or to_receive.left:
            sent = self._send(to_send) if to_send.left else 0
            received = self._receive(to_receive) if to_receive.left else 0
            if sent or received:
                spin_until = 0.0
                note(sent, received)
                continue
            now = time.perf_counter()
            spin_until = spin_until or now + _SPIN
            if now < spin_until:
                os.sched_yield()
                continue
            if self._await_bytes(bool(to_receive.left), bool(to_send.left)):
                if idle:
                    idle = False
                    self._waiting(False)
                continue
            if not idle:
                idle = True
                self._waiting(True)
        return total

    def _await_bytes(self, receive: bool, send: bool) -> bool:
        """Whether, within one second, bytes can be received or sent, or a connection has ended.

        Use poll, because select does not accept descriptors above 1,023. Data buffered by TLS cannot be missed: the
        caller has read until TLS had no more.
        """
        waiting = select.poll()
        if receive:
            waiting.register(self._previous, select.POLLIN)
        if send:
            waiting.register(self._next, select.POLLOUT)
        return bool(waiting.poll(1000))

    def _send(self, cursor: _Cursor) -> int:
        try:
            return cursor.advance(self._next.sendmsg(cursor.ahead()))
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(f"lost the connection to node {self._names[0]}: {error.strerror}") from None

    def _receive(self, cursor: _Cursor) -> int:
        try:
            count = self._previous.recvmsg_into(cursor.ahead())[0]
        except BlockingIOError:
            return 0
        except OSError as error:
            raise PeerLost(f"lost the connection to node {self._names[1]}: {error.strerror}") from None
        if count == 0:
            raise PeerLost(f"node {self._names[1]} closed its connection")
        return cursor.advance(count)


def linked(
    rank: int,
    ends: tuple[int, int] | None,
    host: str,
    key: bytes,
    gather: Callable[[str, Any], list[Any]],
    timeout: float = CONNECT_SECONDS,
    waiting: Callable[[bool], None] = lambda _: None,
    network: Network = ANY,
) -> Links | None:
    """Connect node `rank` to its neighbours in its ring. Every node must call this.

    ends: the ranks of the next and the previous node; None: this node is in no ring.
    host: this node's own address.
    key: both ends must know it.
    gather(name, value): returns every rank's value, by rank.
    timeout: seconds to reach the neighbours, which all listen by then.
    waiting: as for `Links`.
    network: ports to listen on, and whether connections are encrypted.

    Raise PeerLost as soon as a neighbour cannot be reached, and PeerTimeout if one does not connect within `timeout`
    seconds.
    """
    if ends is None:
        gather("ring", None)
        return None
    with network.listen(host) as server:
        # Gather after listening, so that every known address belongs to a node that listens.
        served = Served(host) if network.tls else None
        own_address = [host, server.getsockname()[1], *([served.fingerprint] if served else [])]
        address = gather("ring", own_address)[ends[0]]
        to_next, from_previous = neighbours(server, address, rank, ends, key, time.monotonic() + timeout, served)
    return Links(to_next, from_previous, *ends, waiting)


def bytes_of(array: Array) -> memoryview:
    return memoryview(array.data).cast("B")


class _Cursor:
    """The progress of sending or receiving a list of buffers. left: remaining bytes."""

    def __init__(self, buffers: list[memoryview]) -> None:
        self._buffers, self._place, self._within = buffers, 0, 0
        self.left = sum(map(len, buffers))

    def ahead(self) -> list[memoryview]:
        """Return the next buffers for one system call: about _PIECE bytes."""
        chosen, room, within = [], _PIECE, self._within
        for buffer in self._buffers[self._place : self._place + _MOST_BUFFERS]:
            piece = buffer[within : within + room]
            chosen.append(piece)
            room -= len(piece)
            if room <= 0:
                break
            within = 0
        return chosen

    def advance(self, count: int) -> int:
        """Advance by `count` bytes, and return `count`."""
        self.left -= count
        within = self._within + count
        while self._place < len(self._buffers) and within >= len(self._buffers[self._place]):
            within -= len(self._buffers[self._place])
            self._place += 1
        self._within = within
        return count
