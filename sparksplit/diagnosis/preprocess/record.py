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
    """One part of the wall time. Those of Spark's jobs are described.PARTS; the driver's own are open (before the first
    rows are read), driver (between the jobs) and publish (after them).

    seconds: of the wall time; those of all parts add up to the whole. task_seconds: of slots. tasks: that succeeded.
    failed: attempts that did not. slowest: the seconds of the slowest task of the stage that lost most, median: those
    of the other tasks; largest: its rows (or bytes, where Spark does not count rows) against the mean of the stage's
    tasks. idle: the share of the slots' time in which they had no task of this part. even: what `seconds` would be if
    all slots were busy to the end. gc: share of the tasks' time.
    """

    name: str
    seconds: float
    task_seconds: float = 0.0
    stages: int = 0
    tasks: int = 0
    failed: int = 0
    slowest: float | None = None
    median: float | None = None
    largest: float | None = None
    idle: float | None = None
    even: float | None = None
    gc: float = 0.0
    rows: int = 0
    bytes: int = 0
    shuffle_read: int = 0
    shuffle_written: int = 0
    spilled: int = 0
    spilled_disk: int = 0


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What takes longer than it has to.

    parts: where. seconds: of the wall time that it costs, as the tasks' times tell; None where these do not. why: what
    was seen. help: what to change. settings: of these, what can be tried at once: keys of the configuration and of
    Spark (spark. ...), by their names. not_tried: why they were not tried; "" where they were, or there are none.
    """

    kind: Kind
    parts: list[str]
    seconds: float | None
    why: str
    help: list[str]
    settings: dict[str, Json] = field(default_factory=dict)
    not_tried: str = ""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """Preparations with what would help against a trouble and without it, in turns.

    before, after: seconds, one pair for each turn. gain: of the time, the mean of the pairs (0.25: a quarter less);
    low, high: its 95 % interval, None with a single pair. helps: whether it is faster for sure (or, with a single pair,
    by a tenth at least).
    """

    kind: Kind
    settings: dict[str, Json]
    before: list[float]
    after: list[float]
    gain: float
    low: float | None
    high: float | None
    helps: bool


@dataclass(frozen=True, kw_only=True)
class Files:
    """The input's files. largest: the path of the one with most bytes, and its bytes; whole: how many are each read by
    one task, however large."""

    files: int
    bytes: int
    largest: str | None
    largest_bytes: int
    whole: int


@dataclass(frozen=True, kw_only=True)
class PreprocessDiagnosis(Record):
    """See the fields of its parts. limit: the kind of the trouble that costs most, or work where none costs a tenth of
    the time. sentence: the same in one sentence. seconds: of the first preparation, without Spark's start. slots: tasks
    that Spark can run at the same time. config: with every key; config_file: where it is from."""

    WHAT: ClassVar[str] = "a diagnosis of a preparation"

    kind: Literal["preprocess"] = "preprocess"
    format: int = 1
    version: str
    made: str
    master: str
    application_id: str
    output: str
    limit: Kind
    sentence: str
    config: JsonObject
    config_file: str | None
    versions: dict[str, str]
    seconds: float
    slots: int
    rows: int
    prepared_bytes: int
    files: Files | None
    parts: list[Part]
    troubles: list[Trouble]
    tried: list[Tried] = field(default_factory=list)
