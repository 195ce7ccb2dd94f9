"""Where a run trains, and what is in its way there. Without executors, it trains in one process beside the driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hdfs_io.publish import Output
from sparksplit.base.keys import unhashed
from sparksplit.base.progress import say
from sparksplit.spark.executors import slots_of
from sparksplit.spark.session import known_settings
from sparksplit.spark.settings.requirements import granted_cores, has_executors, raise_first, run_problems
from sparksplit.strategies import Strategy
from sparksplit.training.inputs import RunInputs, check_names, hashed_values, strategy_of
from sparksplit.training.own_models import with_compiled
from sparksplit.training.train_config import TrainConfig, VirtualNodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_said: dict[str, str] = {}
"""By application: the last line of `placed`."""


def for_one_process(config: TrainConfig, strategy: Strategy) -> TrainConfig:
    """Return `config` with nodes that one process can play.

    A strategy whose result is the same on any number of nodes gets 1 node. Any other strategy gets virtual nodes, which
    have the arithmetic of real nodes. strategy: of `config`.
    """
    nodes = config.nodes
    if isinstance(nodes, VirtualNodes):
        return config
    # There is no executor to wait for, and none that may be missing.
    played = VirtualNodes(virtual=nodes) if nodes > 1 and not strategy.any_nodes else 1
    return config.model_copy(update={"nodes": played, "min_nodes": None})


def placed(inputs: RunInputs) -> tuple[RunInputs, bool]:
    """Return (the run's inputs as they can run, whether its nodes are on executors).

    Without executors, the inputs are those of one process beside the driver, and a line says what it does. A
    session does not repeat its last such line. The run
    counts as a run with these nodes. So a strategy that depends on the number of nodes has another configuration hash
    than on a cluster, with the same arithmetic.

    Raise ConfigError if the run is to follow a comparison, whose answer is about nodes on executors.
    """
    settings, config = known_settings(), inputs.config
    if has_executors(settings):
        return inputs, True
    alone = beside_driver(config, inputs.strategy, settings)
    line = f"spark.master {settings['spark.master']} has no executors: {told(config, alone)}"
    if _said.get(application := settings.get("spark.app.id", "")) != line:  # a search has many runs in one session
        say(line)
    if application:
        _said[application] = line
    return inputs.changed(alone), False


def beside_driver(config: TrainConfig, strategy: Strategy, settings: Mapping[str, str]) -> TrainConfig:
    """Return `config` as it runs with a master without executors. strategy, errors: as for `placed`.

    settings: of Spark, with its master.
    """
    if config.comparison is not None:
        raise config.error(
            "comparison",
            f"its answer is about nodes on executors, and spark.master {settings['spark.master']} has none; use "
            "local-cluster[2,1,1024], yarn or spark://..., or set the strategy yourself",
        )
    return for_one_process(config, strategy)


def check_before(config: TrainConfig, overwrite: bool) -> None:
    """Raise UsageError for what would be in the way of a run, as far as this is known without its data set: another
    output in its folder, or settings of Spark that its nodes refuse.

    overwrite: whether the run may replace a finished run.
    """
    config, _own = with_compiled(config)
    strategy, settings = strategy_of(config, check_names(config)), known_settings()
    on_executors = has_executors(settings)
    config = config if on_executors else beside_driver(config, strategy, settings)
    values = hashed_values(config, strategy)
    names = {*values, *TrainConfig.model_fields} - unhashed(TrainConfig)
    output = Output(config.output, "", "train", keys=values)
    if output.may_be(() if overwrite else names) and not overwrite:
        return  # the run is finished already, if its rows are the same
    if on_executors:
        # A comparison may recommend fewer nodes than the configuration allows.
        raise_first(run_problems(settings, 1 if config.comparison else config.processes, config.feeders))


def told(config: TrainConfig, alone: TrainConfig) -> str:
    """Return in words what trains. config, alone: before and after for_one_process."""
    if alone.virtual:
        again = "" if config.virtual else f" (nodes: {{virtual: {alone.node_count}}})"
        return f"one process on this machine plays the {alone.node_count} nodes of {config.strategy} in turn{again}"
    if config.node_count == 1:
        return "the node is a process on this machine"
    return f"one process on this machine trains {config.strategy}, with 1 node instead of {config.node_count}"


def threads(config: TrainConfig, spark: SparkSession) -> int:
    """Return the number of threads that TensorFlow uses per operation. Without executors, a node has all cores."""
    settings = dict(spark.sparkContext.getConf().getAll())
    tasks = 1 if has_executors(settings) else slots_of(spark.sparkContext)
    return config.threads or tasks * granted_cores(settings)
