"""Connections under TLS over loopback."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparksplit.network.tls import Encrypted, Served, wrap_call

Pair = tuple[Encrypted, Encrypted]


def connected(served: Served, fingerprint: str) -> Pair:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        call = socket.create_connection(server.getsockname(), 5)
        taken = served.wrap(server.accept()[0])
        taken.settimeout(5)
        caller = wrap_call(call, fingerprint)
        greeted = pool.submit(taken.greet)
        try:
            caller.greet()
            greeted.result(5)
        except BaseException:
            caller.close()
            taken.close()
            raise
    return caller, taken


@pytest.fixture
def pair() -> Iterator[Pair]:
    served = Served("127.0.0.1")
    made = connected(served, served.fingerprint)
    yield made
    for each in made:
        each.close()


def test_another_certificate_is_refused() -> None:
    with pytest.raises(ConnectionError, match="its certificate is not the one that was announced"):
        connected(Served("127.0.0.1"), Served("127.0.0.1").fingerprint)


def test_both_ends_send_and_receive_at_once_from_several_threads(pair: Pair) -> None:
    """More than sockets hold, in both directions, while both also read."""
    most = 3_000_000

    def drain(end: Encrypted) -> bytes:
        end.settimeout(20)
        received = bytearray()
        while len(received) < most:
            received += end.recv(65536)
        return bytes(received)

    with ThreadPoolExecutor(4) as pool:
        reading = [pool.submit(drain, end) for end in pair]
        sending = [pool.submit(end.sendall, name * most) for end, name in zip(pair, (b"a", b"b"), strict=True)]
        for each in sending:
            each.result(20)
        assert reading[1].result(20) == b"a" * most
        assert reading[0].result(20) == b"b" * most


def test_a_connection_that_another_thread_closes_meanwhile_is_an_oserror(pair: Pair) -> None:
    caller = pair[0]

    def step() -> None:
        caller._closed = True  # as `close` does once this step has left the lock
        caller._tls.close()
        raise ssl.SSLWantWriteError

    with pytest.raises(OSError, match="Bad file descriptor"):
        caller._waiting(step)


def test_nothing_to_read_is_said_at_once_or_after_the_time_given(pair: Pair) -> None:
    caller, taken = pair
    caller.setblocking(False)
    with pytest.raises(BlockingIOError):
        caller.recvmsg_into([memoryview(bytearray(10))])
    taken.settimeout(0.05)
    with pytest.raises(TimeoutError):
        taken.recv(1)


def test_who_waits_is_woken_by_the_connections_end(pair: Pair) -> None:
    caller, taken = pair
    taken.settimeout(20)
    threading.Timer(0.05, caller.shutdown, (socket.SHUT_RDWR,)).start()
    assert taken.recv(1) == b""
    caller.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        caller.recv(1)


def test_an_earlier_tls_is_refused() -> None:
    served = Served("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        call = socket.create_connection(server.getsockname(), 5)
        taken = served.wrap(server.accept()[0])
        taken.settimeout(5)
        greeted = pool.submit(taken.greet)
        with pytest.raises(OSError), context.wrap_socket(call):
            pass
        with pytest.raises(OSError):
            greeted.result(5)
        taken.close()
        call.close()
