"""The configuration of `train`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

import pydantic

from sparksplit.base.config import Config
from sparksplit.base.errors import did_you_mean
from sparksplit.base.keys import SAFE, SAFE_SHARED, SAFE_TIMED, SAFE_TIMED_SHARED, Mark, keys_of
from sparksplit.base.user_functions import is_own
from sparksplit.cluster.deadlines import Limits
from sparksplit.collectives import COLLECTIVES
from sparksplit.model.model_config import ModelConfig, OptimizerConfig
from sparksplit.network.listening import Network, check_bind, parse_ports
from sparksplit.prepare.preprocess_config import Paths
from sparksplit.spark.waiting import QUEUE_SECONDS, START_SECONDS
from sparksplit.strategies import STRATEGIES, Strategy
from sparksplit.strategies.sync_config import SyncConfig

EQUAL_PASSES = "is for train: runs are compared at equal passes, by their last weights"
_ALL_NODES = "is for train: a run of a comparison always has all of its nodes"
_NO_MODEL = "is for train: a comparison writes no models"
_OWN_RUNS = "is for train: a comparison decides by its own runs"
_NO_CHECKPOINTS = "is for train: a run of a comparison writes no checkpoints, and restarts from its beginning"


def _one_of(table: Collection[str], what: str) -> pydantic.AfterValidator:
    """Check that a name is in the table or names a function. what: the function's result, such as `a strategy`."""

    def check(name: str) -> str:
        if name not in table and not is_own(name):
            raise ValueError(unknown(name, table, what))
        return name

    return pydantic.AfterValidator(check)


def unknown(name: str, table: Collection[str], what: str) -> str:
    """Return the error text for a name that is not in the table. what: as in `_one_of`."""
    known, hint = ", ".join(table), did_you_mean(name, table)
    return f"must be one of {known}, or a function that returns {what} (is {name!r}){hint}"


def _by_name(weights: Any) -> Any:
    """Weights by class name as text. YAML may have read a name as a number, true or false."""
    if not isinstance(weights, dict):
        return weights
    return {str(name).lower() if isinstance(name, bool) else str(name): weight for name, weight in weights.items()}


def _ports(text: str) -> str:
    parse_ports(text)
    return text


class CheckpointConfig(Config):
    """When a run writes checkpoints. A run always writes a checkpoint at its end."""

    seconds: pydantic.PositiveFloat | None = 60
    """Seconds between two checkpoints. Training goes on while a checkpoint is written. The nodes write the checkpoint
    at their next common step or sync, but never before the previous checkpoint is complete. null: only the checkpoints
    of `checkpoint.every`."""
    every: Literal["epoch"] | pydantic.PositiveInt | None = None
    """Extra checkpoints. `epoch` writes a checkpoint at the end of each epoch; a number writes a checkpoint after every
    this many updates. Training waits if the previous checkpoint is still being written. With strategies epoch-delayed
    and local, only `epoch` is possible. null: no extra checkpoints."""
    keep: pydantic.PositiveInt = 3
    """Number of recent checkpoints to keep. One older checkpoint is kept too, if only that checkpoint can be resumed
    with another number of nodes."""
    grace: pydantic.NonNegativeFloat = 10
    """Seconds for a last checkpoint after Ctrl-C or SIGTERM. If the nodes need longer, the run can resume only from the
    checkpoint before. At most 8 s are used in cluster deploy mode, or if a node gets the signal. A second signal ends
    the run at once."""


class EarlyStopConfig(Config):
    """When a run ends before its last epoch."""

    metric: str = "loss"
    """Metric to watch on the validation rows: `loss`, or one of `metrics`."""
    patience: pydantic.PositiveInt = 3
    """End the run after this many validations without an improvement. The run validates at the end of each epoch. With
    strategies epoch and epoch-delayed, the run validates after each round of N epochs on N nodes."""
    min_delta: pydantic.NonNegativeFloat = 0.0
    """Smallest improvement that counts. The metric must be better than at the last improvement by more than this."""
    mode: Literal["min", "max"] | None = None
    """Whether lower (min) or higher (max) values of the metric are better. null: derived from the metric. Required if
    the metric does not define a direction."""


class VirtualNodes(Config):
    """Virtual nodes: one process plays several nodes in turn, with the arithmetic of real nodes."""

    virtual: pydantic.PositiveInt
    """Number of virtual nodes. One process computes all of them in turn, so no cluster is needed."""


