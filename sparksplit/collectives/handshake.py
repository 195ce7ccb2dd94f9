"""How nodes find each other: in a ring each calls the next one and is called by the previous one, on one host all call
the first; and both ends prove that they know the run's secret before any data is sent.

Each end sends a nonce, and answers the other's with an HMAC over both nonces, its role and its rank; under TLS, if that
is wanted, where the one who calls knows the other's certificate. One thread serves all connections at once: a peer that
dribbles bytes holds up nobody else, and a failure is reported at once.
"""

from __future__ import annotations

import errno
import hmac
import logging
import os
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sparksplit.base.errors import PeerLost
from sparksplit.collectives.base import PeerTimeout
from sparksplit.network.tls import Connection, Encrypted, Served, wrap_call

log = logging.getLogger(__name__)

STRANGER_SECONDS = 10.0
"""A caller that has not proven itself this long after its call is turned away."""
MOST_STRANGERS = 64
"""Unproven callers at any one time; the next one turns the oldest away."""
_PAUSE = 0.05
"""Seconds until the next `accept` after one that failed for lack of descriptors or memory."""

_Steps = Generator[int, bytes, int | None]
"""One side of a conversation: yields how many bytes it needs next, is sent them, returns the other's rank, or None if
that is not who it must be."""


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

    server: this node's own listening socket. address: the next node's, which is listening already, so a refusal is
    final; with its certificate's fingerprint if connections are encrypted. ends: the ranks of the next and the previous
    node. served: this node's own certificate, if connections are encrypted.
    deadline: for all of it, in monotonic seconds. Raises PeerLost as soon as the next node cannot be reached,
    PeerTimeout at the deadline.
    """
    following, previous = ends
    with selectors.DefaultSelector() as selector:
        callers = _Callers(server, selector, {previous}, secret, served)
        call: _Talk | None = None
        try:
            call = _called(address, following, rank, secret, selector)
            while call.outcome is None or not callers.peers:
                now = time.monotonic()
                if now > deadline:
                    if not callers.peers:
                        raise PeerTimeout(f"node {previous} did not join the ring in time")
                    raise PeerTimeout(f"node {following} at {_text(address)} did not answer in time")
                for key, _ in selector.select(max(0.0, min(deadline, callers.next_deadline()) - now)):
                    key.data()
                callers.sweep()
                if call.outcome is False:
                    raise PeerLost(f"cannot reach node {following} at {_text(address)}: {call.problem}")
            return call.socket, callers.peers[previous]
        except BaseException:
            if call is not None:
                call.socket.close()
            callers.drop()
            raise
        finally:
            callers.close()


def answered(server: socket.socket, ranks: Collection[int], secret: bytes, deadline: float) -> dict[int, Connection]:
    """The connections of the nodes `ranks`, which call this one, non-blocking and proven, by rank.

    server: this node's own listening socket. deadline: in monotonic seconds. Raises PeerTimeout.
    """
    with selectors.DefaultSelector() as selector:
        callers = _Callers(server, selector, ranks, secret, None)
        try:
            while len(callers.peers) < len(ranks):
                now = time.monotonic()
                if now > deadline:
                    missing = min(set(ranks) - set(callers.peers))
                    raise PeerTimeout(f"node {missing} did not call in time")
                for key, _ in selector.select(max(0.0, min(deadline, callers.next_deadline()) - now)):
                    key.data()
                callers.sweep()
            return callers.peers
        except BaseException:
            callers.drop()
            raise
        finally:
            callers.close()


def call(connection: socket.socket, rank: int, secret: bytes) -> None:
    """Prove to the other end of `connection` that this is node `rank`, and have it prove that it is of this run.

    The connection's time limit holds for each wait. Raises PeerLost or OSError.
    """
    steps, data = _call(connection, 0, rank, secret), b""
    needed = next(steps)
    while True:
        while len(data) < needed:
            piece = connection.recv(needed - len(data))
            if not piece:
                raise PeerLost("it ended the connection during the handshake")
            data += piece
        try:
            needed, data = steps.send(data), b""
        except StopIteration as end:
            if end.value is None:
                raise PeerLost("it does not know the run's secret") from None
            return


class _Talk:
    """One side of a conversation over a non-blocking socket. outcome: None until it ends; then whether the other is who
    it must be. rank: the other's. problem: why it failed."""

    def __init__(
        self,
        connection: socket.socket,
        steps: Callable[[Connection], _Steps],
        selector: selectors.BaseSelector,
        encrypt: Callable[[socket.socket], Encrypted] | None = None,
    ) -> None:
        self.socket: Connection = connection
        self._plain, self._encrypt, self._make_steps, self._selector = connection, encrypt, steps, selector
        self.began = time.monotonic()
        self.outcome: bool | None = None
        self.rank = -1
        self.problem = "it does not know the run's secret"
        self._steps: _Steps | None = None
        self._needed, self._data = 0, b""

    def start(self) -> None:
        """Begin; the connection must be ready for it."""
        self._selector.register(self.socket, selectors.EVENT_READ, self.go_on)
        if self._encrypt is not None:
            try:
                self.socket = self._encrypt(self._plain)  # it has the same descriptor
            except OSError as error:
                self.fail(error.strerror or str(error))
                return
        self._begin()

    def go_on(self) -> None:
        """Read what has arrived, all of it: TLS may hold more than the socket shows."""
        if self.outcome is not None:
            return  # ended by something else in this round
        if not self._needed:
            self._begin()
        while self._needed and self._read():
            pass

    def _begin(self) -> None:
        """The first step, once the ends agree on keys, if they do."""

        def step() -> int:
            if isinstance(self.socket, Encrypted):
                self.socket.greet()
            self._steps = self._make_steps(self.socket)
            return next(self._steps)

        self._advance(step)

    def _read(self) -> bool:
        """Take what has arrived; whether there may be more."""

        def receive() -> int:
            piece = self.socket.recv(self._needed - len(self._data))
            if not piece:
                raise ConnectionResetError(errno.ECONNRESET, "it ended the connection during the handshake")
            self._data += piece
            if len(self._data) < self._needed:
                return self._needed
            data, self._data = self._data, b""
            assert self._steps is not None
            return self._steps.send(data)

        return self._advance(receive) and self.outcome is None

    def fail(self, problem: str) -> None:
        self.outcome, self.problem = False, problem
        self._leave()

    def _advance(self, step: Callable[[], int]) -> bool:
        """Whether there was something to do."""
        try:
            self._needed = step()
        except StopIteration as end:
            self.outcome = end.value is not None
            self.rank = -1 if end.value is None else end.value
            self._leave()
        except BlockingIOError:
            return False
        except OSError as error:
            self.fail(error.strerror or str(error))
        return True

    def _leave(self) -> None:
        with suppress(KeyError):
            self._selector.unregister(self.socket)
        if not self.outcome:
            self.socket.close()


