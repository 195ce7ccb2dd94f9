"""Runs on a real Spark standalone cluster of two hosts, network namespaces, with two executors each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collectives.processes import in_use, memory_of
from tests.faults.test_standalone import HELD, await_checkpoint, end, record_of
from tests.forked import Zygote, nodes_of
from tests.hosts import lacking, two_hosts
from tests.nodes import pid_of
from tests.standalone import StandaloneCluster
from tests.training.runs import MODELS, largest_difference, run, weights

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

SETTINGS = {
    "strategy": "batch", "epochs": 3, "threads": 1, "model": {"build": "mlp", "params": {"hidden": [32]}},
    "checkpoint": {"every": "epoch"},
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(nothing_left_running: None) -> Iterator[StandaloneCluster]:
    """A worker with two cores on each host; the driver is on the first."""
    if missing := lacking():
        pytest.skip(missing)
    with two_hosts() as (near, far), StandaloneCluster([(near, 2), (far, 2)], driver=near) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def one_host(zygote: Zygote, digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run as a ring of four nodes, whose weights those of virtual nodes are too."""
    folder = tmp_path_factory.mktemp("one_host")
    with nodes_of(zygote):
        ring = run(digits, folder / "ring", nodes=4, collective="ring", **SETTINGS)
        virtual = run(digits, folder / "virtual", nodes={"virtual": 4}, **SETTINGS)
    assert ring["weights"] == virtual["weights"]
    return folder / "ring"


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
    """Two pieces for each host that have gone, as have the nodes."""
    assert len(memory) == 4 and not in_use(memory)
    assert [pid_of(rank) for rank in range(4)] == [None] * 4


def test_a_run_on_two_hosts_of_which_a_node_is_killed_has_the_bits_of_one_host(
    cluster: StandaloneCluster, one_host: Path, digits: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    running = start(cluster, output, 4, data=str(digits), transform=f"{MODELS}:slowly")
    await_checkpoint(running, output)
    memory = shared_by(range(4))
    os.kill(pid_of(2), signal.SIGKILL)
    status, errors = end(running)
    assert status == 0, errors
    record = record_of(output)
    assert (record["restarts"], record["attempts"][0]["cause"]["rank"]) == (1, 2)
    assert record["hosts"] == [cluster.address(worker) for worker in (0, 0, 1, 1)]
    reason = "4 nodes are on 2 hosts, up to 2 of them on one"
    assert record["collective"] == {"name": "mixed", "reason": reason}
    assert said(cluster) == [f"collective: mixed: {reason}"] * 2
    expected = record_of(one_host)
    assert [record[name] for name in ("weights", "metrics", "ledger")] == [
        expected[name] for name in ("weights", "metrics", "ledger")
    ]
    nothing_left(memory)


def test_a_run_that_has_lost_a_host_goes_on_in_the_memory_of_the_other(
    cluster: StandaloneCluster, one_host: Path, digits: Path, tmp_path: Path
) -> None:
    """Two nodes on one host and one on the other, which goes."""
    output = tmp_path / "run"
    limits = {"min_nodes": 2, "start_timeout": 30, "stall_timeout": 600}
    running = start(cluster, output, 3, held=True, data=str(digits), transform=HELD, **limits)
    await_checkpoint(running, output)
    memory = shared_by(range(3))
    lost = cluster.used_cores().index(1)
    cluster.kill_worker(lost)
    (output / "go").touch()
    status, errors = end(running)
    assert status == 0, errors
    record = record_of(output)
    assert (record["attempts"][0]["nodes"], record["attempts"][-1]["nodes"], record["nodes"]) == (3, 2, 2)
    assert record["hosts"] == [cluster.address(1 - lost)] * 2
    assert record["collective"] == {"name": "shared", "reason": "all 2 nodes are on one host"}
    told = said(cluster)
    assert told[0] == "collective: mixed: 3 nodes are on 2 hosts, up to 2 of them on one"
    assert told[-1] == "collective: shared: all 2 nodes are on one host"
    assert largest_difference(weights(output), weights(one_host)) < 1e-4
    nothing_left(memory)
