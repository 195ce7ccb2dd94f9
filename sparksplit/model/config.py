"""The keys of a configuration that say which model is trained, by which optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import pydantic

from sparksplit.base.config import Config
from sparksplit.base.errors import ConfigError
from sparksplit.base.user_functions import FunctionError
from sparksplit.model.builders import check_short_name


def _known_model(name: str) -> str:
    if ":" not in name:
        try:
            check_short_name(name)
        except FunctionError as error:
            raise ValueError(str(error)) from error
    return name


class ModelConfig(Config):
    """Which model."""

    build: Annotated[str, pydantic.AfterValidator(_known_model)] = "mlp"
    """mlp, cnn, lstm, tabular or text; or `package.module:function` or `path/to/file.py:function`, which returns an
    uncompiled Keras model."""
    params: dict[str, Any] = pydantic.Field(default_factory=dict)
    """Keyword arguments of that function."""


class OptimizerConfig(Config):
    """A Keras optimizer; further keys are its own arguments, such as momentum or clipnorm."""

    model_config = pydantic.ConfigDict(extra="allow")

    name: str = "sgd"
    """A Keras optimizer by its name: sgd, adam, adadelta, ..."""
    learning_rate: pydantic.PositiveFloat | dict[str, Any] = 0.01
    """A number, or a Keras schedule: {name: CosineDecay, initial_learning_rate: 0.1, decay_steps: 1000}."""


class ModelKeys(Protocol):
    """The keys of a training's configuration that this room reads."""

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
    def dtype(self) -> str: ...
    def error(self, key: str, message: str) -> ConfigError: ...
