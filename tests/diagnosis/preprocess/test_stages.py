"""What Spark's monitoring API writes of stages and tasks."""

from __future__ import annotations

from typing import Any

import pytest

from sparksplit.diagnosis.preprocess.stages import OTHER, stage_of, task_of

STAGE: dict[str, Any] = {
    "status": "COMPLETE",
    "stageId": 7,
    "attemptId": 0,
    "submissionTime": "2026-11-23T09:30:00.250GMT",
    "completionTime": "2026-11-23T09:30:04.500GMT",
    "description": "sparksplit: write",
}
TASK: dict[str, Any] = {
    "index": 3,
    "launchTime": "2026-11-23T09:30:00.300GMT",
    "duration": 4100,
    "executorId": "1",
    "status": "SUCCESS",
    "taskMetrics": {
        "executorRunTime": 4000,
        "jvmGcTime": 200,
        "memoryBytesSpilled": 50,
        "diskBytesSpilled": 20,
        "inputMetrics": {"bytesRead": 1000, "recordsRead": 10},
        "shuffleReadMetrics": {"remoteBytesRead": 300, "localBytesRead": 40, "recordsRead": 5},
        "shuffleWriteMetrics": {"bytesWritten": 0},
    },
}


def test_a_stage_with_its_tasks() -> None:
    found = stage_of(STAGE, [TASK])
    assert found is not None
    assert (found.id, found.part, found.seconds) == (7, "write", pytest.approx(4.25))
    task = found.tasks[0]
    assert (task.index, task.executor, task.rows, task.bytes, task.shuffle_read) == (3, "1", 15, 1340, 340)
    assert (task.seconds, task.run, task.gc) == (pytest.approx(4.1), 4.0, 0.2)
    assert (task.spilled, task.spilled_disk, task.failed) == (50, 20, False)


def test_the_job_that_writes_has_a_stage_that_shuffles() -> None:
    values = {**TASK["taskMetrics"], "shuffleWriteMetrics": {"bytesWritten": 900}}
    found = stage_of(STAGE, [{**TASK, "taskMetrics": values}])
    assert found is not None
    assert found.part == "shuffle"


def test_a_job_that_nobody_has_described() -> None:
    found = stage_of({**STAGE, "description": "the user's own"}, [TASK])
    assert found is not None
    assert found.part == OTHER


def test_what_has_not_run_or_not_ended() -> None:
    assert stage_of({**STAGE, "submissionTime": None}, []) is None
    assert task_of({**TASK, "status": "RUNNING"}) is None
    killed = task_of({"index": 0, "launchTime": TASK["launchTime"], "duration": 10, "status": "FAILED"})
    assert killed is not None
    assert killed.failed
