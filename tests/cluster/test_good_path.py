"""Nodes on a real local cluster that do what they are asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from sparksplit.cluster import NodeCluster, placing, requirements
from sparksplit.cluster.channel.server import Channel
from sparksplit.network.listening import Network
from sparksplit.spark.waiting import Patience
from tests.relay import Relay, at_random

WORKS = "tests.cluster.works"


def run(spark: SparkSession, nodes: int, work: str, payload: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    with NodeCluster(spark, nodes, f"{WORKS}:{work}", payload, **options) as cluster:
        return cluster.run()


@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_are_told_where_they_are_and_results_come_by_rank(spark: SparkSession, nodes: int) -> None:
    # With a host to avoid, each node is given its executor.
    avoid = ["nowhere"] if nodes > 1 else []
    results = run(spark, nodes, "greet", {"text": "grüße", "list": [1, 2.5, None]}, avoid=avoid)
    assert [result["rank"] for result in results] == list(range(nodes))
    for result in results:
        assert result["size"] == nodes
        assert result["payload"] == {"text": "grüße", "list": [1, 2.5, None]}
        assert result["host"] == "127.0.0.1"
        assert result["heavy"] == []
        assert result["log_level"] == "2"
        assert Path(result["temporary"]).parent == Path(result["local_dir"]).parent
        assert not Path(result["local_dir"]).parent.exists()
        assert not psutil.pid_exists(result["pid"])
        command = ["-P", "-u", "-m", "sparksplit.cluster.node_main", f"rank={result['rank']}", ""]
        assert result["argv"].split("\0")[1:] == command
        assert not result["secret_in_environment"]
    # A chief, and workers if there are more.
    configs = [result["tf_config"] for result in results]
    cluster = configs[0]["cluster"]
    sizes = {"chief": 1, "worker": nodes - 1} if nodes > 1 else {"chief": 1}
    assert {name: len(places) for name, places in cluster.items()} == sizes
    assert len({place for places in cluster.values() for place in places}) == nodes
    assert all(config["cluster"] == cluster for config in configs)
    tasks = [("chief", 0), *(("worker", number) for number in range(nodes - 1))]
    assert [(config["task"]["type"], config["task"]["index"]) for config in configs] == tasks


def test_gather_gives_every_value_by_rank(spark: SparkSession) -> None:
    """Each node is on the executor that is preferred for it."""
    requirements.await_executors(spark.sparkContext, 4, Patience(90))
    prefer = placing.executors_there(spark.sparkContext)[:0:-1]
    with NodeCluster(spark, 3, f"{WORKS}:gather", {}, prefer=prefer) as cluster:
        cluster.start()
        assert cluster.executors(3) == prefer
        results = cluster.run()
    for result in results:
        assert [value["rank"] for value in result["first"]] == [0, 1, 2]
        assert result["again"] == [[turn, turn + 1, turn + 2] for turn in range(20)]


def test_connections_that_are_cut_from_the_start_on_change_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between real nodes with their launchers and the driver; encrypted, and within some ports."""
    relays: list[Relay] = []
    begin = Channel.__init__

    def behind_a_relay(channel: Channel, *arguments: Any) -> None:
        begin(channel, *arguments)
        relays.append(Relay(channel.address, at_random(20_000)).__enter__())
        assert 42000 <= channel.address[1] <= 42200
        channel.address = relays[-1].address

    monkeypatch.setattr(Channel, "__init__", behind_a_relay)
    try:
        results = run(spark, 3, "gather", {}, network=Network((42000, 42200), "lo", tls=True))
    finally:
        for relay in relays:
            relay.__exit__()
    for result in results:
        assert [value["rank"] for value in result["first"]] == [0, 1, 2]
        assert result["again"] == [[turn, turn + 1, turn + 2] for turn in range(20)]
    assert relays[0].cuts > 0


@pytest.mark.slow
def test_states_arrive_while_nodes_work(spark: SparkSession) -> None:
    states: list[tuple[int, dict[str, Any]]] = []
    results = run(spark, 2, "busy", {"seconds": 4.5}, on_state=lambda rank, state: states.append((rank, state)))
    for rank in (0, 1):
        updates = [state["update"] for who, state in states if who == rank]
        # Two beats, and the state that comes with the result.
        assert len(updates) >= 3
        assert updates == sorted(updates)
        assert updates[-1] == results[rank]["updates"]


def test_nothing_piles_up_in_the_driver(spark: SparkSession) -> None:
    run(spark, 2, "greet", {})
    process = psutil.Process()
    before = (process.num_threads(), process.num_fds(), listening(process))
    for _ in range(3):
        run(spark, 2, "greet", {})
    after = (process.num_threads(), process.num_fds(), listening(process))
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1] + 4
    assert after[2] == before[2]
    assert not Path("executor_id").exists()
    assert "TF_CONFIG" not in os.environ


def listening(process: psutil.Process) -> set[int]:
    return {c.laddr.port for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
