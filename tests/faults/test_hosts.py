"""Runs on a real Spark standalone cluster of two hosts, network namespaces, with two executors each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparksplit.training import checkpoints
from tests.collectives.processes import in_use, memory_of
from tests.faults.test_standalone import HELD, SECONDS, await_attempt, await_checkpoint, end, record_of
from tests.forked import Zygote, nodes_of
from tests.hosts import lacking, two_hosts
from tests.nodes import pid_of
from tests.standalone import StandaloneCluster
from tests.training.runs import largest_difference, run, weights

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

SETTINGS = {
    "strategy": "batch", "epochs": 9, "threads": 1, "model": {"build": "mlp", "params": {"hidden": [32]}},
    "checkpoint": {"every": "epoch", "keep": 9},
}  # fmt: skip


EPOCH = 21
"""Updates of an epoch."""


@pytest.fixture(scope="module")
def cluster(nothing_left_running: None) -> Iterator[StandaloneCluster]:
    """A worker with two cores on each host; the driver is on the first."""
    if missing := lacking():
        pytest.skip(missing)
    with two_hosts() as (near, far), StandaloneCluster([(near, 2), (far, 2)], driver=near) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def one_host(zygote: Zygote, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run of four virtual nodes, in one process."""
    output = tmp_path_factory.mktemp("one_host") / "run"
    with nodes_of(zygote):
        run(digits, output, nodes={"virtual": 4}, **SETTINGS)
    return output


def start(
    cluster: StandaloneCluster, output: Path, nodes: int, held: bool = False, **keys: Any
) -> subprocess.Popen[str]:
    """A run on as many executors as it has nodes. held: it stays where its first checkpoint is written."""
    file = output.with_suffix(".json")
    file.write_text(json.dumps({**SETTINGS, "output": str(output), "nodes": nodes, **keys}))
    settings = {"spark.cores.max": str(nodes), **({"spark.executorEnv.TEST_HELD": str(output)} if held else {})}
    return cluster.command("train", "--config", str(file), settings=settings)


def shared_by(ranks: range) -> set[str]:
    """The memory that these nodes share."""
    return set().union(*(memory_of(pid_of(rank)) for rank in ranks))


def said(cluster: StandaloneCluster) -> list[str]:
    """What nodes have said of the last run's collectives, attempt by attempt."""
    logs = [log for worker in range(cluster.workers) for log in cluster.work(worker).glob("app-*/*/stderr")]
    last = max(log.parent.parent.name for log in logs)
    lines = [line for log in logs if log.parent.parent.name == last for line in log.read_text().splitlines()]
    return [line.partition("auto: ")[2] for line in sorted(lines) if re.match(r"\S+ \S+ INFO .*auto: collective", line)]


def nothing_left(memory: set[str]) -> None:
    """Two pieces for each host that have gone."""
    assert len(memory) == 4 and not in_use(memory)


def is_written(folder: Path, update: int) -> bool:
    """Whether the checkpoint of `update` is there, and the line of its epoch, which is written beside it."""
    lines = folder / "metrics.jsonl"
    is_there = (folder / "checkpoints" / f"update-{update:09d}").is_dir() and lines.exists()
    return is_there and f'"updates": {update},' in lines.read_text()


def until(folder: Path, update: int) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """What the run in `folder` had at the checkpoint of `update`: its variables, and its epochs without their times."""
    state = checkpoints.read(str(folder / "checkpoints" / f"update-{update:09d}"), 0).state
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    keys = ("epoch", "updates", "train", "validation", "rows")
    epochs = [{key: line[key] for key in keys} for line in lines if line["updates"] <= update]
    return {name: array.tobytes() for name, array in state.items() if name.startswith("v")}, epochs


def test_a_run_on_two_hosts_has_the_bits_of_one_after_a_node_is_killed_and_goes_on_without_a_host(
    cluster: StandaloneCluster, one_host: Path, digits: Path, tmp_path: Path
) -> None:
    """Two nodes on each host. One is killed in the second epoch; one host goes in the third, and the other's nodes go
    on in its memory."""
    output = tmp_path / "run"
    limits = {"min_nodes": 2, "start_timeout": 90, "stall_timeout": 600}
    running = start(cluster, output, 4, held=True, data=str(digits), transform=HELD, **limits)
    await_checkpoint(running, output)
    memory = shared_by(range(4))
    os.kill(pid_of(2), signal.SIGKILL)
    await_attempt(running, output, "restart", 4)
    # Nodes that have read ahead go beyond the checkpoint that they are held at.
    reached = json.loads((output / "_ATTEMPTS").read_text())["story"][-1]["update"] + EPOCH
    (output / "hold").write_text(str(reached // EPOCH))
    give_up = time.monotonic() + SECONDS
    while not is_written(output, reached):
        assert running.poll() is None, end(running)
        assert time.monotonic() < give_up
        time.sleep(0.1)
    assert until(output, reached) == until(one_host, reached)
    nothing_left(memory)
    memory = shared_by(range(4))
    cluster.kill_worker(1)
    (output / "go").touch()
    status, errors = end(running)
    assert status == 0, errors
    record = record_of(output)
    told = record["attempts"]
    assert [(each["how"], each["nodes"]) for each in told] == [("start", 4), ("restart", 4), ("restart", 2)]
    updates = [each["update"] for each in told]
    assert updates[:2] == [0, reached - EPOCH] and updates[2] in range(reached, 9 * EPOCH, EPOCH)
    assert told[0]["cause"]["rank"] == 2
    assert record["hosts"] == [cluster.address(0)] * 2
    assert record["collective"] == {"name": "shared", "reason": "all 2 nodes are on one host"}
    mixed = "collective: mixed: 4 nodes are on 2 hosts, up to 2 of them on one"
    assert said(cluster) == [mixed, mixed, "collective: shared: all 2 nodes are on one host"]
    assert largest_difference(weights(output), weights(one_host)) < 1e-4
    nothing_left(memory)
    assert [pid_of(rank) for rank in range(4)] == [None] * 4
