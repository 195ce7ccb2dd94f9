"""How far a training run is, in JSON: metrics.jsonl's lines, and the description in each checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from hdfs_io import filesystem
from sparksplit.base.records import Record
from sparksplit.rows.ledger import EntryJson, LedgerJson

METRICS = "metrics.jsonl"

Values = dict[str, float | None]
"""The loss and the metrics by name; None for a value that is not a finite number."""


@dataclass(frozen=True, kw_only=True)
class EpochSeconds:
    """Node 0's seconds in a round, by what they were spent on.

    The first round begins with training. Every later round begins where the record of the round before was made.
    """

    train: float
    """Seconds of training: `feed`, `copy`, `compute` and `sync` together."""
    feed: float
    """Seconds of waiting for rows."""
    warmup: float
    """Seconds of making graphs."""
    copy: float
    """Seconds of turning rows into tensors on the device."""
    compute: float
    """Seconds of computing updates."""
    sync: float
    """Seconds of exchanges between nodes."""
    waiting: float
    """The part of `sync` that was spent waiting for other nodes, in seconds."""
    validation: float
    """Seconds on the validation rows."""
    metrics: float
    """Seconds of computing the training metrics over all nodes."""
    checkpoint: float
    """Seconds that training stood still for checkpoints, with the checkpoint at the end of the round before."""
    records: float
    """Seconds of publishing metrics.jsonl and TensorBoard's events at the end of the round before."""
    other: float
    """Seconds that no other name counts."""
    total: float
    """Seconds of the whole round. `train` and `waiting` are not added, because other names count their seconds."""


@dataclass(frozen=True, kw_only=True)
class EpochRecord(Record):
    """One finished round: a line of metrics.jsonl. A round is an epoch, unless the nodes split the epochs."""

    WHAT: ClassVar[str] = f"a line of {METRICS}"

    epoch: int
    """The last epoch that the round finished, counted from 1."""
    updates: int
    """Updates since the run began."""
    steps: int
    """Steps since the run began."""
    train: Values
    """The loss and the metrics of the training rows."""
    validation: Values | None = None
    """The loss and the metrics of the validation rows; None without validation rows."""
    rows: int
    """Rows that all nodes together trained on in the round."""
    rows_per_second: float | None
    """Throughput of all nodes together in rows/s, by `seconds.train`; None where no time passed."""
    seconds: EpochSeconds
    """Node 0's seconds in the round, by what they were spent on."""


def read_history(folder: str) -> list[EpochRecord]:
    """Return the rounds in metrics.jsonl of the run's folder `folder`. Raise InputError if the file is missing or
    damaged."""
    path = filesystem.join(folder, METRICS)
    lines = filesystem.read_bytes(path).splitlines()
    return [EpochRecord.parse(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


@dataclass(frozen=True, kw_only=True)
class CurvePoint(Record):
    """A point of a run's learning curve: the loss and the metrics at the end of a round."""

    passes: int
    """Passes since the run began."""
    updates: int
    """Updates since the run began."""
    steps: int
    """Steps since the run began."""
    seconds: float
    """Seconds of training since the run began: the sum of the rounds' `seconds.train`."""
    train: Values | None = None
    """The loss and the metrics of the training rows."""
    validation: Values | None = None
    """The loss and the metrics of the validation rows; None without validation rows."""


@dataclass(frozen=True)
class Resumed:
    """Where a run was resumed from a checkpoint."""

    update: int
    """The checkpoint's update."""
    nodes_before: int
    """The number of nodes that wrote the checkpoint."""
    nodes: int
    """The number of nodes that went on from the checkpoint."""
    optimizer: str | None = None
    """The nodes' own optimizers after the number of nodes changed: "passed on", or None where nothing was passed on.

    Passed on: each node took over the optimizer's state of an earlier node.
    """


@dataclass(frozen=True)
class Watched:
    """The validations so far of the metric that is watched (training.stopping.Watch)."""

    best: float | None = None
    """The best finite value; None before there is a finite value."""
    epoch: int = 0
    """The epoch of the best value, as in its EpochRecord."""
    update: int = 0
    """The update of the best value, as in its EpochRecord."""
    reference: float | None = None
    """The last value that was an improvement: better than the reference before by more than `min_delta`."""
    waited: int = 0
    """Validations since the last improvement."""


@dataclass(frozen=True)
class Changed:
    """What the callbacks that may change training have made of a run so far (training.callbacks.running)."""

    rate: float | None = None
    """The learning rate of all nodes; None if it is a schedule."""
    stopped: str | None = None
    """The name of the callback that has ended the run; None while no callback has."""
    states: list[str] = field(default_factory=list)
    """The state of each of these callbacks, as JSON. Only node 0 knows the states."""


@dataclass(frozen=True)
class Progress(Record):
    """How far a run is, as its checkpoints describe it."""

    WHAT: ClassVar[str] = "a checkpoint's description"

    config_hash: str
    """The hash of the configuration."""
    nodes: int
    """The number of nodes."""
    update: int = 0
    """Updates since the run began: changes of the weights that all nodes share."""
    step: int = 0
    """Steps since the run began: mini-batches of the node with the most mini-batches.

    The step says where in the rows the run is.
    """
    syncs: int = 0
    """Exchanges between nodes since the run began."""
    ledger: LedgerJson = field(default_factory=dict)
    """The ledger of the rows that the weights have seen, as Ledger.to_json writes it."""
    history: list[EpochRecord] = field(default_factory=list)
    """The finished rounds."""
    loss_sum: float = 0.0
    """The sum of the training loss over the rows of the unfinished round so far."""
    loss_rows: int = 0
    """The number of rows in `loss_sum`."""
    losses: list[tuple[float, int]] = field(default_factory=list)
    """Each node's own (`loss_sum`, `loss_rows`) by rank, where a node's losses are of its own rows only."""
    within_round: bool = False
    """Whether the run is within a round that no other number of nodes can finish."""
    seconds: float = 0.0
    """Seconds of the run so far, over all attempts."""
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds of the run so far, by what they were spent on (training.spent)."""
    since_round: dict[str, float] = field(default_factory=dict)
    """Seconds since the record of the last round, by what they were spent on."""
    sync_bytes: int = 0
    """Bytes that a node has sent in exchanges since the run began."""
    resumed: list[Resumed] = field(default_factory=list)
    """Where the run was resumed, in order."""
    watched: Watched | None = None
    """The validations so far of the metric that is watched; None if no metric is watched."""
    changed: Changed | None = None
    """What callbacks have changed; None if no callback may change training."""
    fed: EntryJson | None = None
    """The number of the DataFrame's rows, and a checksum of their ids and weights (`Fed.content`); None without a
    DataFrame."""

    @property
    def epochs(self) -> int:
        """How many epochs have been finished."""
        return self.history[-1].epoch if self.history else 0
