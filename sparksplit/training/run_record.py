"""run.json: what was trained, how, at what cost, and how well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from hdfs_io.marks import CONFIG, SUCCESS, mark_of
from sparksplit.base.errors import InputError
from sparksplit.base.records import Json, Record
from sparksplit.training.choice import Choice
from sparksplit.training.progress_record import Resumed, Values

RUN = "run.json"


def check_complete(folder: str) -> None:
    """Raise InputError if `folder` is not a complete run."""
    missing = [name for name in (RUN, SUCCESS) if not filesystem.exists(filesystem.join(folder, name))]
    if not missing:
        return
    mark = filesystem.join(folder, CONFIG)
    begun = SUCCESS in missing and filesystem.exists(mark)
    unfinished = begun and mark_of(filesystem.read_bytes(mark)).get("command") == "train"
    todo = "; it is unfinished: repeat its train command to finish it" if unfinished else ""
    raise InputError(f"{folder}: not a complete run of train: no {missing[0]} file{todo}")


@dataclass(frozen=True)
class Cause:
    """The error or interruption that ended an attempt."""

    what: str
    """The error in words."""
    rank: int | None = None
    """The rank of the node that the failure began with; None if the failure began with no node."""
    host: str | None = None
    """The host of the node that the failure began with; None if the failure began with no node."""


@dataclass(frozen=True)
class Attempt:
    """One start of a run's nodes, and how it ended."""

    how: str
    """Why the nodes were started: start, restart, resume, rejoin or chosen.

    restart: by itself, after a failure. resume: by a later command. rejoin: with all nodes, after some were missing.
    chosen: with the nodes that `strategy: auto` has chosen, after others have measured.
    """
    begun: str
    """The time of the start, in UTC (ISO 8601)."""
    nodes: int
    """The number of nodes."""
    update: int
    """The update of the checkpoint that the attempt went on from; 0 without a checkpoint."""
    ended: str | None = None
    """The time of the end, in UTC (ISO 8601); None where the driver was killed, or while the attempt runs."""
    seconds: float | None = None
    """Seconds of wall time; None where the driver was killed, or while the attempt runs."""
    cause: Cause | None = None
    """The reason for the end of the attempt; None where the attempt finished the run."""


@dataclass(frozen=True)
class RunData:
    """The prepared data set that was trained on."""

    path: str
    """The folder of the data set. Of several data sets: the first folder, and the number of other folders."""
    digest: str
    """The data set's digest."""
    folders: list[str] | None = None
    """The folders of all data sets, where several were trained on together."""


@dataclass(frozen=True)
class RunInit:
    """The trained weights that a run began with."""

    file: str
    """The file of the model that the weights came from."""
    digest: str
    """The digest of the weights in the file."""
    layers: list[str]
    """The names of the layers that began with weights from the file."""
    fresh: list[str]
    """The names of the layers that began with newly initialised weights."""


@dataclass(frozen=True)
class RunSync:
    """When the nodes agree."""

    every: int | str
    """When the nodes sync: "step", "epoch", or the number of steps between two syncs."""
    outer: str | None
    """The outer optimizer; None without an outer optimizer."""
    after: int
    """Updates at the beginning of the run in which the nodes agreed at every step."""


@dataclass(frozen=True)
class RunCollective:
    """The collective that summed over the nodes in the last attempt."""

    name: str
    """The collective's name, as in the key `collective`."""
    reason: str | None = None
    """Why the collective was chosen; None where the configuration names it."""


@dataclass(frozen=True)
class RunLedger:
    """The rows that the weights have seen."""

    rows: int
    """The number of rows, summed over all passes."""
    checksum: str
    """The checksum of the rows' row_ids, as text, because JSON readers round large integers."""
    exact: bool
    """Whether each pass saw every row exactly once."""


@dataclass(frozen=True, kw_only=True)
class RunSeconds:
    """Seconds by what they were spent on, over all attempts, as means over the nodes.

    For each attempt before the last, the seconds are node 0's, up to the checkpoint that the run went on from.
    """

    start: float
    """Seconds until training began, without `handoff`."""
    handoff: float
    """Seconds of waiting for Spark to hand over the rows, before training (input_mode: spark)."""
    feed: float
    """Seconds of waiting for rows."""
    warmup: float
    """Seconds of making graphs."""
    train: float
    """Seconds of training: `copy`, `compute` and `sync` together."""
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
    """Seconds that training stood still for checkpoints."""
    records: float
    """Seconds of publishing metrics.jsonl and TensorBoard's events."""
    test: float
    """Seconds on the test rows."""
    export: float
    """Seconds of writing the model."""
    lost: float
    """Seconds of ended attempts after the checkpoint that the run went on from, until the next attempt began."""
    end: float
    """Seconds from the nodes' results to the end of the run."""
    other: float
    """Seconds that no other name counts."""
    total: float
    """Seconds of the whole run. `copy`, `compute`, `sync` and `waiting` are not added: `train` has them."""


@dataclass(frozen=True, kw_only=True)
class RunMetrics:
    """The loss and the metrics of a run; None for a value that is not a finite number."""

    train: dict[str, list[float | None]] | None = None
    """For each metric of the training rows, its values by round; None without a finished round."""
    validation: dict[str, list[float | None]] | None = None
    """For each metric of the validation rows, its values by round; None without validation rows."""
    test: Values
    """The metrics of the test rows at the end of the run; empty without test rows."""


