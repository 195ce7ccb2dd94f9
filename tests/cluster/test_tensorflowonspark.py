"""The stand-ins for parts of TensorFlowOnSpark, without Spark."""

from __future__ import annotations

import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext

from sparksplit.cluster import tensorflowonspark
from sparksplit.cluster.channel import Channel
from sparksplit.cluster.line import Post
from sparksplit.cluster.tensorflowonspark import NodeTask, _reservation_server, import_tensorflowonspark
from tests.descriptors import no_descriptors


@pytest.fixture
def server() -> Iterator[Any]:
    server = _reservation_server(import_tensorflowonspark(), 1, "127.0.0.1", lambda registered: None)
    before = set(threading.enumerate())
    server.address = server.start()
    yield server
    server.close()
    # What it holds open is a descriptor less, or more, for the tests that follow.
    for thread in set(threading.enumerate()) - before:
        thread.join(10)


def ask(address: tuple[str, int], message: bytes) -> bytes:
    with socket.create_connection(address, 5) as connection:
        connection.sendall(struct.pack(">I", len(message)) + message)
        return connection.recv(1000)


def test_reservations_are_taken_on_the_drivers_address_only(server: Any) -> None:
    assert server.address[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.address[1]), 1)
    assert ask(server.address, pickle.dumps({"type": "REG", "data": {"executor_id": 0, "authkey": b"x"}}))
    assert server.await_reservations(None) == [{"executor_id": 0, "authkey": b"x"}]


def test_nothing_that_could_run_code_is_unpickled(server: Any, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, tuple[Path]]:
            return Path.touch, (tmp_path / "evil",)

    assert ask(server.address, pickle.dumps({"type": "REG", "data": Evil()})) == b""
    assert not (tmp_path / "evil").exists()
    assert server.reservations.remaining() == 1


def test_who_sends_a_reservation_byte_by_byte_holds_nobody_up(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorflowonspark, "RESERVATION_SECONDS", 0.1)
    ended = threading.Event()
    with socket.create_connection(server.address, 5) as stranger:

        def dribble() -> None:
            with suppress(OSError):
                stranger.sendall(struct.pack(">I", 1000))
                while not ended.wait(0.02):
                    stranger.sendall(b"x")

        thread = threading.Thread(target=dribble)
        thread.start()
        assert ask(server.address, pickle.dumps({"type": "QUERY"}))
        ended.set()
        thread.join()


def test_a_lack_of_descriptors_does_not_end_the_server(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as late:
        late.settimeout(10)
        with no_descriptors():
            late.connect(server.address)
            end = time.monotonic() + 5
            while "Too many open files" not in caplog.text:
                assert time.monotonic() < end
                time.sleep(0.005)
        message = pickle.dumps({"type": "QUERY"})
        late.sendall(struct.pack(">I", len(message)) + message)
        assert late.recv(1000)


def test_the_port_is_freed_at_once(server: Any) -> None:
    server.close()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        try:
            socket.create_connection(server.address, 1).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            pass  # Taken into the queue of a socket that was closed meanwhile.
        time.sleep(0.01)
    pytest.fail("the reservation server still listens")


def test_the_import_brings_no_tensorflow_and_leaves_logging_alone() -> None:
    code = (
        "import logging, sys; from sparksplit.cluster.tensorflowonspark import import_tensorflowonspark as f;"
        "f(); f();"
        "print('tensorflow' in sys.modules, logging.getLogger().handlers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False []"
    assert done.stderr == ""


def test_an_executor_without_a_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would show the last attempt's error only, which names none."""

    class Task:
        attemptNumber = partitionId = staticmethod(lambda: 0)  # noqa: N815

    def missing() -> None:
        raise ModuleNotFoundError("No module named 'tensorflowonspark'")

    monkeypatch.setattr(TaskContext, "get", Task)
    monkeypatch.setattr(tensorflowonspark, "import_tensorflowonspark", missing)
    channel = Channel("127.0.0.1", 1)
    try:
        with pytest.raises(ModuleNotFoundError):
            NodeTask(b"", Post(channel.address, channel.secret, -1, "task"))([0])
        give_up = time.monotonic() + 10
        while channel.records[0].error is None:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        wanted = "before its start: ModuleNotFoundError: No module named 'tensorflowonspark'"
        assert channel.records[0].error[1:] == ("own", wanted)
    finally:
        channel.close()
