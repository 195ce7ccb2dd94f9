"""What Spark has measured of a stage and its tasks, as its monitoring API writes them (and the store behind it)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sparksplit.spark.job_names import PREFIX

OTHER = "other jobs"
"""The part of jobs that nobody has described."""


@dataclass(frozen=True)
class Task:
    """One attempt of a task. Seconds since 1970, or of a span; rows and bytes as Spark counts them.

    index: of its partition. executor: Spark's name for it. run: seconds in which it worked, without its start and the
    way of its result. gc: seconds of these in which its JVM collected garbage. rows, bytes: that it read: of files, of
    kept rows or of a shuffle. shuffle_read: of these bytes those of a shuffle. spilled: bytes that did not fit into
    memory, spilled_disk: what these came to on disk.
    """

    index: int
    executor: str
    launched: float
    ended: float
    run: float = 0.0
    gc: float = 0.0
    rows: int = 0
    bytes: int = 0
    shuffle_read: int = 0
    shuffle_written: int = 0
    spilled: int = 0
    spilled_disk: int = 0
    failed: bool = False

    @property
    def seconds(self) -> float:
        """For which it had its slot."""
        return max(0.0, self.ended - self.launched)


@dataclass(frozen=True)
class Stage:
    """One attempt of a stage that has run. part: what its job was for, of described.PARTS."""

    id: int
    part: str
    submitted: float
    completed: float
    tasks: Sequence[Task] = field(default_factory=list)

    @property
    def done(self) -> list[Task]:
        """The tasks that succeeded."""
        return [task for task in self.tasks if not task.failed]

    @property
    def seconds(self) -> float:
        """From its start to its end."""
        return max(0.0, self.completed - self.submitted)

    @property
    def busy(self) -> float:
        """Seconds of slots that its tasks have taken."""
        return sum(task.seconds for task in self.tasks)

    @property
    def shuffles(self) -> bool:
        """Whether it reads what other tasks have sent, so that its partitions are not those of the input."""
        return any(task.shuffle_read for task in self.tasks)


def stage_of(stage: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> Stage | None:
    """A stage with its tasks; None for one that has not run. stage, tasks: as the API writes them"""
    if not stage.get("submissionTime") or not stage.get("completionTime"):
        return None
    part = str(stage.get("description") or "")
    part = part.removeprefix(PREFIX) if part.startswith(PREFIX) else OTHER
    found = [one for one in map(task_of, tasks) if one is not None]
    if part == "write" and any(task.shuffle_written for task in found):
        part = "shuffle"
    return Stage(stage["stageId"], part, _time(stage["submissionTime"]), _time(stage["completionTime"]), found)


def task_of(task: dict[str, Any]) -> Task | None:
    """A task; None for one that has not ended."""
    if task.get("duration") is None or task.get("status") == "RUNNING":
        return None
    launched = _time(task["launchTime"])
    values: dict[str, Any] = task.get("taskMetrics") or {}
    read: dict[str, int] = values.get("shuffleReadMetrics") or {}
    own: dict[str, int] = values.get("inputMetrics") or {}
    shuffled = read.get("remoteBytesRead", 0) + read.get("localBytesRead", 0)
    return Task(
        index=task.get("index", 0),
        executor=str(task.get("executorId", "")),
        launched=launched,
        ended=launched + task["duration"] / 1000,
        run=values.get("executorRunTime", 0) / 1000,
        gc=values.get("jvmGcTime", 0) / 1000,
        rows=own.get("recordsRead", 0) + read.get("recordsRead", 0),
        bytes=own.get("bytesRead", 0) + shuffled,
        shuffle_read=shuffled,
        shuffle_written=(values.get("shuffleWriteMetrics") or {}).get("bytesWritten", 0),
        spilled=values.get("memoryBytesSpilled", 0),
        spilled_disk=values.get("diskBytesSpilled", 0),
        failed=task.get("status") != "SUCCESS",
    )


def _time(text: str | int) -> float:
    """Seconds since 1970; the API writes 2026-11-23T09:30:00.250GMT, or milliseconds."""
    if isinstance(text, int):
        return text / 1000
    return datetime.strptime(text.removesuffix("GMT"), "%Y-%m-%dT%H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
