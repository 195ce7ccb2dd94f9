"""pyspark's server for accumulators, among strangers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from socketserver import TCPServer

import pytest
from pyspark.accumulators import _start_update_server

from sparksplit.spark import accumulators

TOKEN = "0123456789abcdef"


@pytest.fixture
def server() -> Iterator[TCPServer]:
    with accumulators.guarded():
        # pyspark 4 has a second argument: whether to listen at a Unix socket.
        found = _start_update_server(*([TOKEN] if accumulators.NAME == "AccumulatorServer" else [TOKEN, False]))
    yield found
    found.shutdown()


def caller(server: TCPServer, sent: str) -> socket.socket:
    connection = socket.create_connection(server.server_address[:2], 5)  # type: ignore[arg-type]
    connection.sendall(sent.encode())
    return connection


@pytest.mark.parametrize("sent", ["", "0123"])
def test_a_stranger_does_not_hold_up_spark(server: TCPServer, sent: str) -> None:
    """pyspark's own server would wait for the stranger, and Spark's scheduler for the server."""
    with caller(server, sent), caller(server, TOKEN) as spark:
        for _ in range(2):  # Spark keeps its connection
            spark.sendall(struct.pack("!i", 0))
            assert spark.recv(1) == b"\x01"


@pytest.mark.parametrize("sent", ["", "0123", "GET / HTTP/1.0\r\n\r\n"])
def test_a_stranger_is_sent_away(
    server: TCPServer, sent: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(accumulators, "PROOF_SECONDS", 0.2)
    # It is reset where it sent more than was read.
    with caller(server, sent) as stranger, suppress(ConnectionResetError):
        assert stranger.recv(1) == b""
    assert capfd.readouterr().err == ""
