"""How long an interrupted driver waits for its nodes' last checkpoint; the clock is made up."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.cluster import NodeCluster, cluster
from sparksplit.cluster.cluster import ORDERLY
from sparksplit.cluster.leaving import GRACE
from tests.forked import session


class Channel:
    """A node that ends after so many seconds. saves: whether it writes a checkpoint first."""

    def __init__(self, clock: list[float], ends: float, saves: bool) -> None:
        self._clock, self._ends = clock, ends
        state = {"saves": saves, "update": 12}
        self.lock = threading.Lock()
        self.records = [SimpleNamespace(state=state, states=1, rank=0)]
        self.told: list[dict[str, Any]] = []

    def tell(self, kind: str, **message: Any) -> None:
        self.told.append(message)

    def alive(self) -> list[str]:
        return ["node 0 on h", "launcher 0 on h"] if self._clock[0] < self._ends else ["launcher 0 on h"]


@pytest.mark.parametrize(
    ("grace", "mode", "saves", "ends", "expected"),
    [
        pytest.param(10, "client", True, 4, 4, id="in time"),
        pytest.param(10, "client", True, 60, 10, id="too late"),
        pytest.param(10, "cluster", True, 60, GRACE, id="the cluster kills sooner"),
        pytest.param(600, "client", True, 60, 60, id="a long grace"),
        pytest.param(0, "client", True, 60, 0, id="none"),
        pytest.param(10, "client", False, 60, ORDERLY, id="nothing to write"),
    ],
)
def test_nodes_have_their_grace(
    monkeypatch: pytest.MonkeyPatch, grace: float, mode: str, saves: bool, ends: float, expected: float
) -> None:
    clock, said, states = [0.0], list[str](), list[dict[str, Any]]()

    def sleep(_: float) -> None:
        clock[0] += 0.25

    conf = SimpleNamespace(get=lambda key, *_: {"spark.submit.deployMode": mode}.get(key), getAll=lambda: [])
    spark = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: conf))
    monkeypatch.setattr(cluster.requirements, "check_settings", lambda *_: None)
    one = NodeCluster(spark, 1, "", {}, grace=grace, on_state=lambda _, state: states.append(state))  # type: ignore[arg-type]
    channel = Channel(clock, ends, saves)
    one._channel = channel  # type: ignore[assignment]
    monkeypatch.setattr(cluster, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    monkeypatch.setattr(cluster, "say", said.append)
    one._stop_orderly()
    assert expected <= clock[0] <= expected + 0.25
    assert channel.told == [{"stop": True}]
    assert states == [{"saves": saves, "update": 12}], "what nodes told last is known"
    what = f"stopping: the nodes have {min(grace, GRACE) if mode == 'cluster' else grace:g} s"
    assert [line.partition(" to write ")[0] for line in said] == ([what] if saves and grace else [])


def test_a_second_signal_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    states = list[dict[str, Any]]()
    with session() as spark:
        one = NodeCluster(spark, 1, "", {}, grace=1e9, on_state=lambda _, state: states.append(state))
    one._channel = Channel([0.0], 1e9, True)  # type: ignore[assignment]
    monkeypatch.setattr(cluster, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=interrupted))
    with pytest.raises(KeyboardInterrupt):
        one._stop_orderly()
    assert states == [{"saves": True, "update": 12}]
