"""Nodes in processes of the driver's machine, for a Spark whose master has no executors. They need no Spark."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from sparksplit.base.errors import ConfigError, NodeFailed
from sparksplit.cluster import NodeCluster, addresses
from sparksplit.cluster.channel.line import Line
from sparksplit.cluster.channel.server import Channel
from sparksplit.network.listening import ANY, Network

WORKS = "tests.cluster.works"


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The settings of a session whose driver's host is unknown. Afterwards, no folder and no process is left."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    disk = tmp_path / "disk"
    settings = {"spark.master": "local[*]", "spark.driver.host": "no.such.host", "spark.local.dir": str(disk)}
    conf = SimpleNamespace(getAll=lambda: list(settings.items()), get=settings.get)
    yield SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))
    assert not [file for file in tmp_path.glob("disk/*") if file.name != "tmp"]
    assert not [one for one in psutil.Process().children() if "sparksplit.cluster.node_main" in one.cmdline()]


def beside(spark: Any, work: str, payload: dict[str, Any], **options: Any) -> NodeCluster:
    return NodeCluster(spark, 1, f"{WORKS}:{work}", payload, beside_driver=True, **options)


def told(folder: Path) -> dict[str, Any]:
    """What the node has told of itself, once it works."""
    deadline = time.monotonic() + 60
    while not (folder / "0.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    facts: dict[str, Any] = json.loads((folder / "0.json").read_text())
    return facts


def test_a_node_is_a_child_of_the_driver_with_the_drivers_python(spark: Any, tmp_path: Path) -> None:
    (result,) = beside(spark, "greet", {"a": 1}).run()
    assert result["rank"] == 0 and result["size"] == 1 and result["payload"] == {"a": 1}
    assert result["host"] == addresses.LOOPBACK, "it needs no network"
    assert result["argv"].split("\0")[0] == sys.executable
    assert result["heavy"] == [] and not result["secret_in_environment"]
    assert Path(result["local_dir"]).is_relative_to(tmp_path / "disk")
    assert not psutil.pid_exists(result["pid"])


def test_its_prints_are_shown_without_the_noise_of_its_stderr(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(NodeFailed, match=r"^node 0 on \S+: ValueError: a text of two lines$"):
        beside(spark, "suffer", {"folder": str(tmp_path), "rank": 0, "how": "raise"}).run()
    shown = capfd.readouterr()
    assert "these are my last words" in shown.err.splitlines() and "Traceback" not in shown.err
    assert shown.out == "", "stdout has only the command's result"
    logged = [record.getMessage() for record in caplog.records]
    assert "node 0| Traceback (most recent call last):" in logged and "these are my last words" not in str(logged)


def test_a_killed_node_is_named(spark: Any, tmp_path: Path) -> None:
    killing = threading.Thread(target=lambda: os.kill(told(tmp_path)["pid"], signal.SIGKILL))
    killing.start()
    with pytest.raises(NodeFailed, match=r"^node 0 on \S+: was ended by SIGKILL") as caught:
        beside(spark, "suffer", {"folder": str(tmp_path), "rank": 9}).run()
    killing.join()
    assert caught.value.may_pass


def test_an_interrupted_driver_asks_for_an_orderly_end(spark: Any, tmp_path: Path) -> None:
    def interrupt(rank: int, state: dict[str, Any]) -> None:
        if (tmp_path / "0.json").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        beside(spark, "stop_and_tell", {"folder": str(tmp_path)}, on_state=interrupt).run()
    assert (tmp_path / "0.stopped").exists() and not psutil.pid_exists(told(tmp_path)["pid"])


def test_a_silent_launcher_does_not_have_the_node_end_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an executor, the node ends a launcher that stands still. Here, that process is the driver."""
    monkeypatch.setattr(Channel, "silent_launchers", lambda channel: [0])
    with beside(spark, "suffer", {"folder": str(tmp_path), "rank": 9}) as cluster:
        cluster.start()
        node = psutil.Process(told(tmp_path)["pid"])
    assert not node.is_running()


def test_a_disk_that_cannot_be_written_to_is_named(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("a file")
    says = rf"^node 0 on \S+: before its start: {re.escape(str(tmp_path))}/disk on \S+: cannot be written: File exists$"
    with pytest.raises(NodeFailed, match=says):
        beside(spark, "greet", {}).run()
    (tmp_path / "disk").unlink()


def test_a_run_that_ends_before_its_launcher_calls_starts_no_node(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, may_call = Line.__init__, threading.Event()

    def late(line: Line, *arguments: Any, **keys: Any) -> None:
        may_call.wait(60)
        calls(line, *arguments, **keys)

    def interrupt(*_: Any) -> None:
        threading.Timer(0.2, may_call.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(Line, "__init__", late)
    monkeypatch.setattr(NodeCluster, "_await_all", interrupt)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        beside(spark, "suffer", {"folder": str(tmp_path), "rank": 9}).run()
    assert time.monotonic() - began < 10 and not (tmp_path / "0.json").exists()


@pytest.mark.parametrize(
    ("beside_driver", "network", "found"),
    [
        (True, ANY, ("127.0.0.1", "127.0.0.1")),
        (True, Network(bind="lo"), ("127.0.0.1", "127.0.0.1")),
        (False, Network(bind="lo"), ("127.0.0.1", "127.0.0.1")),
        (False, ANY, ("127.0.0.6", "127.0.0.5")),
    ],
)
def test_the_driver_listens_on_the_loopback_only_beside_its_nodes(
    beside_driver: bool, network: Network, found: tuple[str, str]
) -> None:
    settings = {"spark.driver.host": "127.0.0.5", "spark.driver.bindAddress": "127.0.0.6"}
    assert addresses.driver_addresses(settings, network, beside_driver) == found


def test_an_unknown_host_of_the_driver_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^spark\.driver\.host: unknown host ''"):
        addresses.driver_addresses({}, ANY, beside_driver=False)
