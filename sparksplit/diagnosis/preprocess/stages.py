"""Spark's measurements of its stages and tasks, read from the store behind Spark's pages.

The store exists on any kind of cluster, even where Spark's pages are switched off. It is read as the JSON of Spark's
monitoring API, so a stage costs one call however many tasks it has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sparksplit.base.errors import RunError
from sparksplit.spark.job_names import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OTHER = "other jobs"
"""The part of jobs without a description."""
_WAIT_MILLISECONDS = 30_000
_TASKS = 1_000_000


@dataclass(frozen=True)
class Task:
    """One attempt at a task."""

    index: int
    """The number of the task's partition."""
    launched: float
    """The start, in seconds since 1970."""
    ended: float
    """The end, in seconds since 1970."""
    run: float = 0.0
    """Seconds of work, without the task's start and the transfer of its result."""
    rows: int = 0
    """Rows that the task read: of files, of kept rows or of a shuffle."""
    bytes: int = 0
    """Bytes that the task read: of files, of kept rows or of a shuffle."""
    failed: bool = False
    """Whether the attempt failed."""

    @property
    def seconds(self) -> float:
        """Seconds for which the task had its slot."""
        return max(0.0, self.ended - self.launched)


@dataclass(frozen=True)
class Stage:
    """One attempt at a stage that has run."""

    part: str
    """The part of the preparation: of job_names.PARTS, or OTHER."""
    submitted: float
    """The start, in seconds since 1970."""
    completed: float
    """The end, in seconds since 1970."""
    tasks: Sequence[Task] = field(default_factory=list)
    """The attempts at its tasks."""
    shuffles: bool = False
    """Whether the stage reads a shuffle. Its partitions are not the input's then."""
    gc: float = 0.0
    """Seconds of garbage collection, summed over the tasks."""
    spilled: int = 0
    """Bytes that did not fit into memory, as they were written to disk."""

    @property
    def done(self) -> list[Task]:
        """The tasks that succeeded."""
        return [task for task in self.tasks if not task.failed]

    @property
    def busy(self) -> float:
        """Seconds for which tasks had slots, summed over the tasks."""
        return sum(task.seconds for task in self.tasks)


def stage_of(stage: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> Stage:
    """A stage that has run, from the API's JSON."""
    description = str(stage.get("description") or "")
    part = description.removeprefix(PREFIX) if description.startswith(PREFIX) else OTHER
    return Stage(
        part="shuffle" if part == "write" and stage.get("shuffleWriteBytes") else part,
        submitted=_time(stage["submissionTime"]),
        completed=_time(stage["completionTime"]),
        tasks=[task_of(task) for task in tasks if task.get("duration") is not None and task["status"] != "RUNNING"],
        shuffles=bool(stage.get("shuffleReadBytes")),
        gc=stage.get("jvmGcTime", 0) / 1000,
        spilled=stage.get("diskBytesSpilled", 0),
    )


def task_of(task: dict[str, Any]) -> Task:
    """A task that has ended, from the API's JSON."""
    launched = _time(task["launchTime"])
    values: dict[str, Any] = task.get("taskMetrics") or {}
    read: dict[str, int] = values.get("inputMetrics") or {}
    shuffle: dict[str, int] = values.get("shuffleReadMetrics") or {}
    shuffled = shuffle.get("remoteBytesRead", 0) + shuffle.get("localBytesRead", 0)
    return Task(
        index=task.get("index", 0),
        launched=launched,
        ended=launched + task["duration"] / 1000,
        run=values.get("executorRunTime", 0) / 1000,
        rows=read.get("recordsRead", 0) + shuffle.get("recordsRead", 0),
        bytes=read.get("bytesRead", 0) + shuffled,
        failed=task["status"] != "SUCCESS",
    )


def _time(text: str) -> float:
    """Seconds since 1970. The API writes 2026-11-23T09:30:00.250GMT."""
    return datetime.strptime(text.removesuffix("GMT"), "%Y-%m-%dT%H:%M:%S.%f").replace(tzinfo=UTC).timestamp()


class Metrics:
    """The store of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm, self._context = jvm, spark.sparkContext._jsc.sc()
        self._store: Any = self._context.statusStore()
        self._mapper: Any = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def next_stage(self) -> int:
        """The number that Spark's next stage will have."""
        return max((one["stageId"] for one in self._stages()), default=-1) + 1

    def stages(self, first: int) -> list[Stage]:
        """The stages that have run, from the number `first` on, in the order of their numbers.

        Raise RunError if Spark has forgotten some of them, or some of their tasks.
        """
        remembered = self._stages()
        if all(one["stageId"] != first for one in remembered):  # Spark forgets the oldest stages first.
            raise RunError("Spark has forgotten the first stages: set spark.ui.retainedStages higher")
        # A stage that was skipped has no times.
        ran = [one for one in remembered if one["stageId"] >= first and one.get("completionTime")]
        stages = []
        for stage in sorted(ran, key=lambda one: (one["stageId"], one["attemptId"])):
            tasks = self._json(self._store.taskList(stage["stageId"], stage["attemptId"], _TASKS))
            if len(tasks) < stage["numCompleteTasks"]:
                raise RunError(
                    f"Spark has forgotten {stage['numCompleteTasks'] - len(tasks)} tasks of stage {stage['stageId']}: "
                    "set spark.ui.retainedTasks higher"
                )
            stages.append(stage_of(stage, tasks))
        return stages

    def slots(self) -> int:
        """The number of tasks that Spark can run at the same time."""
        every = self._json(self._store.executorList(True))
        executors = [one for one in every if one["id"] != "driver" or len(every) == 1]
        return max(1, sum(int(one["maxTasks"]) for one in executors))

    def _stages(self) -> list[dict[str, Any]]:
        # Spark's events reach the store a little later. An event that is late leaves its task out.
        with suppress(Exception):
            self._context.listenerBus().waitUntilEmpty(_WAIT_MILLISECONDS)
        every, quantiles = self._jvm.java.util.ArrayList(), getattr(self._store, "stageList$default$4")()
        return self._json(self._store.stageList(every, False, False, quantiles, every))

    def _json(self, value: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self._mapper.writeValueAsString(value))
        return rows
