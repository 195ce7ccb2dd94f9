"""What is kept of a training run in JSON: run.json, metrics.jsonl's lines, and how far it is, in its checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.base.records import Json, Record
from sparksplit.rows.ledger import LedgerJson

RUN, METRICS = "run.json", "metrics.jsonl"

Values = dict[str, float | None]
"""The loss and the metrics by name; None for one that is not a finite number."""


@dataclass(frozen=True, kw_only=True)
class EpochSeconds:
    """Seconds of node 0 from where the last round's record was made, or training began, by what they were spent on.

    train: all of feed, copy, compute and sync. feed: waiting for rows. warmup: making graphs. copy: rows to tensors on
    the device. compute: updates. sync: exchanges; waiting: the part of it spent waiting for other nodes. metrics: the
    training metrics over all nodes. checkpoint: those at the end of the last round too, like records: publishing
    metrics.jsonl and TensorBoard's events. other: what is left. total: all of them; train and waiting are parts.
    """

    train: float
    feed: float
    warmup: float
    copy: float
    compute: float
    sync: float
    waiting: float
    validation: float
    metrics: float
    checkpoint: float
    records: float
    other: float
    total: float


@dataclass(frozen=True, kw_only=True)
class EpochRecord(Record):
    """One finished round, which is an epoch unless the nodes split the epochs: a line of metrics.jsonl.

    epoch: the last one that it finished, from 1. updates, steps: since the run began. validation: None without
    validation rows. rows: how many were trained on, over all nodes; rows_per_second: None where no time passed.
    """

    WHAT: ClassVar[str] = f"a line of {METRICS}"

    epoch: int
    updates: int
    steps: int
    train: Values
    validation: Values | None = None
    rows: int
    rows_per_second: float | None
    seconds: EpochSeconds


def read_history(folder: str) -> list[EpochRecord]:
    """The rounds in metrics.jsonl of the run's folder `folder`. Raises InputError if it is damaged."""
    path = filesystem.join(folder, METRICS)
    lines = filesystem.read_bytes(path).splitlines()
    return [EpochRecord.parse(line, f"{path}:{number}") for number, line in enumerate(lines, start=1)]


@dataclass(frozen=True, kw_only=True)
class CurvePoint(Record):
    """What was learnt after this many passes, updates, steps and seconds of training, each since the run began."""

    passes: int
    updates: int
    steps: int
    seconds: float
    train: Values | None = None
    validation: Values | None = None


@dataclass(frozen=True)
class Resumed:
    """Where a run was resumed. update: the checkpoint's. optimizer: "passed on" where the number of nodes with their
    own optimizers changed, so that each took the state of one of those before."""

    update: int
    nodes_before: int
    nodes: int
    optimizer: str | None = None


@dataclass(frozen=True)
class Cause:
    """What ended an attempt. rank, host: the node's that it began with, where it was one's."""

    what: str
    rank: int | None = None
    host: str | None = None


@dataclass(frozen=True)
class Attempt:
    """One start of a run's nodes, and how it ended.

    how: start; restart (by itself, after a failure); resume (by a later command); rejoin (with all nodes again,
    after some had been missing). begun, ended: UTC. nodes: how many; update: of the checkpoint that it went on from.
    ended, seconds: None where its driver was killed. cause: None where it finished the run.
    """

    how: str
    begun: str
    nodes: int
    update: int
    ended: str | None = None
    seconds: float | None = None
    cause: Cause | None = None


@dataclass(frozen=True)
class Watched:
    """What the validations have shown so far of the metric that is watched (training.stopping.Watch).

    best: its best finite value; None before there is one. epoch, update: the round in which it came, as in its
    EpochRecord. reference: the last value that was better by more than `min_delta`; waited: validations since.
    """

    best: float | None = None
    epoch: int = 0
    update: int = 0
    reference: float | None = None
    waited: int = 0


@dataclass(frozen=True)
class Progress(Record):
    """How far a run is.

    update: updates since the run began: changes of the weights that all nodes share. step: mini-batches that the node
    with the most has trained on, which says where in the rows the run is. syncs: exchanges between nodes. ledger:
    Ledger.to_json. history: the finished rounds. loss_sum, loss_rows: the unfinished round's training loss so far.
    losses: (sum, rows) of that by rank, where each node has its own. within_round: whether only as many nodes can go
    on. seconds: the run's so far, over all attempts; spent: by what they were spent on, and since_round: those since
    the last round's record (training.spent). watched: None if no metric is watched.
    """

    WHAT: ClassVar[str] = "a checkpoint's description"

    config_hash: str
    nodes: int
    update: int = 0
    step: int = 0
    syncs: int = 0
    ledger: LedgerJson = field(default_factory=dict)
    history: list[EpochRecord] = field(default_factory=list)
    loss_sum: float = 0.0
    loss_rows: int = 0
    losses: list[tuple[float, int]] = field(default_factory=list)
    within_round: bool = False
    seconds: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)
    since_round: dict[str, float] = field(default_factory=dict)
    sync_bytes: int = 0
    resumed: list[Resumed] = field(default_factory=list)
    watched: Watched | None = None

    @property
    def epochs(self) -> int:
        """How many epochs have been finished."""
        return self.history[-1].epoch if self.history else 0