@dataclass(frozen=True)
class StoppedEarly:
    """Where a run ended before its last epoch.

    Either the metric had not improved for `early_stop.patience` validations, or a callback ended the run.
    """

    epoch: int
    """The last finished epoch, counted from 1."""
    update: int
    """The update at which the run ended."""
    metric: str | None
    """The name of the watched metric; None if a callback ended the run."""
    best: float | None
    """The metric's best value; None if no value was finite, or if a callback ended the run."""
    callback: str | None = None
    """The name of the callback that ended the run; None if the metric did."""


@dataclass(frozen=True)
class Best:
    """The best validation of a run."""

    metric: str
    """The name of the watched metric."""
    value: float
    """The metric's best value."""
    epoch: int
    """The epoch of the round that ended with the best validation."""
    update: int
    """The update at the end of that round."""
    kept: bool
    """Whether the model has the weights of the best validation. If not, the model has the last weights."""


@dataclass(frozen=True)
class LossScale:
    """The factor that the loss was multiplied with (dtype: mixed_float16).

    Where each node applies its own gradients, the fields are node 0's.
    """

    value: float
    """The factor at the end of the run."""
    left_out: int | None
    """Steps that changed no weight, because gradients overflowed.

    None where the run went on with another number of nodes, because different numbers of nodes count steps differently.
    """


@dataclass(frozen=True, kw_only=True)
class RunRecord(Record):
    """run.json: what was trained, how, at what cost, and how well."""

    WHAT: ClassVar[str] = "what train writes"
    REMEDY: ClassVar[str] = "train again with --overwrite"

    run_id: str
    """The run's identifier."""
    config_hash: str
    """The hash of the configuration, without keys that cannot change the result."""
    command: str
    """The command that made the record."""
    data: RunData
    """The prepared data set that was trained on."""
    config: dict[str, Json]
    """The run's configuration, with every key."""
    strategy: str
    """The strategy's name."""
    sync: RunSync
    """When the nodes agreed."""
    nodes: int
    """The number of nodes in the last attempt. If `virtual`, the nodes are virtual."""
    virtual: bool
    """Whether the nodes are virtual: a single process computed for all of them."""
    input_mode: str
    """How the nodes got their rows: tensorflow (each node read them) or spark (Spark handed them over)."""
    rows: int
    """Rows in a pass."""
    batch_size: int
    """Rows in a mini-batch, as in the configuration."""
    epochs: int
    """Epochs that the configuration asks for."""
    passes: int
    """Passes over the training rows, summed over the nodes."""
    updates: int
    """Changes of the weights that all nodes share."""
    steps: int
    """Mini-batches of the node with the most mini-batches."""
    syncs: int
    """Exchanges between nodes."""
    sync_bytes_per_node: int
    """Bytes that a node sent in exchanges."""
    ledger: RunLedger
    """The rows that the weights have seen."""
    seconds: RunSeconds
    """Seconds by what they were spent on."""
    rows_per_second: float
    """Throughput of all nodes together in rows/s, by the seconds of training, with waiting for rows."""
    metrics: RunMetrics
    """The loss and the metrics of the training, validation and test rows."""
    resumed: list[Resumed]
    """Where the run was resumed from a checkpoint, in order."""
    weights: str
    """The digest of the trained weights."""
    hosts: list[str]
    """The nodes' hosts, by rank."""
    versions: dict[str, str]
    """The versions of sparksplit and of the packages that a result depends on."""
    restarts: int
    """Automatic restarts after a failure, over all commands that trained the run."""
    application_id: str
    """The id of the Spark application."""
    attempts: list[Attempt] | None = None
    """All attempts, over all commands that trained the run; None in the records of `compare`."""
    stopped_early: StoppedEarly | None = None
    """Where the run stopped early; None if the run finished its last epoch."""
    best: Best | None = None
    """The best validation; None if no metric was watched, or no value was finite."""
    init: RunInit | None = None
    """The trained weights that the run began with; None where all weights were newly initialised."""
    loss_scale: LossScale | None = None
    """The factor that the loss was multiplied with; None where the loss was not multiplied."""
    threads: int | None = None
    """TensorFlow's threads per operation on each node."""
    collective: RunCollective | None = None
    """The collective that summed over the nodes; None for a single real node."""
    own_model: str | None = None
    """The identity of the user's own model: a `keras.Model`, a function of a session, or a `.keras` file; None for a
    builder, and in the records of `compare`."""
    callbacks: list[str] | None = None
    """The names of the callbacks that node 0 ran; None without callbacks."""
    choice: Choice | None = None
    """What `strategy: auto` has chosen; None for other strategies, and where `nodes` is 1 without a comparison."""
    ran: str | None = None
    """"beside the driver" where Spark's master has no executors; None where the nodes were on executors."""

    @classmethod
    def read(cls, folder: str) -> Self:
        """Return the record in the run's folder `folder`. Raise InputError if run.json is missing, damaged, or not a
        run's record."""
        path = filesystem.join(folder, RUN)
        return cls.parse(filesystem.read_bytes(path), path)

    def write(self, run: Fence) -> None:
        """Write run.json into the folder of `run`."""
        run.write_json(filesystem.join(run.folder, RUN), self.to_json())
