"""What a cluster asks of the machine before its nodes start, and how often it looks at them; without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.cluster import NodeCluster, requirements, tensorflowonspark
from sparksplit.cluster import cluster as module
from sparksplit.network.listening import ANY, Network

DRIVER, BOUND = "127.0.0.1", "127.0.0.3"


class Reached(Exception):
    """It has come to where nodes would be started, or has looked for long enough."""


def context(**more: str) -> Any:
    settings = {"spark.master": "local-cluster[500,1,1024]", "spark.driver.host": DRIVER, **more}
    conf = SimpleNamespace(getAll=lambda: list(settings.items()), get=settings.get)
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))


def listening(port: int) -> set[str]:
    """The addresses at which this process listens there: other processes may have the port at theirs."""
    own = psutil.Process().net_connections("tcp")
    return {each.laddr.ip for each in own if each.status == psutil.CONN_LISTEN and each.laddr.port == port}


@pytest.mark.parametrize(
    ("settings", "network", "listens"),
    [
        ({}, ANY, DRIVER),
        ({"spark.driver.bindAddress": BOUND}, ANY, BOUND),
        ({"spark.driver.bindAddress": "0.0.0.0"}, ANY, "0.0.0.0"),
        ({"spark.driver.bindAddress": BOUND}, Network(bind="127.0.0.0/8"), DRIVER),
    ],
)
def test_the_channel_listens_where_sparks_driver_does_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], network: Network, listens: str
) -> None:
    def reached(*_: object) -> None:
        raise Reached

    monkeypatch.setattr(requirements, "await_executors", lambda *_: 0.0)
    monkeypatch.setattr(tensorflowonspark, "Job", reached)
    with NodeCluster(context(**settings), 2, "no:work", {}, network=network) as cluster:
        with pytest.raises(Reached):
            cluster.start()
        known_as, port = cluster._open_channel().address
        assert known_as == DRIVER
        assert listening(port) == {listens}


def test_the_descriptors_that_so_many_nodes_need_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 nodes are past the 1,024 that a process has by default."""
    asked: list[int] = []
    monkeypatch.setattr(requirements.descriptors, "ask", lambda needed: asked.append(needed) or needed)
    NodeCluster(context(), 500, "no:work", {})
    assert asked == [2512]
    monkeypatch.setattr(requirements.descriptors, "ask", lambda needed: 1024)
    says = (
        r"^nodes: 500 nodes need 2512 file descriptors in the driver, but its hard limit is 1024; raise the limit "
        r"\(ulimit -Hn"
    )
    with pytest.raises(ConfigError, match=says):
        NodeCluster(context(), 500, "no:work", {})


@pytest.mark.parametrize("look", [0.0001, 0.002, 0.01])
def test_looks_at_all_nodes_leave_the_core_to_their_beats(monkeypatch: pytest.MonkeyPatch, look: float) -> None:
    """Of a thousand nodes there is something new at any moment."""
    now, looks = [100.0], [0]

    def passes(seconds: float) -> None:
        now[0] += seconds

    def looked(*_: object) -> None:
        looks[0] += 1
        passes(look)

    changed = SimpleNamespace(wait=lambda seconds: True, clear=lambda: None)
    record = SimpleNamespace(result=None, state={}, ended=None, rank=0, states=0)
    channel = SimpleNamespace(records=[record], lock=threading.Lock(), changed=changed, close=lambda: None)
    channel.alive = list
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=passes))
    monkeypatch.setattr(module, "culprit", looked)
    cluster = NodeCluster(context(), 1, "no:work", {})
    cluster._channel = channel  # type: ignore[assignment]

    def meanwhile() -> None:
        if now[0] > 160:
            raise Reached

    with pytest.raises(Reached):
        cluster.run(meanwhile)
    assert looks[0] * look <= 0.11 * 60
    assert looks[0] >= 60 / (look + 0.1), "several looks a second"
