"""Keras's optimizers, losses and metrics that a call gives as objects, as values of the configuration's keys.

It imports Keras only if a call gives an object. An object becomes the keys that a compiled model with it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any

from sparksplit.base.config import nested
from sparksplit.base.errors import ConfigError
from sparksplit.model.compiled import NotAKeyError, loss_key, metric_key, optimizer_keys, rate_key, reduction_key

_PLAIN = (str, Number, Mapping, list, tuple, type(None))


def as_keys(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a call, nested, with plain values instead of objects of Keras.

    given: keys by their names, also dotted. `optimizer` may be a keras.optimizers.Optimizer, its `learning_rate` a
        schedule, `loss` a keras.losses.Loss or a function of Keras, and `metrics` may hold objects and functions.

    Raise ConfigError for an object that has no key, for an object of the user's own, and for a section that is a text
    or a number while one of its keys is given too.
    """
    values = dict(given)
    try:
        if not isinstance(values.get("optimizer"), _PLAIN):
            values["optimizer"] = optimizer_keys(_written(values["optimizer"], "optimizer"))
        if not isinstance(values.get("loss"), _PLAIN):
            values |= _of_loss(values["loss"], values.get("reduction"))
        metrics = values.get("metrics")
        if isinstance(metrics, list | tuple):
            values["metrics"] = [
                each if isinstance(each, str) else metric_key(_written(each, "metrics")) for each in metrics
            ]
        for key in values:
            section, dotted, _ = key.partition(".")
            if dotted and not isinstance(whole := values.get(section), Mapping | None):
                raise ConfigError(f"{section}: is {whole!r}, but {key} is given too; give {section} as a mapping")
        values = nested(values)
        optimizer = values.get("optimizer")
        if isinstance(optimizer, Mapping) and not isinstance(rate := optimizer.get("learning_rate"), _PLAIN):
            values["optimizer"] = {**optimizer, "learning_rate": rate_key(_written(rate, "optimizer.learning_rate"))}
    except NotAKeyError as error:
        raise ConfigError(f"{error.key}: {error}") from None
    return values


def _of_loss(loss: Any, reduction: Any) -> dict[str, Any]:
    """Return the keys of a loss. An object also has a reduction.

    reduction: the call's key `reduction`, or None.
    """
    import keras

    written = _written(loss, "loss")
    if not isinstance(loss, keras.losses.Loss):
        return {"loss": loss_key(written)}
    own = reduction_key(written)
    if reduction not in (None, own):
        raise ConfigError(f"reduction: is {reduction}, but the loss has {own}; leave out the key, or change the loss")
    return {"loss": loss_key(written), "reduction": own}


def _written(value: Any, key: str) -> Any:
    """Return an object of Keras, serialised. Raise ConfigError for anything else."""
    import keras

    from sparksplit.model.custom_objects import written_loss, written_metric

    function = callable(value) and not isinstance(value, type) and hasattr(value, "__name__")
    place = str(getattr(value if function else type(value), "__module__", ""))
    if isinstance(value, type) or place.partition(".")[0] != "keras":
        name = getattr(value, "__name__", type(value).__name__)
        plain = {"metrics": "a name", "optimizer.learning_rate": "a number, a mapping"}.get(key, "a name, a mapping")
        raise ConfigError(
            f"{key}: must be {plain} or an object of Keras (is {name}); to train with an object of your own, "
            "compile a keras.Model with it, and give the model"
        )
    if key == "loss":
        return written_loss(value)
    return written_metric(value) if key == "metrics" else keras.saving.serialize_keras_object(value)
