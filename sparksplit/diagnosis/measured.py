"""The measurements of a diagnosis's nodes, as they are sent to the driver."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparksplit.base.records import Json, Record

VARIANTS = {
    "full": "the whole step, as train runs it",
    "no_transform": "without the transform",
    "no_reading": "rows from memory, with the transform",
    "repeated": "one batch again and again: nothing is read, transformed or put together",
    "no_copy": "the same, on the device already",
    "no_sync": "without synchronising",
    "no_compute": "rows are read and nodes synchronise, but nothing is copied or computed",
    "compute": "one batch on the device, without synchronising",
    "forward_backward": "the same, without the optimizer",
    "reading": "reading alone, with the transform",
    "reading_only": "reading alone, without the transform",
}
"""The variants that are measured in interleaved rounds, with their descriptions. Some variants are left out.
no_transform and reading_only need a transform. no_sync and no_compute need several nodes. no_reading is left out if
rows are kept in memory anyway."""


@dataclass(frozen=True)
class Readers:
    """Seconds per row of the whole step with `readers` readers, by round."""

    readers: int
    seconds: list[float]


@dataclass(frozen=True)
class Tried:
    """Seconds per row before and after a change of `settings` (values by dotted key). Each round measures one pair; the
    rounds alternate."""

    settings: dict[str, Json]
    before: list[float]
    after: list[float]


@dataclass(frozen=True)
class Failed:
    """Settings that made a node fail, and the first cause."""

    settings: dict[str, Json]
    error: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts that the measurements depend on. If nodes differ, the node with the most work or the least room counts.

    rows: rows of the training split. row_bytes: bytes of one row in memory. own_rows: rows of one node in one pass.
    kept: whether a node's rows stay in memory after the first pass. first_reading: seconds until kept rows are in
    memory; None if rows are not kept. free_mb: free memory of the node's host, in MiB for each of its nodes. cores:
    cores that the node may use. devices: TensorFlow's names of the devices. sync_bytes: bytes that each node sends in
    one exchange. model_bytes: bytes of the weights. held_out_bytes: bytes of the node's validation and test rows in
    memory. hosts: the nodes' hosts, by rank.
    """

    nodes: int
    rows: int
    row_bytes: int
    own_rows: int
    kept: bool
    first_reading: float | None
    free_mb: int
    cores: int
    threads: int
    devices: list[str]
    sync_bytes: int
    model_bytes: int
    held_out_bytes: int = 0
    hosts: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Measured(Record):
    """The measurements of a diagnosis.

    seconds: seconds per row of the whole mini-batch (over all nodes), by round, for each measured name of VARIANTS. All
    lists are equally long. The values of a round were measured right after one another. readers: the sweep. handoff:
    seconds per row of Spark's hand-off, for stretches of the feed. It is None with input_mode: tensorflow, or if all
    rows had arrived before a node waited for them. checkpoint: seconds that one checkpoint stops training; None if no
    checkpoint is written. tried: the recommended or proposed settings, as measured. failed: the settings and numbers of
    readers that could not be tried.
    """

    facts: Facts
    seconds: dict[str, list[float]]
    readers: list[Readers] = field(default_factory=list)
    handoff: list[float] | None = None
    checkpoint: float | None = None
    tried: list[Tried] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
