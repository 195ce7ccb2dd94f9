"""What Spark's monitoring API writes of stages and tasks."""

from __future__ import annotations

from typing import Any

import pytest

from sparksplit.diagnosis.preprocess.stages import OTHER, stage_of

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
