"""Messages between the driver and a training node: the node's task, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hdfs_io.fence import Fence
from hdfs_io.publish import Output
from sparksplit.base.config import Origin, parse
from sparksplit.base.records import Json, JsonObject, Record
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.rows.ledger import Seen
from sparksplit.training.callbacks.sent import Sent
from sparksplit.training.initial import Initial
from sparksplit.training.progress_record import EpochRecord, Progress, Values
from sparksplit.training.run_record import LossScale, RunCollective, RunInit
from sparksplit.training.train_config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Payload(Record):
    """The data that a node needs for a run."""

    config: JsonObject
    """The values of a TrainConfig, with the folders that `data` names and the model file that `init` names."""
    places: JsonObject
    """Where the configuration's keys were written down (Origin.to_json)."""
    run: str = ""
    """The folder that the run fills; "" where it writes nothing."""
    output: str = ""
    """The path of the output that the folder becomes at the end."""
    owner: str = ""
    """The owner of the output."""
    writing: str = ""
    """The name of the output's fence."""
    sources: dict[str, str]
    """The text of the user's files, by the key that names the file."""
    config_hash: str = ""
    """The hash of the configuration."""
    threads: int
    """TensorFlow's threads per operation on each node."""
    checkpoint: str | None = None
    """The path of the checkpoint that the run goes on from; None where the run begins."""
    before: dict[str, float] = field(default_factory=dict)
    """Seconds before the attempt, by what they were spent on, as in `spent.gone_on`."""
    record_only: bool = False
    """Whether the run writes no model, no checkpoints and no metrics.jsonl."""
    untrained: bool = False
    """Whether the node also computes the loss and the metrics before training."""
    jackknife: bool = False
    """Whether the node also computes how far each lane's rows move the metrics after training."""
    untested: bool = False
    """Whether the node skips the test rows."""
    chooses: bool = False
    """Whether the nodes measure steps before the first update, and wait for the driver's choice of nodes."""
    init: str | None = None
    """The digest of the trained weights to begin with; None where all layers begin anew."""
    callbacks: Sent | None = None
    """The callbacks that node 0 runs; None without callbacks."""

    @classmethod
    def of(
        cls,
        config: TrainConfig,
        data: PreparedDataSet,
        output: Output,
        sources: dict[str, str],
        config_hash: str,
        threads: int,
        initial: Initial | None = None,
        callbacks: Sent | None = None,
    ) -> Payload:
        """Return the payload of the first attempt at a run that fills `output`."""
        return cls(
            config=settled(config, data, initial),
            places=config.origin.to_json(),
            run=output.folder,
            output=output.path,
            owner=output.owner,
            writing=output.fence.name,
            sources=sources,
            config_hash=config_hash,
            threads=threads,
            init=None if initial is None else initial.digest,
            callbacks=callbacks,
        )

    @property
    def fence(self) -> Fence:
        """The way to write into the run's folder."""
        return Fence(self.run, self.output, self.owner, self.writing)

    def train_config(self) -> TrainConfig:
        """Return the configuration. Its errors name the `places`."""
        return parse(TrainConfig, self.config, Origin.from_json(self.places))


def settled(config: TrainConfig, data: PreparedDataSet, initial: Initial | None) -> JsonObject:
    """Return the configuration's values for a node, with the resolved folders of `data` and model file of `init`."""
    paths: list[Json] = [*data.paths]
    resolved: JsonObject = {"data": paths if len(paths) > 1 else data.path}
    if initial is not None:
        resolved["init"] = initial.file
    return {**config.model_dump(mode="json"), **resolved}


@dataclass(frozen=True, kw_only=True)
class NodeResult(Record):
    """A node's result of a finished run. The results of all nodes are equal, except for `host` and `seconds`."""

    progress: Progress
    """How far the run is."""
    seen: Seen
    """The ledger of `progress`, in brief."""
    passes: int
    """Passes over the training rows, summed over the nodes."""
    sync_every: int | str
    """When the nodes synced, as in RunSync.every."""
    test: Values | None
    """The metrics of the test rows; None without test rows."""
    weights: str
    """The digest of the trained weights."""
    host: str
    """The node's host."""
    seconds: dict[str, float]
    """The node's seconds of the run, by what they were spent on (training.spent)."""
    init: RunInit | None = None
    """The trained weights that the run began with, as in RunRecord."""
    loss_scale: LossScale | None = None
    """The factor that the loss was multiplied with, as in RunRecord."""
    threads: int | None = None
    """TensorFlow's threads per operation, as in RunRecord."""
    collective: RunCollective | None = None
    """The collective that summed over the nodes, as in RunRecord."""
    untrained: Values | None = None
    """The loss and the metrics before training; None if not asked for.

    They are computed on the test rows; without test rows on the validation rows.
    """
    jackknife: dict[str, list[float]] | None = None
    """How far each lane's rows move the metrics after training (training.node.jackknife), on the rows of `untrained`.

    None if not asked for.
    """

    def in_brief(self) -> NodeResult:
        """Return the result without the rounds (metrics.jsonl has them), the ledger and the jackknife.

        The size for other processes then does not grow with epochs and lanes.
        """
        return replace(self, progress=replace(self.progress, history=[], ledger={}), jackknife=None)

    def with_rounds(self, rounds: list[EpochRecord]) -> NodeResult:
        """Return the result with the finished rounds, which it lacked."""
        return replace(self, progress=replace(self.progress, history=rounds))
