"""The configuration of `train`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal

import pydantic

from sparksplit.base.config import Config
from sparksplit.base.errors import did_you_mean
from sparksplit.base.user_functions import is_own
from sparksplit.cluster.deadlines import Limits
from sparksplit.collectives import COLLECTIVES
from sparksplit.model.config import ModelConfig, OptimizerConfig
from sparksplit.network.listening import Network, check_bind, parse_ports
from sparksplit.prepare.config import Paths
from sparksplit.spark.waiting import QUEUE_SECONDS, START_SECONDS
from sparksplit.strategies import STRATEGIES, Strategy
from sparksplit.strategies.config import SyncConfig


def _one_of(table: Collection[str], what: str) -> pydantic.AfterValidator:
    """Check that a name is in the table, or a function's. what: such functions return, for instance `a strategy`."""

    def check(name: str) -> str:
        if name not in table and not is_own(name):
            known, hint = ", ".join(table), did_you_mean(name, table)
            raise ValueError(f"must be one of {known}, or a function that returns {what} (is {name!r}){hint}")
        return name

    return pydantic.AfterValidator(check)


def _by_name(weights: Any) -> Any:
    """Weights by the names of the classes, which YAML may have read as numbers or as true and false."""
    if not isinstance(weights, dict):
        return weights
    return {str(name).lower() if isinstance(name, bool) else str(name): weight for name, weight in weights.items()}


def _ports(text: str) -> str:
    parse_ports(text)
    return text


class CheckpointConfig(Config):
    """When to write checkpoints. There is always one at the run's end."""

    seconds: pydantic.PositiveFloat | None = 60
    """Seconds after which the next checkpoint is due. It is written, while training goes on, as soon as all nodes agree
    and the last one has been written. null: by `every` alone."""
    every: Literal["epoch"] | pydantic.PositiveInt | None = None
    """Checkpoints besides: `epoch`, at each epoch's end; or a number of updates (training waits where the last one is
    still being written). null: none."""
    keep: pydantic.PositiveInt = 3
    """How many of the last checkpoints are kept; and the last one that another number of nodes can go on from."""
    grace: pydantic.NonNegativeFloat = 10
    """Seconds that nodes have for one more checkpoint after Ctrl-C or SIGTERM. They write it where they agree next. If
    that comes too late, the run goes on from the checkpoint before. A cluster that would kill sooner gets at most 8. A
    second signal ends the run at once."""


class EarlyStopConfig(Config):
    """When a run ends before its last epoch."""

    metric: str = "loss"
    """What has to improve on the validation rows: loss, or one of the metrics."""
    patience: pydantic.PositiveInt = 3
    """Validations without an improvement after which the run ends. There is one at the end of each epoch or, where the
    nodes split the epochs, of each round."""
    min_delta: pydantic.NonNegativeFloat = 0.0
    """An improvement is better than the last one by more than this."""
    mode: Literal["min", "max"] | None = None
    """Whether lower or higher values are better; null: known from what the metric is. Needed if that does not tell."""


class VirtualNodes(Config):
    """Nodes that one process plays in turn, with the arithmetic of real ones."""

    virtual: pydantic.PositiveInt
    """How many."""


