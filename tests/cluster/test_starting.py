"""Nodes whose tasks Spark has, and which have not registered yet, by an invented Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.errors import NodeFailed
from sparksplit.cluster import starting
from sparksplit.cluster.node_record import NodeRecord
from sparksplit.cluster.starting import Starting


class Tasks:
    """Three nodes, of which `registered` have; stands for the job and for the channel. held: the executors of running
    tasks, by rank."""

    def __init__(self, *registered: int, **held: str) -> None:
        self.records, self.registered = [NodeRecord(rank) for rank in range(3)], registered
        self.held, self.tasks_failed = {int(rank[1:]): executor for rank, executor in held.items()}, False

    def reservations(self) -> list[Any]:
        return [{} if rank in self.registered else None for rank in range(3)]

    def holders(self) -> dict[int, str]:
        return self.held

    def host_of(self, rank: int) -> str | None:
        return f"h{rank}" if rank in self.held else None


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The executors that do not answer."""
    found: list[str] = []
    pulse = SimpleNamespace(limit=11.0, silent=lambda executors: [each for each in found if each in executors])
    monkeypatch.setattr(starting, "Pulse", lambda sc: pulse)
    monkeypatch.setattr(starting, "replace", lambda sc, executor: True)
    monkeypatch.setattr(starting, "BEAT", 0.0)
    return found


def watching(tasks: Tasks) -> Starting:
    return Starting(None, tasks, tasks)  # type: ignore[arg-type]


def test_a_python_worker_that_does_not_register_may_do_so_in_another_attempt(silent: list[str]) -> None:
    """It is stopped, say, before it has called. Executors that take no task do not become more."""
    error = watching(Tasks(0, 2, r1="7")).late(120)
    expected = "node 1 was not started: the Python worker in executor 7 has not registered within 120 s (start_timeout)"
    assert str(error).startswith(expected)
    assert (error.may_pass, error.rank, error.executor_host) == (True, 1, "h1")
    error = watching(Tasks(0, r1="7")).late(120)
    assert str(error).startswith("1 of 3 nodes have registered within 120 s (start_timeout); the executors may be busy")
    assert (error.may_pass, error.rank) == (False, None)


def test_a_silent_executor_is_named(silent: list[str]) -> None:
    tasks = Tasks(0, r1="7", r2="8")
    watch = watching(tasks)
    watch.look()
    silent += ["8"]
    with pytest.raises(NodeFailed, match="node 2 was not started: executor 8 has been silent for 11 s") as caught:
        watch.look()
    assert caught.value.may_pass and caught.value.executor_host == "h2"


def test_a_lost_executor_is_not_waited_for_until_there_is_another(silent: list[str]) -> None:
    """A second attempt of its task would not hold the node either."""
    tasks = Tasks(0, 2)
    watch = watching(tasks)
    for _ in range(3):  # its task waits for an executor
        watch.look()
    tasks.tasks_failed = True
    watch.look()
    tasks.held = {1: "9"}  # Spark tries it elsewhere, and will say why it fails there
    watch.look()
    tasks.held = {}
    watch.look()
    with pytest.raises(NodeFailed, match=r"^node 1 was not started: its executor was lost$") as caught:
        watch.look()
    assert caught.value.may_pass and caught.value.executor_lost
