"""Why an executor was lost, and how many nodes there can be without it; without Spark."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from sparksplit.base import progress
from sparksplit.base.errors import ConfigError, NodeFailed, RunError
from sparksplit.cluster import requirements
from sparksplit.cluster.requirements import await_some, explained
from sparksplit.spark import executors
from sparksplit.spark.executors import LostExecutor
from sparksplit.spark.waiting import Patience
from tests.jvm import gateway

LOST = NodeFailed("node 1 on h: its executor was lost", 1, host="h", executor_lost=True)
YARN = SimpleNamespace(sparkContext=SimpleNamespace(master="yarn", _gateway=gateway()))


@pytest.mark.parametrize(
    ("reason", "expected", "memory"),
    [
        (
            "Container killed by YARN for exceeding physical memory limits. 1.9 GB of 1.5 GB physical memory used",
            "physical memory used); its container needed more memory: more spark.executor.memoryOverhead, or a smaller",
            True,
        ),
        ("Command exited with code 137", "(SIGKILL, which a system also sends to a process that takes too", False),
        ("Container from a bad node. Exit status: 143", "(SIGTERM: it was preempted, stopped, or took too much", False),
        ("Worker shutting down", "(executor 1 on h was lost (Worker shutting down))", False),
    ],
)
def test_why_an_executor_was_lost_is_told(monkeypatch, reason, expected, memory):
    known = [LostExecutor("1", "h", reason, "")]
    monkeypatch.setattr(executors, "lost_executors", lambda sc, since: known)
    monkeypatch.setattr(requirements, "REASON_SECONDS", {"yarn": 0.0, "other": 0.0})
    failed = explained(LOST, YARN, 0.0)
    assert str(failed).startswith(f"node 1 on h: its executor was lost (executor 1 on h was lost ({reason}")
    assert expected in str(failed)
    assert (failed.memory, failed.may_pass, failed.rank, failed.host) == (memory, True, 1, "h")
    other = NodeFailed("node 1 on h was killed", 1)
    assert explained(other, YARN, 0.0) is other
    known.clear()
    assert explained(LOST, YARN, 0.0) is LOST


def test_an_executor_that_was_lost_hours_before_is_not_the_cause(monkeypatch):
    """It had fed rows, say, and nothing else, and was ended for its memory."""
    lost = LostExecutor("4", "h4", "exceeding physical memory limits", "")
    gone = time.time() - 3600
    monkeypatch.setattr(executors, "lost_executors", lambda sc, since: [lost] if gone >= since else [])
    monkeypatch.setattr(requirements, "REASON_SECONDS", {"yarn": 0.0, "other": 0.0})
    assert explained(LOST, YARN, gone - 3600) is LOST
    gone = time.time() - 60
    assert explained(LOST, YARN, gone - 3600).memory


def test_a_spark_that_does_not_answer_explains_nothing(monkeypatch):
    def ended(*_):
        raise RuntimeError("the context was stopped")

    monkeypatch.setattr(executors, "lost_executors", ended)
    assert explained(LOST, YARN, 0.0) is LOST


def waiting(monkeypatch, counts):
    """A SparkContext that has so many executors at one look after another, half a second apart."""
    clock = [0.0]

    def sleep(seconds):
        clock[0] += 0.5

    named = {"monotonic": lambda: clock[0], "time": lambda: 1000 + clock[0]}
    for module in (requirements, executors, progress):
        monkeypatch.setattr(module, "time", SimpleNamespace(**named, sleep=sleep, strftime=str))
    monkeypatch.setattr(executors, "executors_of", lambda sc: counts.pop(0) if len(counts) > 1 else counts[0])
    monkeypatch.setattr(executors, "lost_executors", lambda sc, since: [LostExecutor("2", "h", "", "")][: since < 970])
    settings = {"spark.master": "spark://h:7077", "spark.executor.cores": "1"}
    context = SimpleNamespace(isStopped=lambda: False)
    sc = SimpleNamespace(master="spark://h:7077", _jsc=SimpleNamespace(sc=lambda: context))
    sc.getConf = lambda: SimpleNamespace(getAll=settings.items)
    return sc, clock


@pytest.mark.parametrize(
    ("counts", "spare", "nodes", "seconds"),
    [([3], 0, 3, 0), ([2, 2, 3], 0, 3, 1), ([2], 0, 2, 10), ([5], 0, 3, 0), ([3], 1, 2, 10), ([2], 1, 1, 10)],
)
def test_all_nodes_at_once_or_fewer_after_a_while(monkeypatch, counts, spare, nodes, seconds):
    sc, clock = waiting(monkeypatch, counts)
    assert await_some(sc, 3, 1, Patience(20, 10), spare) == nodes
    assert clock[0] == seconds


def test_never_fewer_than_asked_for(monkeypatch, capsys):
    sc, clock = waiting(monkeypatch, [1])
    lost = (
        r"^min_nodes: executor 2 on h was lost, and no new executor came within 20 s \(queue_timeout\); 2 nodes "
        r"need 2 exec"
    )
    with pytest.raises(RunError, match=lost):
        await_some(sc, 3, 2, Patience(20, 10))
    assert clock[0] == 10 + 20.5
    assert "waiting for the cluster to grant executors: 1 of 2, 10 of 20 s" in capsys.readouterr().err
    sc.getConf = lambda: SimpleNamespace(getAll=lambda: [("spark.master", "local-cluster[2,1,1024]")])
    with pytest.raises(ConfigError, match="3 nodes need 3 executors, and the settings allow 2"):
        await_some(sc, 3, 2, Patience(20, 10))