class Training(Config):
    """What `train` and `compare` have in common."""

    data: Paths
    """The prepared data set: a folder that `preprocess` has left; or several, as a list or a pattern (`days/ds=*`),
    which are trained on as one."""
    model: ModelConfig = ModelConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    loss: str | dict[str, Any] | None = None
    """A Keras loss by name, or {name: ..., argument: ...}; null: sparse_categorical_crossentropy for classes
    (binary_crossentropy where the model has one output for two of them), otherwise mean_squared_error."""
    metrics: list[str] | None = None
    """Keras metrics by name, and auc (of two classes), precision, recall, f1 (of two classes the second's, otherwise
    the mean over the classes), mae, rmse, r2; null: accuracy for classes, otherwise mean_absolute_error."""
    class_weights: Annotated[
        Literal["balanced"] | dict[str, pydantic.NonNegativeFloat] | None, pydantic.BeforeValidator(_by_name)
    ] = None
    """What a training row counts by its class: balanced (all classes count the same, with the rows' own weights where
    they have some), or a mapping of labels to weights, in which those that are not named have 1. Loss and gradients
    of a mini-batch are divided by the sum of its rows' weights. Validation and test do not use them. null: each row
    counts 1."""
    batch_size: pydantic.PositiveInt = 64
    """Rows of one global mini-batch (B)."""
    accumulate: pydantic.PositiveInt = 1
    """In how many parts each node computes its rows of a mini-batch, one after the other, before one exchange and one
    update: the model's activations then take the memory of one part. The result is the same within rounding, except
    through BatchNorm and Dropout."""
    epochs: pydantic.PositiveInt = 10
    """Passes over the training split (E)."""
    readers: pydantic.NonNegativeInt = 1
    """Threads per node that read ahead and assemble mini-batches; 0: none, so that each step waits for its rows."""
    transform: str | None = None
    """`package.module:function` or `path/to/file.py:function`, applied to rows as they are read: f(tensors, label,
    seeds) returns (tensors, label); seeds holds one uint64 per row, made from row_id, seed and epoch."""
    window: pydantic.PositiveInt | None = None
    """Blocks per lane whose rows are shuffled together; a node holds two windows of each of its lanes in memory. null:
    4, or as many as a node that has all lanes can hold in 384 MiB, at least one."""
    cache_mb: pydantic.NonNegativeInt = 512
    """A node whose rows fit into this many MiB keeps them in memory instead of reading them in every epoch."""
    dtype: Literal["float32", "float64", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras's float type; or one of its policies mixed_bfloat16 and mixed_float16, with which layers compute in 16
    bits, and weights, losses and sums have 32. With mixed_float16 gradients are computed of a multiple of the loss,
    which grows and shrinks by itself; an update in which they overflow is left out, on all nodes that share it."""
    device: Literal["auto", "cpu"] = "auto"
    """What nodes compute on: auto, the GPU that the node is given, and otherwise its processors; cpu, its processors,
    whatever GPUs there are."""
    jit_compile: bool = False
    """Have XLA compile the model's forward and backward pass. It takes seconds for each number of rows that a node may
    have of a mini-batch, and the last bits are others."""
    deterministic: bool = True
    """Only operations that give the same bits each time. false: also those without such a kernel; the same run then may
    have other bits each time, also after a restart."""
    threads: pydantic.NonNegativeInt = 0
    """TensorFlow threads per operation on each node; 0: the cores that Spark grants to the node's task,
    spark.task.cpus. Another number may change the last bits of what is computed."""
    seed: pydantic.NonNegativeInt = 1
    """Seed of the weights, the order of rows, the transform and Dropout."""
    max_restarts: pydantic.NonNegativeInt = 3
    """How often a run restarts by itself, from its last checkpoint (in a comparison: from its beginning), after a node
    was lost or something failed that may pass; ten minutes without a failure, with a checkpoint, begin the count anew.
    What would fail again is not tried again."""
    queue_timeout: pydantic.PositiveFloat = QUEUE_SECONDS
    """Seconds to wait until the cluster has granted all executors: a queue may be busy."""
    start_timeout: pydantic.PositiveFloat = START_SECONDS
    """Seconds from then on until executors and nodes have started. A host that has no copy of the environment's archive
    takes minutes to fetch it. Also the limit for a node that makes no progress in its start."""
    stall_timeout: pydantic.PositiveFloat | None = None
    """Seconds without progress in training (updates, rows read, tries to reach HDFS) after which a node counts as
    hanging; null: the larger of 60 s and 20 median steps, phase_timeout before there are any."""
    phase_timeout: pydantic.PositiveFloat = 1800
    """Seconds without progress after which a node counts as hanging while it makes its graphs, validates, writes a
    checkpoint or the model, or waits for Spark's rows."""

    ports: Annotated[str, pydantic.AfterValidator(_ports)] | None = None
    """The ports that driver and nodes may listen on, such as 40000-40100; the first that is free is taken. A host needs
    three for each of its nodes, and one for the driver. null: free ones that the system picks."""
    bind: Annotated[str, pydantic.AfterValidator(check_bind)] | None = None
    """The network that driver and nodes listen on: a subnet such as 10.1.0.0/16, or an interface such as eth1, in which
    each host has an address. null: the driver spark.driver.bindAddress, a node its address that leads to the driver.
    TensorFlow's own server (collective: tensorflow) listens on all interfaces whatever this says."""
    tls: bool = False
    """Encrypt what driver and nodes exchange, and the rows that Spark sends them, with certificates made for the run.
    collective: tensorflow is not encrypted whatever this says."""

    @pydantic.field_validator("accumulate")
    @classmethod
    def _parts_have_rows(cls, parts: int, info: pydantic.ValidationInfo) -> int:
        if parts > info.data.get("batch_size", parts):
            raise ValueError(f"must be at most batch_size, {info.data['batch_size']} (is {parts}): parts need rows")
        return parts

    @property
    def network(self) -> Network:
        """Where the run's processes listen."""
        return Network(parse_ports(self.ports) if self.ports else None, self.bind, self.tls)

    @property
    def limits(self) -> Limits:
        """What counts as a hang."""
        return Limits(self.stall_timeout, self.start_timeout, self.phase_timeout, self.queue_timeout)


class TrainConfig(Training):
    """Everything that `train` needs to know."""

    renamed = {"split": "strategy", "transport": "collective", "handoff": "tls"}  # noqa: RUF012 (pydantic knows its type from Config)

    output: str
    """The run's folder: model, checkpoints, run.json, metrics.jsonl, TensorBoard events."""
    nodes: pydantic.PositiveInt | VirtualNodes = 1
    """TensorFlow processes, one per Spark executor (N); `single` has one. {virtual: N}: one process that plays N nodes
    in turn, to see what they would learn; it takes the time of all of them."""
    min_nodes: pydantic.PositiveInt | None = None
    """With how few nodes a run goes on, from its last checkpoint, where after a failure executors for all have not come
    back within start_timeout; once they have, and there is a new checkpoint, it goes on with all. null: never with
    fewer. With strategy: batch the result stays the same within rounding; with others it does not, and run.json says
    so."""
    strategy: Annotated[str, _one_of(STRATEGIES, "a strategy")] = "single"
    """How nodes share the work: single (one node), batch (the nodes share every mini-batch), epoch (each node runs
    every N-th epoch over all rows; gradients are averaged at every step, and the learning rate is N times the given
    one, warmed up over the first epoch), epoch-delayed (like epoch, but each node applies its own gradients at the
    given rate; weights are averaged at the end of each epoch), or local (each node trains on its own rows; weights are
    averaged now and then). Or your own: `package.module:function` or `path/to/file.py:function` that returns a
    sparksplit.strategies.Strategy."""
    local_batch_size: pydantic.PositiveInt | None = None
    """Rows of each node's own mini-batches with strategy: local; null: batch_size div nodes."""
    init: Annotated[str, pydantic.Field(min_length=1)] | None = None
    """A completed run's folder, or a .keras file: the layers of the same name and shapes begin with its weights, the
    others afresh, and so does the optimizer."""
    sync: SyncConfig = SyncConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    early_stop: EarlyStopConfig | None = None
    """End the run when the validation rows show no more improvement, on all nodes after the same update; {} takes the
    defaults of its keys. null: it runs to its last epoch."""
    keep_best: bool | None = None
    """Whether the model gets the weights of the best validation, by early_stop.metric (without early_stop, by the
    loss), instead of the last ones; null: true with early_stop, otherwise false."""
    input_mode: Literal["spark", "tensorflow"] = "tensorflow"
    """tensorflow: each node reads its lanes of the prepared data set itself; spark: Spark reads the training split and
    hands it over, once, to the nodes' local disks. That takes one executor beyond the nodes', or more to be faster."""
    order: Literal["exact", "arrival"] = "exact"
    """exact: training begins when all rows are there; arrival, with input_mode spark: the first epoch trains on rows as
    they arrive, in any order, and a run cannot be resumed in the middle of it."""
    collective: Annotated[str, _one_of(COLLECTIVES, "a collective")] = "auto"
    """What sums gradients over the nodes: auto (the first of these that the nodes can have), shared (memory that they
    share: all on one host), mixed (memory within each host, TCP between hosts), ring (TCP alone), all with the same
    bits; or tensorflow (its collectives: NCCL on GPUs). Or your own: `package.module:function` or
    `path/to/file.py:function` that returns a sparksplit.collectives.Collective."""

    @property
    def virtual(self) -> bool:
        """Whether one process plays all nodes."""
        return isinstance(self.nodes, VirtualNodes)

    @property
    def node_count(self) -> int:
        """N, virtual or not."""
        return self.nodes.virtual if isinstance(self.nodes, VirtualNodes) else self.nodes

    @property
    def feeders(self) -> int:
        """How many executors are needed beyond the nodes', to feed them."""
        return 1 if self.input_mode == "spark" else 0

    @property
    def processes(self) -> int:
        """TensorFlow processes."""
        return 1 if isinstance(self.nodes, VirtualNodes) else self.nodes

    @property
    def keeps_best(self) -> bool:
        """Whether the model gets the weights of the best validation."""
        return self.early_stop is not None if self.keep_best is None else self.keep_best

    @pydantic.model_validator(mode="after")
    def _keys_fit(self) -> TrainConfig:
        if self.order == "arrival" and self.input_mode != "spark":
            raise ValueError("order: arrival needs input_mode: spark; what is read from files has an order already")
        if self.order == "arrival" and self.virtual:
            raise ValueError("order: arrival needs real nodes")
        if self.min_nodes is not None and (self.virtual or self.min_nodes > self.node_count):
            is_now = "virtual" if self.virtual else str(self.node_count)
            raise ValueError(f"min_nodes must be at most nodes, and needs real ones (nodes is {is_now})")
        if not is_own(self.strategy) and (problem := misfit(self, STRATEGIES[self.strategy])):
            raise ValueError(problem)
        return self


def misfit(config: TrainConfig, way: Strategy) -> str | None:
    """What in `config` does not go with its strategy; None if everything does."""
    return next(_misfits(config, way), None)


def _misfits(config: TrainConfig, way: Strategy) -> Iterator[str]:
    if way.alone and config.nodes != 1:
        yield f"nodes must be 1 with strategy: {config.strategy} (is {config.node_count}); batch shares the work"
    if not way.sync.every_step and isinstance(config.checkpoint.every, int):
        yield (
            f"checkpoint.every must be epoch or null with strategy: {config.strategy} (is {config.checkpoint.every}): "
            "within an epoch the nodes differ"
        )
    if not way.sync.every_step and config.optimizer.name.lower() == "ftrl":
        yield (
            f"optimizer.name must be another than ftrl with strategy: {config.strategy}: it computes the weights from "
            "sums of its own, which nodes do not share, so that a step takes back what they have agreed on"
        )
    if not way.settings and config.sync != SyncConfig():
        yield f"sync needs strategy: local; with strategy: {config.strategy} it is settled when nodes agree"
    if not way.split.dealt_apart and config.local_batch_size is not None:
        yield f"local_batch_size needs strategy: local; with strategy: {config.strategy} batch_size says it"
    if config.order == "arrival" and (config.sync.after or not way.split.shared):
        yield f"order: arrival needs nodes that share mini-batches, and strategy: {config.strategy} does not"


NOT_IN_HASH = frozenset(
    (
        "data",
        "init",
        "output",
        "input_mode",
        "ports",
        "bind",
        "tls",
        "readers",
        "cache_mb",
        "checkpoint",
        "max_restarts",
        "min_nodes",
        "queue_timeout",
        "start_timeout",
        "stall_timeout",
        "phase_timeout",
    )
)
"""Keys that cannot change the result, and `data` and `init`, of which the content counts and not the place."""
