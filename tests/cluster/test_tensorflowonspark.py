"""The stand-ins for parts of TensorFlowOnSpark, without Spark."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext, cloudpickle

from sparksplit.base.errors import ConfigError
from sparksplit.cluster import launcher, tensorflowonspark
from sparksplit.cluster.channel.line import Line, Post
from sparksplit.cluster.channel.server import Channel
from sparksplit.cluster.tensorflowonspark import NodeTask
from sparksplit.network.listening import Network


@pytest.fixture
def channel() -> Iterator[Channel]:
    channel = Channel("127.0.0.1", 2)
    yield channel
    channel.close()


def reservation(rank: int) -> dict[str, Any]:
    """As TensorFlowOnSpark makes it."""
    ours = {"executor_id": rank, "host": f"h{rank}", "job_name": "worker", "task_index": rank, "port": 7}
    return {**ours, "tb_pid": 0, "tb_port": 0, "addr": "", "authkey": b"\xff"}


def test_reservations_travel_over_the_nodes_channel(channel: Channel) -> None:
    seen: list[int] = []
    server = tensorflowonspark._Server(channel, seen.append).Server(2)
    assert server.start() == channel.address, "no port of its own"
    found: dict[int, Any] = {}

    def reserve(rank: int) -> None:
        client = tensorflowonspark._Client(Post(channel.address, channel.secret, rank, "task"))
        assert client.get_reservations() == []
        client.register(reservation(rank))
        found[rank] = client.await_reservations()
        client.close()
        assert f"task {rank}" in channel.alive(), "until there is a launcher"
        client.end()

    threads = [threading.Thread(target=reserve, args=(rank,)) for rank in range(2)]
    threads[0].start()
    while 1 not in seen:
        with suppress(_Enough):
            tensorflowonspark._Server(channel, _enough(seen)).await_reservations(None)
    threads[1].start()
    known = server.await_reservations(None)
    for thread in threads:
        thread.join(10)
    assert [each["executor_id"] for each in known] == [0, 1]
    assert found == {0: known, 1: known}


class _Enough(Exception):
    """One look was enough."""


def _enough(seen: list[int]) -> Callable[[int], None]:
    def look(registered: int) -> None:
        seen.append(registered)
        raise _Enough

    return look


def test_a_task_that_fails_at_once_is_heard_though_its_first_line_may_still_be_read(channel: Channel) -> None:
    post = Post(channel.address, channel.secret, 0, "task")
    first = Line(post)
    while not channel.alive():
        time.sleep(0.005)
    tensorflowonspark._Client(post).say(error="no GPU is free", kind="own")
    error = channel.records[0].error
    assert error is not None and error[2] == "no GPU is free"
    first.close()


def test_a_task_whose_driver_has_gone_does_not_wait_for_reservations(channel: Channel) -> None:
    client = tensorflowonspark._Client(Post(channel.address, channel.secret, 0, "task"))
    client.register(reservation(0))
    threading.Timer(0.1, channel.close).start()
    with pytest.raises(ConnectionError, match="the driver is gone"):
        client.await_reservations()
    client.end()


def test_the_import_brings_no_tensorflow_and_leaves_logging_alone() -> None:
    """At no time is there anything else by the name of TensorFlow: another thread may import it just then. The module
    that needs it gets it when it is used."""
    code = """if True:
        import logging, sys, types
        from sparksplit.cluster.tensorflowonspark import import_tensorflowonspark
        seen = []
        sys.addaudithook(lambda event, _: event == "import" and seen.append("tensorflow" in sys.modules))
        import_tensorflowonspark()
        modules = import_tensorflowonspark()
        print("tensorflow" in sys.modules, any(seen), len(seen) > 10, logging.getLogger().handlers)
        own = sys.modules["tensorflow"] = types.ModuleType("tensorflow")
        own.__version__, own.test = "2.0.0", types.SimpleNamespace(is_built_with_cuda=lambda: "asked")
        from tensorflowonspark import TFNode, compat
        print(TFNode.compat is compat, compat.is_gpu_available(), compat.tf is own)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False True []", "True asked True"]
    assert done.stderr == ""


def test_an_executor_without_a_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would show the last attempt's error only, which names none."""

    def missing() -> None:
        raise ModuleNotFoundError("No module named 'tensorflowonspark'")

    monkeypatch.setattr(TaskContext, "get", _Task)
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


def test_a_disk_that_is_full_before_a_nodes_start_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(TaskContext, "get", _Task)
    monkeypatch.setattr(tensorflowonspark, "import_tensorflowonspark", full)
    channel = Channel("127.0.0.1", 1)
    try:
        with pytest.raises(OSError, match="No space left"):
            NodeTask(b"", Post(channel.address, channel.secret, -1, "task"))([0])
        error = channel.records[0].error
        assert error is not None and error[1] == "passing"
    finally:
        channel.close()


def test_tensorflows_port_is_one_of_the_configured_and_free_once_the_node_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """TensorFlowOnSpark's own function, as Spark's task runs it, with a driver that encrypts."""
    monkeypatch.setattr(TaskContext, "get", _Task)
    modules = tensorflowonspark.import_tensorflowonspark()
    with socket.create_server(("", 0)) as taken:
        low = taken.getsockname()[1]
        network = Network((low, low + 50), "lo", tls=True)
        channel = Channel("127.0.0.1", 1, network)
        post = Post(channel.address, channel.secret, -1, "task", channel.fingerprint, network)

        def map_fun(arguments: dict[str, Any], context: Any) -> None:
            (server,) = context.cluster_spec["chief"]
            launcher.called()
            host, port = server.split(":")
            socket.create_server((host, int(port))).close()
            Path(arguments["found"]).write_text(server)

        meta = {"id": 1, "cluster_template": {"chief": [0]}, "default_fs": "", "working_dir": ""}
        meta |= {"num_executors": 1, "server_addr": channel.address, "release_port": True}
        found = tmp_path / "found"
        function = modules.node.run(map_fun, {"found": str(found)}, meta, False, None, [], False)
        try:
            NodeTask(cloudpickle.dumps(function), post)([0])
            host, port = found.read_text().split(":")
            assert host == "127.0.0.1"
            assert low < int(port) <= low + 50 and int(port) != channel.address[1]
            assert channel.reservations()[0] is not None
            assert "TENSORFLOW_PORT" not in os.environ
            with pytest.raises(ConfigError, match="ports: none of"):
                NodeTask(cloudpickle.dumps(function), replace(post, network=Network((low, low), "lo", True)))([0])
            error = channel.records[0].error
            assert error is not None and error[1] == "usage" and error[2].startswith("ports: none of")
        finally:
            channel.close()


def test_a_start_waits_for_its_turn_and_can_be_ended_meanwhile() -> None:
    def wait() -> None:
        raise KeyboardInterrupt

    job: Any = tensorflowonspark.Job(None, "a", 1, {})  # type: ignore[arg-type]
    with tensorflowonspark._one_start, pytest.raises(KeyboardInterrupt):
        job.start(None, None, wait)


class _Task:
    """What Spark tells a task of itself."""

    attemptNumber = partitionId = staticmethod(lambda: 0)  # noqa: N815
    resources = staticmethod(dict)
