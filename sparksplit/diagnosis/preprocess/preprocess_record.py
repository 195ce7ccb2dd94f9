"""diagnosis.json of a preparation: the parts that took the time, the troubles in them, and the settings tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sparksplit.base.records import Json, JsonObject, Record
from sparksplit.diagnosis.answer import Answer

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
    waiting: float = 0.0
    """Seconds that the part would save if all slots were busy to the end."""
    tasks: int = 0
    """The number of tasks that succeeded."""


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


@dataclass(frozen=True, kw_only=True)
class Files:
    """The input's files."""

    files: int
    """The number of files."""
    bytes: int
    """Bytes of all files."""
    largest: str
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
    format: int = 2
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
    answer: Answer
    """What limits the preparation, what to set, and what that brings."""
    config: JsonObject
    """The configuration, with every key."""
    config_file: str | None
    """The configuration's file."""
    versions: dict[str, str]
    """The versions of sparksplit, pyspark and pyarrow."""
    seconds: float
    """Seconds of the preparation that was measured, without Spark's start."""
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
