"""What happens when nodes fail: who is named, and that the next run works. Nodes are forked; others: on Spark."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sparksplit.base.errors import ConfigError, NodeFailed, UsageError
from sparksplit.cluster import NodeCluster
from tests.cluster.sufferers import NODES, WORKS, Sufferers, fail, greeted, suffering
from tests.forked import Zygote, nodes_of, session


@pytest.fixture
def nodes(zygote: Zygote) -> Iterator[Any]:
    """What stands for the Spark session that forked nodes need none of."""
    with nodes_of(zygote), session() as spark:
        yield spark


@pytest.fixture
def sufferers(tmp_path: Path, nodes: Any) -> Iterator[Sufferers]:
    greeted(nodes)
    with suffering(tmp_path, nodes) as found:
        yield found


def test_an_exception_is_named_with_rank_host_and_type_though_others_echo_it(
    nodes: Any, sufferers: Sufferers, caplog: pytest.LogCaptureFixture
) -> None:
    sufferers.act(lambda facts: None)
    error = fail(nodes, sufferers, {"how": "raise", "echo": True})
    assert str(error) == f"node 1 on {socket.gethostname()}: ValueError: a text of two lines"
    assert isinstance(error, NodeFailed) and error.rank == 1
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "node 1| these are my last words" in lines


def test_the_first_cause_is_named_though_its_echo_came_first(nodes: Any, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: None)
    error = fail(nodes, sufferers, {"how": "slowly", "echo": True})
    assert str(error).endswith(": ValueError: the first cause")


def test_a_usage_error_keeps_its_text(nodes: Any, sufferers: Sufferers, caplog: pytest.LogCaptureFixture) -> None:
    sufferers.act(lambda facts: None)
    error = fail(nodes, sufferers, {"how": "usage"}, UsageError)
    assert str(error) == "model.build: its output (None, 7) does not fit the 10 classes"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_exit_is_named_with_its_status(nodes: Any, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: None)
    error = fail(nodes, sufferers, {"how": "exit"})
    assert re.fullmatch(r"node 1 on \S+: ended with exit status 7 and without a result", str(error))


@pytest.mark.parametrize(
    ("work", "text"), [("no_result", "must return a dict"), ("no_json", "object cannot be sent as JSON")]
)
def test_a_wrong_result_is_the_nodes_error(nodes: Any, sufferers: Sufferers, work: str, text: str) -> None:
    with pytest.raises(NodeFailed, match=rf"node \d on \S+: TypeError: .*{text}"):
        NodeCluster(nodes, NODES, f"{WORKS}:{work}", {}).run()


def test_a_missing_work_function_is_the_nodes_error(nodes: Any, sufferers: Sufferers) -> None:
    with pytest.raises(NodeFailed, match=r"node \d on \S+: ModuleNotFoundError: No module named 'tests.nothing'"):
        NodeCluster(nodes, NODES, "tests.nothing:work", {}).run()


def test_a_killed_node_is_named_at_once(nodes: Any, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: os.kill(facts["pid"], signal.SIGKILL))
    error = fail(nodes, sufferers, {"echo": True})
    assert re.match(r"node 1 on \S+: was ended by SIGKILL", str(error))


def test_more_nodes_than_executors_is_a_configuration_error(nodes: Any) -> None:
    with pytest.raises(ConfigError, match="nodes: 5 nodes need 5 executors, and the settings allow 4"):
        NodeCluster(nodes, 5, f"{WORKS}:greet", {})


def test_an_interrupted_driver_asks_for_an_orderly_end(nodes: Any, sufferers: Sufferers) -> None:
    def interrupt(rank: int, state: dict[str, Any]) -> None:
        if all((sufferers.folder / f"{rank}.json").exists() for rank in range(NODES)):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NodeCluster(nodes, NODES, f"{WORKS}:stop_and_tell", {"folder": str(sufferers.folder)}, on_state=interrupt).run()
    assert sorted(file.name for file in sufferers.folder.glob("*.stopped")) == [f"{r}.stopped" for r in range(NODES)]
    for file in sufferers.folder.glob("*.json"):
        assert not psutil.pid_exists(json.loads(file.read_text())["pid"])


def test_close_ends_nodes_that_still_work(nodes: Any, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: None)
    cluster = NodeCluster(nodes, NODES, f"{WORKS}:suffer", {"folder": str(sufferers.folder), "rank": 9})
    cluster.start()
    while not sufferers.facts:
        time.sleep(0.01)
    cluster.close()
    cluster.close()


def test_an_error_in_the_callback_ends_the_nodes(nodes: Any, sufferers: Sufferers) -> None:
    def callback(rank: int, state: dict[str, Any]) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        NodeCluster(nodes, NODES, f"{WORKS}:busy", {}, on_state=callback).run()


@pytest.mark.slow
def test_a_stopped_node_is_named_after_ten_silent_seconds(nodes: Any, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: os.kill(facts["pid"], signal.SIGSTOP))
    error = fail(nodes, sufferers, {})
    assert re.match(r"node 1 on \S+: has been silent for \d\d s", str(error))
