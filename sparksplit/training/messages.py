"""What crosses between the driver and a training node: what the node is given, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hdfs_io.fence import Fence
from hdfs_io.publish import Output
from sparksplit.base.config import Origin, parse
from sparksplit.base.records import Json, JsonObject, Record
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.rows.ledger import Seen
from sparksplit.training.config import TrainConfig
from sparksplit.training.initial import Initial
from sparksplit.training.progress_record import EpochRecord, Progress, Values
from sparksplit.training.record import LossScale, RunCollective, RunInit


@dataclass(frozen=True, kw_only=True)
class Payload(Record):
    """What a node needs for a run.

    config: a TrainConfig's values, with the folders that its `data` came to and the model file of its `init`. places:
    where its keys were written down (Origin.to_json). run: the folder to fill; output: what that is to become; owner:
    the output's; writing: its fence's name. sources: the text of the user's files, by the key that names them.
    checkpoint: the path of the one to go on from. before: what the run has taken so far, as in `spent.gone_on`.
    record_only: leave no model, no checkpoints and no metrics.jsonl. untrained: tell what the model is worth before
    training, too. untested: leave the test rows alone. jackknife: tell how far each lane's rows move what it is worth
    after. init: the digest of the weights to begin with.
    """

    config: JsonObject
    places: JsonObject
    run: str
    output: str
    owner: str
    writing: str
    sources: dict[str, str]
    config_hash: str
    threads: int
    checkpoint: str | None = None
    before: dict[str, float] = field(default_factory=dict)
    record_only: bool = False
    untrained: bool = False
    jackknife: bool = False
    untested: bool = False
    init: str | None = None

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
    ) -> Payload:
        """The payload of the first attempt at a run that fills `output`."""
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
        )

    @property
    def fence(self) -> Fence:
        """The way to write into the run's folder."""
        return Fence(self.run, self.output, self.owner, self.writing)

    def train_config(self) -> TrainConfig:
        """The configuration, with errors that name those places."""
        return parse(TrainConfig, self.config, Origin.from_json(self.places))


def settled(config: TrainConfig, data: PreparedDataSet, initial: Initial | None) -> JsonObject:
    """The configuration's values for a node, with the folders that its `data` came to and the model file of its
    `init`."""
    paths: list[Json] = [*data.paths]
    resolved: JsonObject = {"data": paths if len(paths) > 1 else data.path}
    if initial is not None:
        resolved["init"] = initial.file
    return {**config.model_dump(mode="json"), **resolved}


@dataclass(frozen=True, kw_only=True)
class NodeResult(Record):
    """What one node says about a finished run; all say the same, except for host and seconds.

    seen: the progress's ledger in brief. sync_every: like RunSync.every. test: None without test rows. untrained: the
    same before training, without test rows on the validation rows; None if it was not asked for. jackknife: after
    training, of the same rows, as training.node.jackknife has it; None if it was not asked for. seconds: the run's, by
    what they were spent on (training.spent). weights: the digest of the trained weights. init, collective, loss_scale,
    threads: as RunRecord's.
    """

    progress: Progress
    seen: Seen
    passes: int
    sync_every: int | str
    test: Values | None
    weights: str
    host: str
    seconds: dict[str, float]
    init: RunInit | None = None
    loss_scale: LossScale | None = None
    threads: int | None = None
    collective: RunCollective | None = None
    untrained: Values | None = None
    jackknife: dict[str, list[float]] | None = None

    def in_brief(self) -> NodeResult:
        """As it crosses to others, however many epochs and lanes there are: without the rounds, which metrics.jsonl
        has, the ledger, and what the lanes' rows move."""
        return replace(self, progress=replace(self.progress, history=[], ledger={}), jackknife=None)

    def with_rounds(self, rounds: list[EpochRecord]) -> NodeResult:
        """With the finished rounds, which it lacked."""
        return replace(self, progress=replace(self.progress, history=rounds))