@dataclass(frozen=True)
class RunData:
    """The prepared data set that was trained on. folders: of all of them, where several were trained on as one."""

    path: str
    digest: str
    folders: list[str] | None = None


@dataclass(frozen=True)
class RunInit:
    """The weights that a run began with. file: the model's; digest: of the weights in it. layers: those that began with
    them; fresh: those that did not."""

    file: str
    digest: str
    layers: list[str]
    fresh: list[str]


@dataclass(frozen=True)
class RunSync:
    """every: "step", "epoch", or the steps between two syncs. outer: the outer optimizer; None without one. after: how
    many updates came first, in which nodes agreed at every step."""

    every: int | str
    outer: str | None
    after: int


@dataclass(frozen=True)
class RunCollective:
    """What summed over the nodes, in the last attempt. name: as the key `collective` has it. reason: why it was chosen;
    None where the configuration says which."""

    name: str
    reason: str | None = None


@dataclass(frozen=True)
class RunLedger:
    """rows: how many the weights have seen. checksum: of their row_ids, as text, because JSON readers round large
    integers. exact: whether each pass saw every row exactly once."""

    rows: int
    checksum: str
    exact: bool


@dataclass(frozen=True, kw_only=True)
class RunSeconds:
    """Seconds by what they were spent on, over all attempts, as means over the nodes.

    start: until training began, without handoff: waiting for Spark to hand over rows. train: copy, compute and sync.
    test: on the test rows. export: of the model. lost: what attempts took after the checkpoint that the run went on
    from. end: from the nodes' results on. The others are as in EpochSeconds. total: all of them; copy, compute, sync
    and waiting are parts. Of the attempts before the last one, they are node 0's up to that checkpoint.
    """

    start: float
    handoff: float
    feed: float
    warmup: float
    train: float
    copy: float
    compute: float
    sync: float
    waiting: float
    validation: float
    metrics: float
    checkpoint: float
    records: float
    test: float
    export: float
    lost: float
    end: float
    other: float
    total: float


@dataclass(frozen=True, kw_only=True)
class RunMetrics:
    """train, validation: for each metric, a list by round; None where there is nothing. test: at the end; empty without
    test rows. Numbers that are not finite are None."""

    train: dict[str, list[float | None]] | None = None
    validation: dict[str, list[float | None]] | None = None
    test: Values


@dataclass(frozen=True)
class StoppedEarly:
    """Where a run ended before its last epoch: the metric had not improved for `early_stop.patience` validations. best:
    its best value; None if no value was finite."""

    epoch: int
    update: int
    metric: str
    best: float | None


@dataclass(frozen=True)
class Best:
    """The best validation. epoch, update: the round at whose end it was. kept: whether the model has its weights; if
    not, it has the last ones."""

    metric: str
    value: float
    epoch: int
    update: int
    kept: bool


@dataclass(frozen=True)
class LossScale:
    """By what the loss was multiplied (dtype: mixed_float16). value: at the end. left_out: the steps that changed no
    weight, because gradients overflowed; None where the run went on with another number of nodes, which count steps
    differently. Where nodes apply their own gradients, both are node 0's."""

    value: float
    left_out: int | None


@dataclass(frozen=True, kw_only=True)
class RunRecord(Record):
    """run.json: what was trained, how, at what cost, and how well.

    config: the run's configuration, with every key. nodes: real ones or, if `virtual`, virtual ones. rows: of one pass.
    updates: changes of the weights that all nodes share; steps: mini-batches of the node with the most; syncs:
    exchanges between nodes. weights: the digest of the trained weights. restarts: over all commands that trained it.
    stopped_early: None if it ran to its last epoch. best: None if no metric was watched, or none of its values finite.
    init: None where all layers began afresh. collective: None for one real node. loss_scale: None where the loss was
    not multiplied. attempts: all of them, over all commands; None in the records of compare. threads: TensorFlow's, per
    operation.
    """

    WHAT: ClassVar[str] = "what train writes"
    REMEDY: ClassVar[str] = "train again with --overwrite"

    run_id: str
    config_hash: str
    command: str
    data: RunData
    config: dict[str, Json]
    strategy: str
    sync: RunSync
    nodes: int
    virtual: bool
    input_mode: str
    rows: int
    batch_size: int
    epochs: int
    passes: int
    updates: int
    steps: int
    syncs: int
    sync_bytes_per_node: int
    ledger: RunLedger
    seconds: RunSeconds
    rows_per_second: float
    metrics: RunMetrics
    resumed: list[Resumed]
    weights: str
    hosts: list[str]
    versions: dict[str, str]
    restarts: int
    application_id: str
    attempts: list[Attempt] | None = None
    stopped_early: StoppedEarly | None = None
    best: Best | None = None
    init: RunInit | None = None
    loss_scale: LossScale | None = None
    threads: int | None = None
    collective: RunCollective | None = None

    @classmethod
    def read(cls, folder: str) -> Self:
        """The record in the run's folder `folder`. Raises InputError if it is missing, damaged or something else's."""
        path = filesystem.join(folder, RUN)
        return cls.parse(filesystem.read_bytes(path), path)

    def write(self, run: Fence) -> None:
        """Write run.json into the folder of `run`."""
        run.write_json(filesystem.join(run.folder, RUN), self.to_json())
