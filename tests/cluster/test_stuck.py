"""Executors that keep a task of a job that has ended, by an invented Spark."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from py4j.protocol import Py4JNetworkError

from sparksplit.base.errors import RunError
from sparksplit.cluster import stuck
from tests.jvm import gateway


def java(values: list[Any]) -> SimpleNamespace:
    """A Scala sequence."""
    return SimpleNamespace(size=lambda: len(values), apply=values.__getitem__)


def spark(running: list[str], active: list[int], replaced: list[str]) -> Any:
    """running: the executors of running tasks. active: how many of them do, look by look; the last stays. replaced:
    gets the executors that Spark is to replace, and those that it is to forget."""
    listed = [
        SimpleNamespace(executorId=lambda name=name: name, partitionId=lambda place=place: place)
        for place, name in enumerate(running)
    ]
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: [4] if group == "ours" else [],
        getJobInfo=lambda job: SimpleNamespace(stageIds=[7]) if job == 4 else None,
        getStageInfo=lambda stage: SimpleNamespace(stageId=stage, currentAttemptId=1),
    )

    def tasks(stage: int, attempt: int, *more: object) -> SimpleNamespace:
        assert (stage, attempt) == (7, 1)
        return java(listed[: active.pop(0) if len(active) > 1 else active[0]])

    context = SimpleNamespace(
        statusStore=lambda: SimpleNamespace(taskList=tasks),
        killAndReplaceExecutor=replaced.append,
        schedulerBackend=lambda: SimpleNamespace(removeExecutor=lambda executor, reason: replaced.append(executor)),
    )
    behind = SimpleNamespace(sc=lambda: context)
    return SimpleNamespace(statusTracker=lambda: tracker, _jsc=behind, _jvm=MagicMock(), _gateway=gateway())


def test_one_whose_task_does_not_end_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "PATIENCE", 0.05)
    replaced: list[str] = []
    assert stuck.replace_stuck(spark(["1", "0"], [2, 1], replaced), "ours") == ["1"]
    assert replaced == ["1", "1"]


def test_tasks_that_end_by_themselves_are_waited_for() -> None:
    replaced: list[str] = []
    assert not stuck.replace_stuck(spark(["1", "0"], [2, 1, 1, 0], replaced), "ours")
    assert not stuck.replace_stuck(spark(["0"], [1], replaced), "another")
    assert replaced == []


def test_a_spark_that_has_gone_is_asked_for_nothing() -> None:
    def gone() -> None:
        raise ConnectionError

    away: Any = SimpleNamespace(statusTracker=gone, _gateway=gateway())
    assert stuck.replace_stuck(away, "ours") == []
    assert stuck.holders(away, "ours") == {}
    assert not stuck.replace(away, "1")


def test_where_the_tasks_of_a_job_are() -> None:
    assert stuck.holders(spark(["3", "1"], [2], []), "ours") == {0: "3", 1: "1"}
    assert stuck.holders(spark(["3"], [0], []), "ours") == {}


@pytest.mark.parametrize(
    ("answer", "stopped"),
    [
        (lambda: True, True),
        (lambda: False, False),
        (Mock(side_effect=ConnectionRefusedError(111, "Connection refused")), True),
        (Mock(side_effect=Py4JNetworkError("Answer from Java side is empty")), True),
        (Mock(side_effect=RunError("the JVM stands still")), False),
    ],
)
def test_whether_spark_as_a_whole_has_stopped(answer: Callable[[], bool], stopped: bool) -> None:
    """Its JVM answers, refuses connections, breaks off, or stands still."""
    behind = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=answer))
    context: Any = SimpleNamespace(_jsc=behind, _gateway=gateway())
    assert stuck.has_stopped(context) == stopped
