"""How nodes find each other: in a ring each calls the next one and is called by the previous one, on one host all call
the first; and both ends prove that they know the run's secret before any data is sent.

Under TLS, if that is wanted, the caller knows the other's certificate.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection, Sequence
from typing import Any

from sparksplit.base.errors import PeerLost
from sparksplit.collectives.base import PeerTimeout
from sparksplit.network.callers import Callers
from sparksplit.network.tls import Connection, Served
from sparksplit.network.wire import Wire, dialled

MOST_STRANGERS = 64
"""Unproven callers at any one time; the next one turns the oldest away."""
_JOIN_SECONDS = 1.0


def neighbours(
    server: socket.socket,
    address: Sequence[Any],
    rank: int,
    ends: tuple[int, int],
    secret: bytes,
    deadline: float,
    served: Served | None = None,
) -> tuple[Connection, Connection]:
    """(connection to the next node, connection from the previous one), both non-blocking and proven to be this run's
    nodes.

    server: this node's own listening socket, closed afterwards. address: the next node's, which is listening already,
    so a refusal is final; with its certificate's fingerprint if connections are encrypted. ends: the ranks of the next
    and the previous node. served: this node's own certificate, if connections are encrypted.
    deadline: for all of it, in monotonic seconds. Raises PeerLost as soon as the next node cannot be reached,
    PeerTimeout at the deadline.
    """
    following, previous = ends
    arrivals = _Arrivals(server, {previous}, secret, served)
    to_next: Connection | None = None
    try:
        to_next = _called(address, following, rank, secret, deadline)
        if arrivals.missing(deadline if to_next else 0):
            raise PeerTimeout(f"node {previous} did not join the ring in time")
        if to_next is None:
            raise PeerTimeout(f"node {following} at {_text(address)} did not answer in time")
        return to_next, arrivals.peers[previous]
    except BaseException:
        if to_next is not None:
            to_next.close()
        arrivals.drop()
        raise
    finally:
        arrivals.close()


def answered(server: socket.socket, ranks: Collection[int], secret: bytes, deadline: float) -> dict[int, Connection]:
    """The connections of the nodes `ranks`, which call this one, non-blocking and proven, by rank.

    server: this node's own listening socket, closed afterwards. deadline: in monotonic seconds. Raises PeerTimeout.
    """
    arrivals = _Arrivals(server, ranks, secret, None)
    try:
        if missing := arrivals.missing(deadline):
            raise PeerTimeout(f"node {min(missing)} did not call in time")
        return arrivals.peers
    except BaseException:
        arrivals.drop()
        raise
    finally:
        arrivals.close()


def call(connection: Connection, rank: int, secret: bytes, deadline: float) -> None:
    """Prove to the other end of `connection` that this is node `rank`, and have it prove that it is of this run.

    deadline: in monotonic seconds. Raises PeerLost or OSError.
    """
    try:
        Wire(connection).introduce(secret, {"rank": rank}, deadline)
    except ValueError:
        raise PeerLost("it does not know the run's secret") from None


class _Arrivals:
    """The nodes `expected`, which call. peers: their connections, by rank."""

    def __init__(self, server: socket.socket, expected: Collection[int], secret: bytes, served: Served | None) -> None:
        self._expected = expected
        self._changed = threading.Condition()
        self._closed = False
        self.peers: dict[int, Connection] = {}
        self._callers = Callers(server, secret, self._arrive, MOST_STRANGERS, served)

    def missing(self, deadline: float) -> set[int]:
        """The ranks that have not called by the deadline (monotonic seconds)."""
        with self._changed:
            self._changed.wait_for(lambda: not self._absent(), max(0.0, deadline - time.monotonic()))
            return self._absent()

    def close(self) -> None:
        """Turn everyone else away."""
        with self._changed:
            self._closed = True
        self._callers.close()
        self._callers.join(_JOIN_SECONDS)

    def drop(self) -> None:
        """End the connections of those who have proven themselves."""
        with self._changed:
            self._closed = True
            for peer in self.peers.values():
                peer.close()

    def _absent(self) -> set[int]:
        return set(self._expected) - set(self.peers)

    def _arrive(self, connection: Connection, wire: Wire, hello: dict[str, Any]) -> bool:
        rank = hello.get("rank")
        with self._changed:
            if self._closed or type(rank) is not int or rank not in self._absent():
                return False
            wire.send({})  # its seal proves this end
            connection.setblocking(False)
            self.peers[rank] = connection
            self._changed.notify()
            return True


def _called(address: Sequence[Any], following: int, rank: int, secret: bytes, deadline: float) -> Connection | None:
    """The connection to node `following`; None where it has not answered by the deadline."""
    opened: Connection | None = None
    try:
        opened = dialled(address, deadline, str(address[2]) if len(address) > 2 else None)
        call(opened, rank, secret, deadline)
        opened.setblocking(False)
        return opened
    except BaseException as error:
        if opened is not None:
            opened.close()
        if isinstance(error, TimeoutError) and error.errno is None:  # else the kernel has given up before
            return None
        if isinstance(error, OSError | PeerLost):
            problem = (error.strerror if isinstance(error, OSError) else None) or error
            raise PeerLost(f"cannot reach node {following} at {_text(address)}: {problem}") from None
        raise


def _text(address: Sequence[Any]) -> str:
    return f"{address[0]}:{address[1]}"
