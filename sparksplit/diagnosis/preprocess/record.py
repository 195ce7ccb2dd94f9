"""diagnosis.json of a preparation: the parts that took the time, what was found wrong with them, and what was tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sparksplit.base.records import Json, JsonObject, Record

Kind = Literal["skew", "few", "many", "slow", "failed", "gc", "spill", "driver", "work"]
KINDS: dict[str, str] = {
    "skew": "one task has more rows than the others, which wait for it",
    "few": "tasks are fewer than the slots, or their last round does not fill them",
    "many": "tasks are so small that starting them takes longer than their rows",
    "slow": "one task, or one executor, is slower than the others with as many rows",
    "failed": "tasks failed, and were done again",
    "gc": "the executors' memory is so full that they collect garbage",
    "spill": "rows did not fit into the executors' memory, and went through their disks",
    "driver": "no task runs: the driver plans, lists and renames",
    "work": "the work itself, which all slots share",
}


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the preparation's wall time. The seconds of all parts add up to the whole.

    Spark's jobs have the parts of job_names.PARTS. The driver has three parts of its own: open (before the first rows
    are read), driver (between the jobs) and publish (after the jobs). Jobs without a description are `other jobs`.
    """

    name: str
    """The part's name."""
    seconds: float
    """Seconds of wall time."""
    task_seconds: float = 0.0
    """Seconds that tasks kept slots busy, summed over the tasks."""
    stages: int = 0
    """The number of Spark's stages."""
    tasks: int = 0
    """The number of tasks that succeeded."""
    failed: int = 0
    """The number of attempts at a task that failed."""
    slowest: float | None = None
    """Seconds of the slowest task, in the stage that lost most."""
    median: float | None = None
    """The median seconds of the other tasks of that stage; None without other tasks."""
    largest: float | None = None
    """The size of the slowest task: its rows or bytes, divided by the mean of that stage's tasks."""
    idle: float | None = None
    """The share of the slots' time without a task of this part."""
    even: float | None = None
    """Seconds that the part would take if all slots were busy to the end."""
    gc: float = 0.0
    """The share of the tasks' time that was spent on garbage collection."""
    rows: int = 0
    """Rows that the tasks read."""
    bytes: int = 0
    """Bytes that the tasks read."""
    shuffle_read: int = 0
    """Bytes of a shuffle that the tasks read."""
    shuffle_written: int = 0
    """Bytes of a shuffle that the tasks wrote."""
    spilled: int = 0
    """Bytes that did not fit into the executors' memory, as they were in memory."""
    spilled_disk: int = 0
    """Bytes that did not fit into the executors' memory, as they were written to disk."""


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Something that takes longer than necessary."""

    kind: Kind
    """The kind of trouble, of KINDS."""
    parts: list[str]
    """The names of the parts that the trouble was found in."""
    seconds: float | None
    """Seconds of wall time that the trouble costs, computed from the tasks' times; None if unknown."""
    why: str
    """The observations that show the trouble."""
    help: list[str]
    """What to change."""
    settings: dict[str, Json] = field(default_factory=dict)
    """The changes that can be tried at once: keys of the configuration or of Spark (spark. ...), with their values."""
    not_tried: str = ""
    """Why the settings were not tried; empty where they were tried, and without settings."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Preparations in turns: without the settings that should help against a trouble, and with them."""

    kind: Kind
    """The kind of trouble, of KINDS."""
    settings: dict[str, Json]
    """The settings that were tried."""
    before: list[float]
    """Seconds of each preparation without the settings."""
    after: list[float]
    """Seconds of each preparation with the settings, in the same order of turns."""
    gain: float
    """The share of the time that the settings save, as the mean over the turns. 0.25 is a quarter of the time."""
    low: float | None
    """The lower end of the gain's 95 % confidence interval; None after a single turn."""
    high: float | None
    """The upper end of the gain's 95 % confidence interval; None after a single turn."""
    helps: bool
    """Whether the confidence interval of the gain is above 0. After a single turn: whether the gain is 0.1 or more."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """The input's files."""

    files: int
    """The number of files."""
    bytes: int
    """Bytes of all files."""
    largest: str | None
    """The path of the largest file."""
    largest_bytes: int
    """Bytes of the largest file."""
    whole: int
    """The number of files that a single task reads, however large they are."""


@dataclass(frozen=True, kw_only=True)
class PreprocessDiagnosis(Record):
    """diagnosis.json of a preparation."""

    WHAT: ClassVar[str] = "a diagnosis of a preparation"

    kind: Literal["preprocess"] = "preprocess"
    """The kind of diagnosis."""
    format: int = 1
    """The version of the format."""
    version: str
    """The version of sparksplit."""
    made: str
    """The time at which the diagnosis was made, in UTC (ISO 8601)."""
    master: str
    """Spark's master."""
    application_id: str
    """The id of the Spark application."""
    output: str
    """The folder that the configuration names as its output."""
    limit: Kind
    """The kind of the trouble that costs most; `work` where no trouble has a known cost."""
    sentence: str
    """The limit, in one sentence."""
    config: JsonObject
    """The configuration, with every key."""
    config_file: str | None
    """The configuration's file."""
    versions: dict[str, str]
    """The versions of sparksplit, pyspark and pyarrow."""
    seconds: float
    """Seconds of the first preparation, without Spark's start."""
    slots: int
    """The number of tasks that Spark can run at the same time."""
    rows: int
    """Rows of the prepared data set, over all splits."""
    prepared_bytes: int
    """Bytes of the prepared data set, over all splits."""
    files: Files | None
    """The input's files; None where the rows are not in files, or only Spark can reach the files."""
    parts: list[Part]
    """The parts of the wall time."""
    troubles: list[Trouble]
    """The troubles; the most expensive comes first."""
    tried: list[Tried] = field(default_factory=list)
    """The settings that were tried, with their gain."""
