"""The user's own model in a configuration: found, and what it was compiled with taken over as keys."""

from __future__ import annotations

from typing import Any, TypeVar

import pydantic

from sparksplit.model import model_identity
from sparksplit.model.compiled import NotAKeyError, same
from sparksplit.model.model_config import OptimizerConfig
from sparksplit.model.own_model import OwnModel, OwnModelError, found, opened
from sparksplit.training.train_config import Training

TrainingT = TypeVar("TrainingT", bound=Training)

_SIXTEEN_BITS = ("mixed_float16", "mixed_bfloat16")


def own_model_of(config: Training, again: bool = False) -> OwnModel | None:
    """Return the user's own model that `config` names; None for a builder. Raise ConfigError if it cannot be used.

    again: read a file even if a running call has read it.
    """
    try:
        return (opened if again else found)(config.model.build, config.model.trust)
    except OwnModelError as error:
        raise config.error("model.build", str(error)) from error


def with_compiled(config: TrainingT) -> tuple[TrainingT, OwnModel | None]:
    """Return `config` with the compiled values and the float type of the user's own model, and the model.

    Keep the model while the configuration is in use, so that its file is read once. A key that the user has set must
    have the model's value. Raise ConfigError if it has another value. The message names both.
    """
    own = own_model_of(config, again=True)
    if own is None or not own.model:
        return config, own
    try:
        compiled = own.compiled
    except NotAKeyError as error:
        raise config.error(error.key, f"{own.name}: {error}") from None
    values: dict[str, Any] = {
        "loss": _agreed(config, "loss", compiled.loss),
        "metrics": _agreed(config, "metrics", compiled.metrics),
        "reduction": _agreed(config, "reduction", compiled.reduction),
        "metric_weights": _agreed(config, "metric_weights", compiled.metric_weights),
        "dtype": _agreed(config, "dtype", _float_type(config, own)),
        "optimizer": None if compiled.optimizer is None else _optimizer(config, compiled.optimizer),
    }
    update = {key: value for key, value in values.items() if value is not None}
    return config.model_copy(update=update), own


def _agreed(config: Training, key: str, compiled: Any) -> Any:
    """Return the model's value for a key; None if the model or the user leaves the key as it is."""
    given = getattr(config, key) if key in config.model_fields_set else None
    if compiled is None or given is None:
        return compiled
    if not same(given, compiled):
        raise config.error(key, _differs(given, compiled))
    return None


def _optimizer(config: Training, compiled: dict[str, Any]) -> OptimizerConfig:
    given = config.optimizer.model_dump(exclude_unset=True) if "optimizer" in config.model_fields_set else {}
    for key, value in given.items():
        if not same(value, compiled.get(key)):
            raise config.error(f"optimizer.{key}", _differs(value, compiled.get(key)))
    try:
        return OptimizerConfig.model_validate(compiled)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, ("optimizer", *first["loc"][:1])))
        raise config.error(key, f"the compiled model has {first['input']!r}: {first['msg']}") from None


def _differs(given: Any, compiled: Any) -> str:
    return f"is {given}, but the model has {compiled}; leave out the key, or change the model"


def _float_type(config: Training, own: OwnModel) -> str | None:
    """Return the key `dtype` of a model; None if no layer says one."""
    policies = model_identity.policies(own.config)
    mixed = [name for name in _SIXTEEN_BITS if name in policies]
    others = policies - {*mixed} - ({"float32"} if mixed else set())
    if len(mixed) + len(others) > 1 or others - {"float32", "float64"}:
        raise config.error(
            "model.build",
            f"{own.name} has layers of {', '.join(sorted(policies))}; all layers must have one of float32, float64, "
            "mixed_bfloat16, mixed_float16",
        )
    return next(iter((*mixed, *others)), None)
