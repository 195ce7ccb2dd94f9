"""The inputs of a run, checked before anything starts, and the hash of all inputs that can change the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hdfs_io.differences import content
from hdfs_io.fence import Fence
from sparksplit.base.config import digest
from sparksplit.base.keys import unhashed
from sparksplit.base.user_functions import FunctionError, is_own, source_of, split_name
from sparksplit.collectives import bits_of
from sparksplit.dataset.joined import open_joined
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.model import keras_names, needs
from sparksplit.model.builders import builder_source
from sparksplit.model.description import data_description
from sparksplit.model.graphs import class_weights
from sparksplit.model.own_model import OwnModel, is_own_model
from sparksplit.strategies import Strategy, find
from sparksplit.strategies.splits import check_epochs, check_rounds, owned_by_rank
from sparksplit.training import onnx_file
from sparksplit.training.callbacks.given import Given, Ready
from sparksplit.training.initial import Initial
from sparksplit.training.own_models import own_model_of
from sparksplit.training.stopping import watch_of
from sparksplit.training.train_config import TrainConfig, misfit

_ADDED = {
    "early_stop": None,
    "keep_best": False,
    "class_weights": None,
    "reduction": "mean_with_sample_weight",
    "metric_weights": True,
    "accumulate": 1,
    "device": "auto",
    "jit_compile": False,
    "deterministic": True,
    "threads": 0,
}
"""Keys that are left out of the hash if they have these values, which change nothing. Runs from before these keys
existed keep their hashes."""


@dataclass(frozen=True)
class RunInputs:
    """A run's configuration, and the data, user's files, strategy and initial weights that it names.

    sources: the text of the user's files, by the key that names the file.
    has_frame: whether a DataFrame replaces the training rows.
    own: the user's own model; None for a builder.
    callbacks: the callbacks that node 0 runs; None without callbacks.
    given: the user's callbacks, of which `callbacks` are made.
    """

    config: TrainConfig
    data: PreparedDataSet
    sources: Mapping[str, str]
    strategy: Strategy
    has_frame: bool = False
    initial: Initial | None = None
    own: OwnModel | None = None
    callbacks: Ready | None = None
    given: Given | None = None

    @classmethod
    def of(
        cls, config: TrainConfig, data: PreparedDataSet, has_frame: bool = False, given: Given | None = None
    ) -> RunInputs:
        """Return what `config` names. given: the run's callbacks. Raise UsageError if something does not exist, or does
        not fit the rest."""
        own = own_model_of(config)
        if own is not None and own.model and config.init is not None:
            raise config.error("init", f"{config.model.build} has weights already; leave out one of the two")
        sources = check_names(config)
        told = data_description(data.description, data.manifest.splits["train"].rows)
        needs.check(config, sources.get("model.build"), told, own)
        callbacks = None if given is None else given.ready(config, data.manifest)
        may_stop = callbacks is not None and callbacks.sent.change
        strategy = _strategy(config, sources, data, may_stop)
        class_weights.of(config, data.manifest)
        watch_of(config, data.manifest)
        onnx_file.check(config, data.description)
        return cls(config, data, sources, strategy, has_frame, Initial.of(config), own, callbacks, given)

    def changed(self, config: TrainConfig) -> RunInputs:
        """Return the inputs of the same run with another configuration. Raise UsageError as `of` does."""
        return RunInputs.of(config, self.data, self.has_frame, self.given)

    @property
    def paths(self) -> dict[str, str]:
        """The paths that the run reads, by the key that names them."""
        functions = _functions(self.config)
        files = {key: split_name(functions[key])[0] for key in self.sources}
        paths = self.data.paths
        data = {"data" if len(paths) == 1 else f"data.{place}": path for place, path in enumerate(paths)}
        named = {"init": self.config.init, "comparison": self.config.comparison}
        given = {key: path for key, path in named.items() if path is not None}
        if self.own is not None and self.own.kind == "file":
            files["model.build"] = self.own.name
        return {**data, **given, **files, **self.config.own_file}

    def sent(self, fence: Fence | None) -> dict[str, str]:
        """Return `sources` for the nodes, with the user's own model (`OwnModel.sent`)."""
        own = {} if self.own is None else {"model.build": self.own.sent(fence)}
        return {**self.sources, **own}

    def hash(self, nodes: int | dict[str, int] | None = None) -> str:
        """The hash of everything that can change the run's result. nodes: replaces the configuration's."""
        hashed = {
            "command": "train",
            "config": hashed_values(self.config, self.strategy, nodes),
            "data": self.data.digest,
        }
        hashed["sources"] = dict(self.sources)
        if self.initial is not None:
            hashed["init"] = self.initial.digest
        if self.own is not None:
            hashed["own_model"] = self.own.identity
        if self.callbacks is not None and self.callbacks.identity is not None:
            hashed["callbacks"] = self.callbacks.identity
        return digest({**hashed, "frame": True} if self.has_frame else hashed)

    @property
    def keys(self) -> dict[str, Any]:
        """The hashed values by the configuration's keys, for `differences`."""
        frame = {"the rows' DataFrame": True} if self.has_frame else {}
        return {**hashed_values(self.config, self.strategy), **self.contents, **frame}

    @property
    def contents(self) -> dict[str, Any]:
        """The part of `keys` that is not a value of the configuration."""
        init = {} if self.initial is None else {"init": content(self.initial.digest)}
        changing = None if self.callbacks is None else self.callbacks.identity
        callbacks = {} if changing is None else {"callbacks that change training": content(changing)}
        files = {f"{key}'s file": content(digest(text)) for key, text in self.sources.items()}
        if self.own is not None and self.own.kind == "file":
            files["model.build's file"] = content(self.own.identity)
        return {"data": content(self.data.digest), **init, **callbacks, **files}

    def hashes(self) -> set[str]:
        """Return the hashes of the same run on every number of nodes, real and virtual."""
        numbers = range(1, self.data.manifest.lanes + 1)
        return {self.hash(nodes) for nodes in (*numbers, *({"virtual": number} for number in numbers))}


