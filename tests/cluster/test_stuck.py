"""Executors that keep a task of a job that has ended, by an invented Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.cluster import stuck


def java(values: list[Any]) -> SimpleNamespace:
    """A Scala sequence."""
    return SimpleNamespace(size=lambda: len(values), apply=values.__getitem__)


def spark(tasks: dict[str, str], active: list[int], replaced: list[str]) -> Any:
    """tasks: status by executor. active: how many tasks run, look by look; the last stays."""
    listed = [
        SimpleNamespace(executorId=lambda name=name: name, status=lambda status=status: status)
        for name, status in tasks.items()
    ]
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: [4] if group == "ours" else [],
        getJobInfo=lambda job: SimpleNamespace(stageIds=[7]) if job == 4 else None,
        getStageInfo=lambda stage: SimpleNamespace(numActiveTasks=active.pop(0) if len(active) > 1 else active[0]),
    )
    context = SimpleNamespace(
        statusStore=lambda: SimpleNamespace(taskList=lambda stage, attempt, most: java(listed)),
        killAndReplaceExecutor=replaced.append,
    )
    return SimpleNamespace(statusTracker=lambda: tracker, _jsc=SimpleNamespace(sc=lambda: context))


def test_one_whose_task_does_not_end_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "PATIENCE", 0.05)
    replaced: list[str] = []
    assert stuck.replace_stuck(spark({"0": "KILLED", "1": "RUNNING"}, [2, 1], replaced), "ours") == ["1"]
    assert replaced == ["1"]


def test_tasks_that_end_by_themselves_are_waited_for() -> None:
    replaced: list[str] = []
    assert not stuck.replace_stuck(spark({"0": "KILLED", "1": "RUNNING"}, [2, 1, 1, 0], replaced), "ours")
    assert not stuck.replace_stuck(spark({"0": "RUNNING"}, [1], replaced), "another")
    assert replaced == []


def test_a_spark_that_has_gone_is_asked_for_nothing() -> None:
    def gone() -> None:
        raise ConnectionError

    stuck.replace_stuck(SimpleNamespace(statusTracker=gone), "ours")  # type: ignore[arg-type]
