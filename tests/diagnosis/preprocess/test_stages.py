"""What Spark's monitoring API writes of stages and tasks."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import MagicMock

import pytest

from sparksplit.base.errors import RunError
from sparksplit.diagnosis.preprocess.stages import OTHER, Metrics, stage_of

STAGE: dict[str, Any] = {
    "submissionTime": "2026-11-23T09:30:00.250GMT",
    "completionTime": "2026-11-23T09:30:04.500GMT",
    "description": "sparksplit: write",
    "shuffleReadBytes": 340,
    "shuffleWriteBytes": 0,
    "jvmGcTime": 200,
    "diskBytesSpilled": 20,
}
TASK: dict[str, Any] = {
    "index": 3,
    "launchTime": "2026-11-23T09:30:00.300GMT",
    "duration": 4100,
    "status": "SUCCESS",
    "taskMetrics": {
        "executorRunTime": 4000,
        "inputMetrics": {"bytesRead": 1000, "recordsRead": 10},
        "shuffleReadMetrics": {"remoteBytesRead": 300, "localBytesRead": 40, "recordsRead": 5},
    },
}


def test_a_stage_with_its_tasks() -> None:
    failed = {"index": 0, "launchTime": TASK["launchTime"], "duration": 10, "status": "FAILED"}
    stage = stage_of(STAGE, [TASK, failed, {**TASK, "status": "RUNNING"}])
    assert (stage.part, stage.completed - stage.submitted) == ("write", pytest.approx(4.25))
    assert (stage.shuffles, stage.gc, stage.spilled) == (True, 0.2, 20)
    task, killed = stage.tasks
    assert (task.index, task.rows, task.bytes, task.run, task.failed) == (3, 15, 1340, 4.0, False)
    assert task.seconds == pytest.approx(4.1) and task.launched - stage.submitted == pytest.approx(0.05)
    assert killed.failed and stage.done == [task]


def test_a_stage_belongs_to_what_its_job_was_for() -> None:
    assert stage_of({**STAGE, "shuffleWriteBytes": 900}, []).part == "shuffle"
    assert stage_of({**STAGE, "description": "the user's own"}, []).part == OTHER


def store(numbers: list[int], tasks: int) -> Metrics:
    """Spark's store with stages of these numbers, of two tasks each, of which it remembers `tasks`."""
    spark = MagicMock()
    known = spark.sparkContext._jsc.sc().statusStore()
    every = [{**STAGE, "stageId": number, "attemptId": 0, "numCompleteTasks": 2} for number in numbers]
    skipped = {"stageId": max(numbers, default=0), "attemptId": 0, "numCompleteTasks": 0}
    known.stageList.side_effect = lambda *_: [*every, skipped] if numbers else []
    known.taskList.side_effect = lambda *_: [TASK] * tasks
    mapper = spark.sparkContext._jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()
    mapper.writeValueAsString.side_effect = json.dumps
    return Metrics(spark)


def test_what_spark_has_forgotten_is_an_error() -> None:
    metrics = store([5, 4, 3], tasks=2)
    assert metrics.next_stage() == 6 and store([], tasks=2).next_stage() == 0
    # Stages of an earlier preparation may be forgotten. Stages that were skipped are not counted.
    assert len(metrics.stages(3)) == 3 and len(metrics.stages(4)) == 2
    for forgetful in (metrics, store([], tasks=2)):
        with pytest.raises(RunError, match=r"forgotten the first stages: set spark.ui.retainedStages higher"):
            forgetful.stages(2)
    with pytest.raises(RunError, match=r"forgotten 1 tasks of stage 4: set spark.ui.retainedTasks higher"):
        store([5, 4], tasks=1).stages(4)