class _Callers:
    """Everyone who has called, until the nodes `expected` are among them. peers: their connections, by rank."""

    def __init__(
        self,
        server: socket.socket,
        selector: selectors.BaseSelector,
        expected: Collection[int],
        secret: bytes,
        served: Served | None,
    ) -> None:
        self._server, self._selector, self._expected, self._secret = server, selector, expected, secret
        self._served = served
        self._talks: list[_Talk] = []
        self._paused: float | None = None
        self.peers: dict[int, Connection] = {}
        server.setblocking(False)
        selector.register(server, selectors.EVENT_READ, self._accept)

    def next_deadline(self) -> float:
        """The latest time at which `sweep` has something to do, in monotonic seconds."""
        ends = [talk.began + STRANGER_SECONDS for talk in self._talks]
        return min([*ends, *([] if self._paused is None else [self._paused])], default=float("inf"))

    def sweep(self) -> None:
        """See who has proven itself; drop those that have failed or take too long."""
        now = time.monotonic()
        for talk in self._talks:
            if talk.outcome and talk.rank not in self.peers:
                self.peers[talk.rank] = talk.socket
            elif talk.outcome:
                talk.socket.close()
            elif talk.outcome is None and now > talk.began + STRANGER_SECONDS:
                talk.fail("it took too long")
        self._talks = [talk for talk in self._talks if talk.outcome is None]
        if self._paused is not None and now > self._paused:
            self._paused = None
            self._selector.register(self._server, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Turn everyone else away."""
        for talk in self._talks:
            if talk.outcome is None:
                talk.fail("all have come")

    def drop(self) -> None:
        """End the connections of those who have proven themselves."""
        for peer in self.peers.values():
            peer.close()

    def _accept(self) -> None:
        self.sweep()
        try:
            connection, _ = self._server.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # gone before it was looked at
        except OSError as error:
            log.warning("the nodes' port accepts no connection at the moment: %s", error.strerror or error)
            self._selector.unregister(self._server)
            self._paused = time.monotonic() + _PAUSE
            if self._talks:
                self._talks[0].fail("others wait")  # frees what is lacking
            return
        if len(self._talks) >= MOST_STRANGERS:
            self._talks.pop(0).fail("too many others called")
        connection.setblocking(False)
        talk = _Talk(
            connection,
            lambda opened: _answer(opened, self._expected, self._secret),
            self._selector,
            None if self._served is None else self._served.wrap,
        )
        self._talks.append(talk)
        talk.start()


def _called(
    address: Sequence[Any], following: int, rank: int, secret: bytes, selector: selectors.BaseSelector
) -> _Talk:
    """The call to node `following`, which begins as soon as it is connected."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setblocking(False)
    encrypt = partial(wrap_call, fingerprint=str(address[2])) if len(address) > 2 else None
    talk = _Talk(connection, lambda opened: _call(opened, following, rank, secret), selector, encrypt)

    def connected() -> None:
        selector.unregister(connection)
        number = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            talk.fail(os.strerror(number))
        else:
            talk.start()

    try:
        number = connection.connect_ex((str(address[0]), int(address[1])))
    except OSError as error:  # its name is not known
        connection.close()
        raise PeerLost(f"cannot reach node {following} at {_text(address)}: {error.strerror or error}") from None
    if number in (0, errno.EINPROGRESS):
        selector.register(connection, selectors.EVENT_WRITE, connected)
    else:
        talk.fail(os.strerror(number))
    return talk


def _call(connection: Connection, called: int, rank: int, secret: bytes) -> _Steps:
    mine = secrets.token_bytes(16)
    theirs = yield 16
    _send(connection, mine + struct.pack("!I", rank) + _proof(secret, b"call", theirs, mine, rank))
    proof = yield 32
    return called if hmac.compare_digest(proof, _proof(secret, b"answer", mine, theirs, rank)) else None


def _answer(connection: Connection, expected: Collection[int], secret: bytes) -> _Steps:
    mine = secrets.token_bytes(16)
    _send(connection, mine)
    hello = yield 52
    theirs, rank, proof = hello[:16], struct.unpack("!I", hello[16:20])[0], hello[20:]
    if rank not in expected or not hmac.compare_digest(proof, _proof(secret, b"call", mine, theirs, rank)):
        return None
    _send(connection, _proof(secret, b"answer", theirs, mine, rank))
    return int(rank)


def _send(connection: Connection, data: bytes) -> None:
    # A few bytes, which the buffer of a new connection always has room for.
    if connection.send(data) != len(data):
        raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))


def _proof(secret: bytes, role: bytes, challenge: bytes, own: bytes, rank: int) -> bytes:
    return hmac.digest(secret, role + challenge + own + struct.pack("!I", rank), "sha256")


def _text(address: Sequence[Any]) -> str:
    return f"{address[0]}:{address[1]}"
