"""What the nodes of a diagnosis have measured, as it crosses to the driver."""

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
"""What is measured, in interleaved rounds, and what it is called. Those that a run has nothing of are not measured:
no_transform and reading_only without a transform, no_sync and no_compute with one node, no_reading where rows are kept
in memory anyway."""


@dataclass(frozen=True)
class Readers:
    """Seconds per row of the whole step with so many readers, by round."""

    readers: int
    seconds: list[float]


@dataclass(frozen=True)
class Tried:
    """Seconds per row with the configuration as it is, and with the `settings` (keys with dots, and their values), in
    rounds that alternate. One pair for each round."""

    settings: dict[str, Json]
    before: list[float]
    after: list[float]


@dataclass(frozen=True)
class Failed:
    """Settings with which a node failed, and the first cause."""

    settings: dict[str, Json]
    error: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the measurements depend on. Of nodes that differ, the one with the most work or the least room.

    rows: of the training split. row_bytes: of one row in memory. own_rows: of one node in one pass. kept: whether a
    node's rows stay in memory after the first pass; first_reading: the seconds until they were there, None where they
    do not stay. free_mb: memory that the node's host has left, for each of its nodes. cores: that the node may use.
    devices: TensorFlow's names. sync_bytes: that one exchange sends from each node. model_bytes: of the weights.
    held_out_bytes: of the node's validation and test rows in memory. hosts: the nodes', by rank.
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
    """seconds: per row of the whole mini-batch (over all nodes), by round, for each of VARIANTS that was measured: all
    lists are equally long, and one round's values were measured one right after the other. readers: the sweep.
    handoff: seconds per row while Spark handed rows over, for stretches of the feed; None with input_mode: tensorflow,
    or where all rows had come before a node was ready to wait for them.
    checkpoint: seconds for which training stood still for one checkpoint; None where none is written. tried: the
    settings that were recommended or proposed. failed: those, and numbers of readers, that could not be tried.
    """

    facts: Facts
    seconds: dict[str, list[float]]
    readers: list[Readers] = field(default_factory=list)
    handoff: list[float] | None = None
    checkpoint: float | None = None
    tried: list[Tried] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
