"""The configuration of the model and the optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import pydantic

from sparksplit.base.config import Config, Origin
from sparksplit.base.errors import ConfigError
from sparksplit.base.user_functions import FunctionError
from sparksplit.model.builders import check_short_name
from sparksplit.model.own_model import SUFFIX


def _known_model(name: str) -> str:
    if ":" not in name and not name.endswith(SUFFIX):
        try:
            check_short_name(name)
        except FunctionError as error:
            raise ValueError(str(error)) from error
    return name


class ModelConfig(Config):
    """The model to train."""

    build: Annotated[str, pydantic.AfterValidator(_known_model)] = "mlp"
    """Model to train: mlp, cnn, lstm, tabular or text. Your own: `package.module:function` or
    `path/to/file.py:function` that returns a Keras model, or a `path/to/model.keras` file. Training begins with the
    weights in the file."""
    params: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Keyword arguments for the function that `model.build` names."""
    trust: Annotated[bool, pydantic.Field(exclude=True)] = False
    """Run Python code in the `.keras` file that `model.build` names, although the file may be another user's. Such code
    belongs to a Lambda layer."""


class OptimizerConfig(Config):
    """A Keras optimizer. Further keys are arguments of the optimizer, such as momentum or clipnorm."""

    model_config = pydantic.ConfigDict(extra="allow")

    name: str = "sgd"
    """Keras optimizer: sgd, adam, adadelta, ... Its other arguments are further keys, such as optimizer.momentum or
    optimizer.clipnorm."""
    learning_rate: pydantic.PositiveFloat | dict[str, Any] = 0.01
    """Learning rate: a number, or a Keras schedule such as {name: CosineDecay, initial_learning_rate: 0.1, decay_steps:
    1000}."""


class ModelKeys(Protocol):
    """The keys of the training configuration that sparksplit.model reads."""

    @property
    def model(self) -> ModelConfig: ...
    @property
    def optimizer(self) -> OptimizerConfig: ...
    @property
    def loss(self) -> str | dict[str, Any] | None: ...
    @property
    def metrics(self) -> Sequence[str] | None: ...
    @property
    def class_weights(self) -> str | Mapping[str, float] | None: ...
    @property
    def metric_weights(self) -> bool: ...
    @property
    def dtype(self) -> str: ...
    @property
    def origin(self) -> Origin: ...
    def error(self, key: str, message: str) -> ConfigError: ...
