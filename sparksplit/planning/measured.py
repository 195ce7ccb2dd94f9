"""The measurements of a plan's nodes, as they are sent to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sparksplit.base.records import Record
from sparksplit.comparison.comparison_record import SweepPoint

WINDOWS = 3
"""The windows of blocks that a node without room for all rows has in memory."""


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one step without exchanges, by round. rows: the mean rows of a step."""

    rows: float
    seconds: list[float]


@dataclass(frozen=True)
class Exchanged:
    """Seconds that one exchange between two nodes adds, by round. They may be below 0 where steps take much longer.

    sent: the bytes that each of both nodes sends. sums: over the nodes, one after the other, each of arrays of one
    dtype. further: the bytes that the mini-batch of a further node adds; 0 unless it uses other rows of a large
    embedding.
    """

    sent: int
    sums: int
    seconds: list[float]
    further: int = 0


@dataclass(frozen=True)
class Noise:
    """variance: of a row's gradient. square: the squared length of the mean gradient. As an estimate without bias, it
    may be negative."""

    variance: float
    square: float


@dataclass(frozen=True)
class Repeat:
    """Branches from one checkpoint.

    before: the loss at the checkpoint. after: the loss of each branch at its end; None if the loss is not finite.
    noise: of the gradients at the checkpoint; None if one of them is not finite.
    """

    before: float
    after: list[float | None]
    noise: Noise | None


@dataclass(frozen=True, kw_only=True)
class Branched:
    """Training with larger mini-batches from one checkpoint, several times."""

    batch_sizes: list[int]
    """The rows of the branches' mini-batches. The first one is the configured `batch_size`."""
    rate_factors: list[float]
    """For each of these mini-batches, the learning rate as a multiple of the configured one."""
    rows: int
    """Rows up to the checkpoint, and as many rows of each branch from there. 0 without a repeat."""
    seconds: float
    """How long this took."""
    sampled: int
    """Rows in memory to train on."""
    repeats: list[Repeat]
    """Each repeat sees other rows, from the same initial weights."""
    problem: Literal["seconds", "rows", "loss", "memory", "node", "order"] | None = None
    """Why there are no repeats. seconds: a branch would be too short. rows: the run or the sample is too small.
    loss: it is not finite with the configured mini-batch. memory: a device has too little for large mini-batches.
    node: a node has ended meanwhile. order: rows come in a given order, which a sample of them does not have."""
    needed: float | None = None
    """With the problem `seconds`: how many seconds are enough."""
    why: str | None = None
    """With the problem `node`: the error that ended the measurement."""


@dataclass(frozen=True, kw_only=True)
class Measured(Record):
    """The measurements of the nodes. Lists of seconds have a value for each round."""

    hosts: list[str]
    """The hosts of both nodes, by rank."""
    devices: list[str]
    """TensorFlow's names of a node's devices."""
    alone: list[StepTimes]
    """Steps of one node while the other node waits, by rows."""
    beside: list[StepTimes]
    """The same steps while both nodes compute; empty if the nodes are on two hosts."""
    varying: list[StepTimes]
    """Some of the steps of `alone`, as if the rows of a step could vary, which takes another graph."""
    exchanges: dict[str, Exchanged]
    """The exchanges by kind, as in Stage."""
    sweep: list[SweepPoint]
    """Sums over both nodes, by bytes."""
    reading: list[float] | None
    """Seconds of reading a row, by round; None if a node keeps all rows in memory."""
    reading_steps: StepTimes | None
    """Steps whose rows are read meanwhile; None if a node keeps all rows in memory."""
    first_reading: float | None
    """Seconds of reading all rows of the training split for the first time, if a node keeps them."""
    begin_reading: float
    """The part of `first_reading` that does not depend on the rows."""
    begin_pass: float
    """Seconds until a further pass over rows in memory has its first mini-batch, for each row of the first window."""
    rows: int
    """Rows of the training split."""
    row_bytes: int
    """Bytes of a row in memory."""
    window_bytes: int
    """Bytes of the rows that a node without room for all rows has in memory while it reads all lanes."""
    held_out_bytes: int
    """Bytes of the validation and test rows that one node alone keeps in memory."""
    memory_bytes: int
    """The most memory that a node's process has had, without rows that it keeps."""
    model_bytes: int
    """Bytes of the weights."""
    seconds: float
    """How long measuring took, without branches."""
    branched: Branched | None = None
    """Branches with larger mini-batches; None if they are not asked for."""
