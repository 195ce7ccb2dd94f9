"""Who calls a listening socket: strangers, many of them, and what is left when it is closed."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from sparksplit.network import callers
from sparksplit.network.callers import Callers
from sparksplit.network.seal import NONCE
from sparksplit.network.tls import Connection, Served
from sparksplit.network.wire import Wire, dialled

SECRET = b"known to both"


@contextmanager
def serving(
    most: int = 4, served: Served | None = None, keep: bool = False, server: socket.socket | None = None
) -> Iterator[Any]:
    """(Callers, the hellos that came, the connections that were served)."""
    hellos: list[Any] = []
    connections: list[Connection] = []

    def serve(connection: Connection, wire: Wire, hello: dict[str, Any]) -> bool:
        hellos.append(hello)
        connections.append(connection)
        wire.send({"welcome": len(hellos)})
        return keep

    before = set(threading.enumerate())
    each = Callers(server or socket.create_server(("127.0.0.1", 0)), SECRET, serve, most, served)
    try:
        yield each, hellos, connections
    finally:
        each.close()
        each.join(5)
        for connection in connections:
            connection.close()
        assert set(threading.enumerate()) <= before  # some of an earlier test may have ended


def introduced(address: Any, fingerprint: str | None = None, secret: bytes = SECRET) -> tuple[Connection, Any]:
    deadline = time.monotonic() + 5
    connection = dialled(address, deadline, fingerprint)
    try:
        return connection, Wire(connection).introduce(secret, {"rank": 3}, deadline)
    except BaseException:
        connection.close()
        raise


@pytest.mark.parametrize("tls", [False, True])
def test_a_connection_goes_on_without_its_wire_and_no_byte_is_lost(tls: bool) -> None:
    """What either end sends right behind the handshake belongs to whoever reads the bare connection."""
    served = Served("127.0.0.1") if tls else None
    with serving(served=served, keep=True) as (each, hellos, connections):
        connection, answer = introduced(each._server.getsockname(), served and served.fingerprint)
        connection.sendall(b"\nand more")
        connections[0].settimeout(5)
        connections[0].sendall(b"\nback")
        received = b""
        while len(received) < 5:
            received += connection.recv(100)
        there = b""
        while len(there) < 9:
            there += connections[0].recv(100)
        connection.close()
    assert (hellos, answer) == ([{"rank": 3}], {"welcome": 1})
    assert (received, there) == (b"\nback", b"\nand more")


def test_a_connection_that_is_not_kept_ends() -> None:
    with serving() as (each, _, _connections):
        connection, _ = introduced(each._server.getsockname())
        assert connection.recv(1) == b""
        connection.close()


def test_who_guesses_the_secret_gets_the_challenge_and_an_end() -> None:
    with serving() as (each, hellos, _):
        with pytest.raises(ConnectionResetError, match="it ended the connection during the handshake"):
            introduced(each._server.getsockname(), secret=b"guessed")
        assert hellos == []


def test_who_is_called_must_know_the_secret_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            accepted = server.accept()[0]
            accepted.sendall(bytes(NONCE) + b"0" * NONCE + b"{}\n")
            accepted.recv(1000)
            accepted.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ValueError, match="a line's seal is wrong"):
            introduced(server.getsockname())
        thread.join()


def test_of_too_many_strangers_the_oldest_is_turned_away() -> None:
    with serving(most=3) as (each, hellos, _):
        strangers = [socket.create_connection(each._server.getsockname(), 5) for _ in range(5)]
        for stranger in strangers[:2]:
            with suppress(ConnectionResetError):
                while stranger.recv(100):
                    pass
        assert [len(stranger.recv(100)) for stranger in strangers[2:]] == [NONCE] * 3
        introduced(each._server.getsockname())[0].close()
        assert len(hellos) == 1
        for stranger in strangers:
            stranger.close()


def test_a_stranger_who_waits_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "SECONDS", 0.1)
    with serving() as (each, _, _connections), socket.create_connection(each._server.getsockname(), 5) as stranger:
        stranger.sendall(bytes(NONCE) + b"{")
        assert len(stranger.recv(100)) == NONCE
        with suppress(ConnectionResetError):
            assert stranger.recv(100) == b""


class Scarce(socket.socket):
    """A listening socket for which there are no descriptors for a while."""

    lacking = 0

    def accept(self) -> Any:
        if self.lacking:
            self.lacking -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().accept()


def test_where_descriptors_are_lacking_the_oldest_stranger_gives_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one who has just come: it may be a node."""
    monkeypatch.setattr(callers, "PATIENCE", 0.3)
    server = Scarce()
    server.bind(("127.0.0.1", 0))
    server.listen()
    with serving(server=server) as (each, _, _connections):
        old = socket.create_connection(server.getsockname(), 5)
        assert len(old.recv(100)) == NONCE
        time.sleep(0.4)
        server.lacking = 3
        young = socket.create_connection(server.getsockname(), 5)  # the accept that waited takes it
        assert len(young.recv(100)) == NONCE
        with suppress(ConnectionResetError):
            assert old.recv(100) == b""
        assert each.unproven == 1
        old.close()
        young.close()


def test_a_caller_waits_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start, failures = threading.Thread.start, [1, 1]

    def scarce(thread: threading.Thread) -> None:
        if thread.name == "callers-serve" and failures:
            failures.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    with serving() as (each, hellos, _):
        introduced(each._server.getsockname())[0].close()
        assert len(hellos) == 1 and not failures


def test_a_greeting_has_no_more_time_than_the_call() -> None:
    """The other end takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            dialled(silent.getsockname(), began + 0.2, "0" * 64)
        assert time.monotonic() - began < 5


def test_strangers_that_come_while_tls_callers_are_closed_leave_no_thread() -> None:
    served = Served("127.0.0.1")
    for _ in range(30):
        with serving(served=served) as (each, _, _connections):
            strangers = [socket.create_connection(each._server.getsockname(), 5) for _ in range(3)]
        for stranger in strangers:
            stranger.close()