def hashed_values(config: TrainConfig, strategy: Strategy, nodes: int | dict[str, int] | None = None) -> dict[str, Any]:
    """Return the configuration's values that can change the run's result. strategy: of `config`. nodes: as for
    `RunInputs.hash`."""
    values = config.model_dump(mode="json", exclude=unhashed(TrainConfig))
    values["order"] = "exact"  # a removed key, so that runs keep their hashes
    values["keep_best"] = config.keeps_best
    values["class_weights"] = config.class_weights or None
    values["collective"] = bits_of(config.collective)
    values = {key: value for key, value in values.items() if key not in _ADDED or value != _ADDED[key]}
    if strategy.any_nodes:
        del values["nodes"]
    elif nodes is not None:
        values["nodes"] = nodes
    return values


def check_names(config: TrainConfig) -> dict[str, str]:
    """Return the text of the user's functions that are in files, by the key that names them.

    Raise ConfigError for a name or an argument that Keras does not accept, as far as this is known without Keras. Raise
    ConfigError for a missing file.
    """
    sources = _sources(config)
    own = own_model_of(config)
    keras_names.check(config, sources, () if own is None else own.names)
    return sources


def is_flag(name: str) -> bool:
    """Return whether an argument of Keras's optimizers or schedules is true or false, as far as this is known without
    Keras."""
    return name in keras_names.flags()


def open_data(config: TrainConfig) -> PreparedDataSet:
    """Return a run's data set. Raise UsageError if it cannot be trained on, or not by this number of nodes."""
    data = open_joined(config.data)
    manifest = data.manifest
    if len(data.paths) > 1 and config.input_mode == "spark":
        raise config.error(
            "input_mode", "must be tensorflow with several data sets, because the nodes put their rows in order"
        )
    if not manifest.splits["train"].rows:
        raise config.error("data", f"{data.path}: the training split has no rows")
    if manifest.label is None:
        raise config.error("data", f"{data.path}: has no label; prepare it with input.label")
    classes = manifest.label.classes
    if classes is not None and len(classes) < 2:
        raise config.error("data", f"{data.path}: all labels are {classes[0]!r}; prepare rows of two classes or more")
    weights = manifest.weights("train")
    if weights is not None and weights.max == 0:
        raise config.error("data", f"{data.path}: all rows of the training split have the weight 0")
    if config.node_count > manifest.lanes:
        raise config.error(
            "nodes",
            f"{config.node_count} nodes are more than the data set's {manifest.lanes} lanes; use fewer nodes, or "
            "prepare it with more lanes",
        )
    return data


def _functions(config: TrainConfig) -> dict[str, str]:
    """Return the functions in the configuration that may be the user's own, by the key that names them."""
    functions = {} if is_own_model(config.model.build) else {"model.build": config.model.build}
    if config.transform is not None:
        functions["transform"] = config.transform
    tables = {"strategy": config.strategy, "collective": config.collective}
    return {**functions, **{key: name for key, name in tables.items() if is_own(name)}}


def _sources(config: TrainConfig) -> dict[str, str]:
    """Return the text of the user's functions that are in files, by the key that names them."""
    sources = {}
    for key, name in _functions(config).items():
        try:
            text = builder_source(name) if key == "model.build" else source_of(name)
        except FunctionError as error:
            raise config.error(key, str(error)) from error
        if text is not None:
            sources[key] = text
    return sources


def strategy_of(config: TrainConfig, sources: Mapping[str, str]) -> Strategy:
    """Return a run's strategy. Raise ConfigError if it does not exist, or does not fit other keys.

    sources: as in RunInputs.
    """
    try:
        strategy = find(config.strategy, sources.get("strategy"))
    except FunctionError as error:
        raise config.error("strategy", str(error)) from error
    if problem := misfit(config, strategy):
        raise config.error("strategy", problem)
    return strategy


def _strategy(config: TrainConfig, sources: Mapping[str, str], data: PreparedDataSet, may_stop: bool) -> Strategy:
    """As `strategy_of`. Also raise ConfigError if the strategy leaves out rows of `data`.

    may_stop: whether a callback may end the run before its last epoch.
    """
    strategy = strategy_of(config, sources)
    if data.manifest.order == "given" and strategy.split.every_row and config.node_count > 1:
        raise config.error(
            "strategy",
            f"must not be {config.strategy} on several nodes with order: given, because all nodes would train on the "
            "same mini-batches; use batch or local",
        )
    try:
        check_split(config, strategy, data.manifest.lanes, may_stop)
    except Exception as error:  # a user's own split may fail in any way
        raise config.error("strategy", f"its split does not fit the data: {type(error).__name__}: {error}") from error
    return strategy


def check_split(config: TrainConfig, strategy: Strategy, lanes: int, may_stop: bool = False) -> None:
    """Raise ValueError if the split of `strategy` leaves out rows or epochs on the nodes of `config`. A user's own
    split may raise any error.

    may_stop: whether the run may end before its last epoch, also without `early_stop`.
    """
    owned_by_rank(strategy.split, lanes, config.node_count)
    check_epochs(strategy.split, config.epochs, config.node_count)
    if may_stop or config.early_stop is not None:
        check_rounds(strategy.split, config.epochs, config.node_count)