class Training(Config):
    """The keys that `train` and `compare` share."""

    data: Annotated[Paths, Mark(hashed=False, shared=True)]
    """Prepared data set: the output folder of `preprocess`. A list of folders, or a pattern such as `days/ds=*`, trains
    on several data sets as one."""
    model: ModelConfig = ModelConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    loss: str | dict[str, Any] | None = None
    """Keras loss: a name, or {name: ..., argument: ...}. null: sparse_categorical_crossentropy for classes,
    mean_squared_error for numbers. For a model with one output for two classes, null means binary_crossentropy."""
    metrics: list[str] | None = None
    """Metrics to compute: names of Keras metrics, or auc (two classes), precision, recall, f1, mae, rmse, r2. With two
    classes, precision, recall and f1 describe the second class. With more classes, precision, recall and f1 are means
    over the classes. null: accuracy for classes, mean_absolute_error for numbers."""
    class_weights: Annotated[
        Literal["balanced"] | dict[str, pydantic.NonNegativeFloat] | None, pydantic.BeforeValidator(_by_name)
    ] = None
    """Weight of a training row, by its class. `balanced` gives all classes the same total weight. A mapping such as
    {fraud: 10} sets weights by label, and other labels get 1. Weights of the rows themselves are multiplied with the
    class weights. Validation and test ignore class weights. null: no class weights."""
    reduction: Literal["mean_with_sample_weight", "sum_over_batch_size"] = "mean_with_sample_weight"
    """What the loss and the gradients of a mini-batch are divided by, if rows have weights. The names are Keras's.
    mean_with_sample_weight: the sum of its rows' weights. sum_over_batch_size: the number of its rows, as in Keras's
    `fit`. Without weights, both are the same."""
    metric_weights: bool = True
    """Whether the weights of rows and classes count in the metrics too. false: each row counts once in the metrics, as
    in the `metrics` of Keras's `compile`. The loss always uses the weights."""
    batch_size: pydantic.PositiveInt = 64
    """Global batch size: rows of one mini-batch (B). With strategies epoch and epoch-delayed, each of the N nodes has
    its own mini-batch of B rows. With epoch, one update averages the gradients of N mini-batches."""
    accumulate: pydantic.PositiveInt = 1
    """Gradient accumulation: each node splits its share of a mini-batch into this many micro-batches, to save memory.
    The nodes still exchange and update once per mini-batch. The result is the same up to rounding, except with
    BatchNorm or Dropout."""
    epochs: Annotated[pydantic.PositiveInt, Mark(shared=True)] = 10
    """Number of epochs: passes of all nodes together over the training split. Strategies epoch and epoch-delayed round
    up to a multiple of the number of nodes."""
    readers: Annotated[pydantic.NonNegativeInt, SAFE_TIMED] = 1
    """Data loader threads per node. They read ahead and assemble mini-batches. 0: no threads, and each step waits for
    its rows."""
    transform: str | None = None
    """Your own function that changes training rows when they are read: `package.module:function` or
    `path/to/file.py:function`. f(tensors, label, seeds) returns (tensors, label). `seeds` holds one uint64 per row,
    made from row_id, seed and epoch."""
    window: pydantic.PositiveInt | None = None
    """Shuffle window: the rows of this many blocks per lane are shuffled together. A node holds up to three windows of
    each of its lanes in memory. null: 4, or fewer if two windows of all lanes would take more than 384 MiB, but at
    least 1."""
    cache_mb: Annotated[pydantic.NonNegativeInt, SAFE_TIMED] = 512
    """Memory of each node for rows, in MiB. A node whose rows fit keeps its rows in memory. Otherwise the node reads
    its rows again in every epoch."""
    dtype: Literal["float32", "float64", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras float type, or a Keras mixed precision policy: mixed_bfloat16 or mixed_float16. With mixed precision,
    layers compute in 16 bits, and weights, losses and sums have 32 bits. mixed_float16 scales the loss, and adjusts the
    scale by itself. All nodes that share an update skip the update if its gradients overflow."""
    device: Annotated[Literal["auto", "cpu"], Mark(shared=True)] = "auto"
    """Device that the nodes compute on. auto: the GPU that Spark assigns to the node, otherwise the CPU. cpu: the CPU,
    even if there is a GPU."""
    jit_compile: bool = False
    """Compile the model's forward and backward pass with XLA. Compilation takes seconds for each different number of
    rows that a node can have in a mini-batch. The last bits of the results differ from a run without XLA."""
    deterministic: Annotated[bool, Mark(shared=True)] = True
    """Use only operations that give the same bits each time. false: also use operations without a deterministic kernel.
    The same run may then give different bits, also after a restart."""
    threads: Annotated[pydantic.NonNegativeInt, Mark(shared=True)] = 0
    """TensorFlow threads per operation on each node. 0: the cores that Spark grants to the node's task
    (spark.task.cpus); all cores of a master without executors. Another number may change the last bits of the
    results."""
    seed: Annotated[pydantic.NonNegativeInt, Mark(shared=True)] = 1
    """Random seed of the initial weights, the order of rows, the transform and Dropout."""
    max_restarts: Annotated[pydantic.NonNegativeInt, SAFE] = 3
    """Maximum number of automatic restarts from the last checkpoint, after a node, disk or network failure. A single
    run within `compare` restarts from its own beginning. The counter resets after ten minutes without a failure, if a
    checkpoint was written since then. Errors in your code or configuration are never retried."""
    queue_timeout: Annotated[pydantic.PositiveFloat, SAFE_SHARED] = QUEUE_SECONDS
    """Seconds to wait until the cluster has granted all executors, for example in a busy queue."""
    start_timeout: Annotated[pydantic.PositiveFloat, SAFE_SHARED] = START_SECONDS
    """Seconds to wait for executors and nodes to start, after the cluster has granted the executors. A host without a
    copy of the environment's archive takes minutes to fetch the archive. The limit also ends a node that makes no
    progress during its start."""
    stall_timeout: Annotated[pydantic.PositiveFloat | None, SAFE_SHARED] = None
    """Seconds without progress in training after which a node counts as hanging. Updates, rows read and attempts to
    reach HDFS are progress. null: 60 s or 20 median steps, whichever is longer. Before the first steps, null means
    `phase_timeout`."""
    phase_timeout: Annotated[pydantic.PositiveFloat, SAFE_SHARED] = 1800
    """Seconds without progress after which a node counts as hanging outside training steps. The limit covers building
    graphs, validation, writing a checkpoint or the model, and waiting for Spark's rows."""

    ports: Annotated[Annotated[str, pydantic.AfterValidator(_ports)] | None, SAFE_SHARED] = None
    """Ports that the driver and the nodes may listen on, such as 40000-40100. Each process takes the first free ports.
    A host needs three ports for each of its nodes, and one port for the driver. null: free ports that the system
    picks."""
    bind: Annotated[Annotated[str, pydantic.AfterValidator(check_bind)] | None, SAFE_TIMED_SHARED] = None
    """Network that the driver and the nodes listen on: a subnet such as 10.1.0.0/16, or an interface such as eth1. Each
    host needs an address in this network. null: the driver uses spark.driver.bindAddress, and a node uses its address
    that leads to the driver. The server of `collective: tensorflow` always listens on all interfaces."""
    tls: Annotated[bool, SAFE_TIMED_SHARED] = False
    """Encrypt the traffic between driver and nodes, and the rows that Spark sends to the nodes. Each run makes its own
    certificates. `collective: tensorflow` is never encrypted."""

    mlflow: Annotated[bool | None, Mark(hashed=False, shared=True)] = None
    """Send parameters, metrics and tags to MLflow, and the model of `train` or the report of `compare`.
    MLFLOW_TRACKING_URI and MLflow's other environment variables apply. null: only if the calling Python program has an
    active MLflow run. The command goes on if the server is away. Needs the extra `mlflow`."""

    @pydantic.field_validator("accumulate")
    @classmethod
    def _parts_have_rows(cls, parts: int, info: pydantic.ValidationInfo) -> int:
        if parts > info.data.get("batch_size", parts):
            raise ValueError(
                f"must be at most batch_size, {info.data['batch_size']} (is {parts}): each micro-batch needs rows"
            )
        return parts

    @property
    def network(self) -> Network:
        """The network that the run's processes listen on."""
        return Network(parse_ports(self.ports) if self.ports else None, self.bind, self.tls)

    @property
    def limits(self) -> Limits:
        """The time limits for nodes and executors."""
        return Limits(self.stall_timeout, self.start_timeout, self.phase_timeout, self.queue_timeout)


class TrainConfig(Training):
    """All keys of `train`."""

    refused = {  # noqa: RUF012
        "order": "is gone: nodes train once all rows have arrived; remove the key",
        "callbacks": "is for Python: sparksplit.train(..., callbacks=[...])",
        "search": "is for `sparksplit search`, which reads this file",
    }

    output: Annotated[str, Mark(hashed=False, shared=True)]
    """Output folder of the run: model, checkpoints, run.json, metrics.jsonl and TensorBoard events."""
    nodes: Annotated[pydantic.PositiveInt | VirtualNodes, Mark(shared=True)] = 1
    """Number of nodes (N). A node is one TensorFlow process, on one Spark executor. `strategy: single` needs 1 node.
    `strategy: auto` uses at most N nodes. {virtual: N} plays N nodes in one process, to show what N nodes would learn.
    The process takes the time of all N nodes."""
    min_nodes: Annotated[pydantic.PositiveInt | None, replace(SAFE, refused=_ALL_NODES)] = None
    """Smallest number of nodes that a run may use. If executors are missing after `start_timeout`, the run goes on with
    fewer nodes, from its last checkpoint. All nodes join again once their executors are there and a new checkpoint is
    written. null: never fewer than `nodes`. With `strategy: batch`, the result stays the same up to rounding. With
    other strategies the result changes, and run.json records the nodes."""
    strategy: Annotated[str, _one_of(STRATEGIES, "a strategy")] = "single"
    """How the nodes share the work. single: one node. batch: the nodes share every mini-batch. epoch: each of N nodes
    runs every N-th epoch over all rows. Gradients are averaged at every step. The learning rate is multiplied by N,
    with a warm-up over the first epoch. epoch-delayed: like epoch, but each node applies its own gradients, with the
    given learning rate. Weights are averaged at the end of each epoch. local: each node trains on its own rows. Weights
    are averaged every `sync.every` steps and at the end of each epoch. auto: measures a step before the first update,
    and then trains as `single`, or as `batch` on as many of the `nodes` as pay. Your own: `package.module:function` or
    `path/to/file.py:function` that returns a sparksplit.strategies.Strategy."""
    comparison: Annotated[
        Annotated[str, pydantic.Field(min_length=1)] | None, Mark(hashed=False, refused=_OWN_RUNS)
    ] = None
    """With `strategy: auto`: output folder of a finished `compare` of this data set and model. The run takes the
    strategy, the number of nodes and the other keys that its answer recommends, and measures nothing. An undecided
    answer, or an answer about other keys, is refused. null: auto measures, and chooses between `single` and `batch`."""
    local_batch_size: Annotated[pydantic.PositiveInt | None, Mark(within=True)] = None
    """Rows of each node's own mini-batches with `strategy: local`. null: `batch_size` divided by the number of nodes,
    rounded down, at least 1."""
    init: Annotated[Annotated[str, pydantic.Field(min_length=1)] | None, Mark(hashed=False, within=True)] = None
    """Initial weights: the output folder of a completed run, or a .keras file. Layers with the same name and shapes
    take these weights. Other layers and the optimizer start fresh."""
    sync: Annotated[SyncConfig, Mark(within=True)] = SyncConfig()
    checkpoint: Annotated[CheckpointConfig, replace(SAFE, refused=_NO_CHECKPOINTS)] = CheckpointConfig()
    early_stop: Annotated[EarlyStopConfig | None, Mark(refused=EQUAL_PASSES)] = None
    """Early stopping: end the run when the validation metric no longer improves. All nodes stop after the same update.
    {} uses the defaults of all `early_stop` keys. null: no early stopping."""
    keep_best: Annotated[bool | None, Mark(refused=EQUAL_PASSES)] = None
    """Use the weights of the best validation, instead of the last weights, for the test and the exported model.
    `early_stop.metric` decides which validation is best; without `early_stop`, the loss decides. null: true with
    `early_stop`, otherwise false."""
    input_mode: Annotated[Literal["spark", "tensorflow"], SAFE_TIMED_SHARED] = "tensorflow"
    """How training rows reach the nodes. tensorflow: each node reads its own part (lanes) of the prepared data set.
    spark: Spark reads the training split and sends the rows once, to the nodes' local disks. spark needs at least one
    executor more than there are nodes. Further executors make sending faster."""
    collective: Annotated[str, _one_of(COLLECTIVES, "a collective"), Mark(within=True, timed=True)] = "auto"
    """How the nodes sum gradients and weights. auto: the first of shared, mixed and ring that the nodes can use.
    shared: shared memory, for nodes on one host. mixed: shared memory within each host, TCP between hosts. ring: TCP
    only. All of these give the same bits. tensorflow: TensorFlow's own collectives (NCCL on GPUs). Your own:
    `package.module:function` or `path/to/file.py:function` that returns a sparksplit.collectives.Collective."""

    export: Annotated[Literal["onnx"] | None, Mark(hashed=False, refused=_NO_MODEL)] = None
    """Another format to write the trained model in, besides model.keras and saved_model/. onnx: the file model.onnx,
    with the fitted preprocessing. A complete run gets the file without training again. Needs the extra `onnx`."""

    @property
    def timing(self) -> dict[str, Any]:
        """The keys that change how long the run takes, except keys that have their default value."""
        keys = set(keys_of(TrainConfig, lambda mark: mark.timed))
        return self.model_dump(mode="json", include=keys, exclude_defaults=True)

    @property
    def virtual(self) -> bool:
        """Whether one process plays all nodes."""
        return isinstance(self.nodes, VirtualNodes)

    @property
    def node_count(self) -> int:
        """Number of nodes (N), real or virtual."""
        return self.nodes.virtual if isinstance(self.nodes, VirtualNodes) else self.nodes

    @property
    def feeders(self) -> int:
        """Number of executors that feed the nodes, in addition to the nodes' own executors."""
        return 1 if self.input_mode == "spark" else 0

    @property
    def processes(self) -> int:
        """Number of TensorFlow processes."""
        return 1 if isinstance(self.nodes, VirtualNodes) else self.nodes

    @property
    def keeps_best(self) -> bool:
        """Whether the model gets the weights of the best validation."""
        return self.early_stop is not None if self.keep_best is None else self.keep_best

    @pydantic.model_validator(mode="after")
    def _keys_fit(self) -> TrainConfig:
        if self.min_nodes is not None and (self.virtual or self.min_nodes > self.node_count):
            is_now = "virtual" if self.virtual else str(self.node_count)
            raise ValueError(f"min_nodes must be at most nodes, and needs real nodes (nodes is {is_now})")
        if not is_own(self.strategy) and (problem := misfit(self, STRATEGIES[self.strategy])):
            raise ValueError(problem)
        return self


def misfit(config: TrainConfig, strategy: Strategy) -> str | None:
    """The first key of `config` that does not fit its strategy, as an error text; None if all keys fit."""
    return next(_misfits(config, strategy), None)


def _misfits(config: TrainConfig, strategy: Strategy) -> Iterator[str]:
    if strategy.alone and config.node_count != 1:
        yield f"nodes must be 1 with strategy: {config.strategy} (is {config.node_count}); strategy: batch uses several"
    if strategy.chooses and config.virtual:
        yield f"nodes must be a number with strategy: {config.strategy}; on virtual nodes there is no time to measure"
    if strategy.chooses and config.min_nodes is not None:
        yield f"min_nodes must be null with strategy: {config.strategy}; strategy: batch goes on with fewer nodes"
    if not strategy.sync.every_step and isinstance(config.checkpoint.every, int):
        yield (
            f"checkpoint.every must be epoch or null with strategy: {config.strategy} (is {config.checkpoint.every}): "
            "within an epoch the nodes have different weights"
        )
    if not strategy.sync.every_step and config.optimizer.name.lower() == "ftrl":
        yield (
            f"optimizer.name must not be ftrl with strategy: {config.strategy}: it computes the weights from its own "
            "sums of gradients, so each step would undo the average of the nodes"
        )
    if not strategy.settings and config.sync != SyncConfig():
        yield f"sync needs strategy: local; with strategy: {config.strategy} the sync is fixed"
    if not strategy.split.dealt_apart and config.local_batch_size is not None:
        yield f"local_batch_size needs strategy: local; with strategy: {config.strategy} set batch_size"
