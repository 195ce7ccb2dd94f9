"""Who calls a listening socket: strangers, many of them, and what is left when it is closed."""

from __future__ import annotations

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
def serving(most: int = 4, served: Served | None = None, keep: bool = False) -> Iterator[Any]:
    """(Callers, the hellos that came, the connections that were served)."""
    hellos: list[Any] = []
    connections: list[Connection] = []

    def serve(connection: Connection, wire: Wire, hello: dict[str, Any]) -> bool:
        hellos.append(hello)
        connections.append(connection)
        wire.send({"welcome": len(hellos)})
        return keep

    before = threading.active_count()
    each = Callers(socket.create_server(("127.0.0.1", 0)), SECRET, serve, most, served)
    try:
        yield each, hellos, connections
    finally:
        each.close()
        each.join(5)
        for connection in connections:
            connection.close()
        assert threading.active_count() == before


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
