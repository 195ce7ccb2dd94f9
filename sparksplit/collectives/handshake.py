"""How nodes connect. In a ring, each node calls the next and is called by the previous; on one host, all call the
first.

Both ends prove that they know the run's secret before any data is sent. With TLS, the caller also checks the other
end's certificate.
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
"""Largest number of unproven callers. The next caller turns the oldest away."""
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
    """Return (connection to the next node, connection from the previous node), both non-blocking and proven to be this
    run's nodes.

    server: this node's own listening socket, closed afterwards.
    address: the next node's address. That node listens already, so a refusal is final. The address includes the
        certificate's fingerprint if connections are encrypted.
    ends: the ranks of the next and the previous node.
    served: this node's own certificate, if connections are encrypted.
    deadline: for everything, in monotonic seconds.

    Raise PeerLost as soon as the next node cannot be reached, PeerTimeout at the deadline.
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
    """Accept connections until each node of `ranks` has connected and has proven that it knows `secret`. Return the
    connections by rank, non-blocking.

    Callers that do not know the secret are turned away. server: this node's own listening socket; it is closed in any
    case. deadline: in monotonic seconds. Raise PeerTimeout for a node that has not proven itself by then.
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
    """Prove to the other end of `connection` that this is node `rank`, and check that the other end belongs to this
    run.

    deadline: in monotonic seconds. Raise PeerLost or OSError.
    """
    try:
        Wire(connection).introduce(secret, {"rank": rank}, deadline)
    except ValueError:
        raise PeerLost("it does not know the run's secret") from None


class _Arrivals:
    """The calls from the nodes `expected`. peers: their connections, by rank."""

    def __init__(self, server: socket.socket, expected: Collection[int], secret: bytes, served: Served | None) -> None:
        self._expected = expected
        self._changed = threading.Condition()
        self._closed = False
        self.peers: dict[int, Connection] = {}
        self._callers = Callers(server, secret, self._arrive, MOST_STRANGERS, served)

    def missing(self, deadline: float) -> set[int]:
        """Return the ranks that have not called by the deadline (monotonic seconds)."""
        with self._changed:
            self._changed.wait_for(lambda: not self._absent(), max(0.0, deadline - time.monotonic()))
            return self._absent()

    def close(self) -> None:
        """Turn all other callers away."""
        with self._changed:
            self._closed = True
        self._callers.close()
        self._callers.join(_JOIN_SECONDS)

    def drop(self) -> None:
        """End the connections of the nodes that have proven themselves."""
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
            wire.send({})  # the line's seal proves this end
            connection.setblocking(False)
            self.peers[rank] = connection
            self._changed.notify()
            return True


def _called(address: Sequence[Any], following: int, rank: int, secret: bytes, deadline: float) -> Connection | None:
    """Return the connection to node `following`; None if it has not answered by the deadline. Raise PeerLost if it
    cannot be reached.
    """
    opened: Connection | None = None
    try:
        opened = dialled(address, deadline, str(address[2]) if len(address) > 2 else None)
        call(opened, rank, secret, deadline)
        opened.setblocking(False)
        return opened
    except BaseException as error:
        if opened is not None:
            opened.close()
        if isinstance(error, TimeoutError) and error.errno is None:  # with errno: the kernel gave up earlier
            return None
        if isinstance(error, OSError | PeerLost):
            problem = (error.strerror if isinstance(error, OSError) else None) or error
            raise PeerLost(f"cannot reach node {following} at {_text(address)}: {problem}") from None
        raise


def _text(address: Sequence[Any]) -> str:
    return f"{address[0]}:{address[1]}"
