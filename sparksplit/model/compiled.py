"""The optimizer, loss and metrics that a Keras model was compiled with, as keys of the configuration.

They are read from the model's `compile_config`, which its file holds and `get_compile_config` returns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparksplit.model.metric_kinds import snake

_ALIASES = {"acc": "accuracy"}
_KERAS_REDUCTION = "sum_over_batch_size"
_REDUCTIONS = {
    **dict.fromkeys((_KERAS_REDUCTION, "auto", "mean"), _KERAS_REDUCTION),
    "mean_with_sample_weight": "mean_with_sample_weight",
}
"""The key `reduction` by Keras's names."""


class NotAKeyError(ValueError):
    """A compiled value has no key in the configuration. key: the key that it would be."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Compiled:
    """Values of the keys `optimizer`, `loss`, `metrics`, `reduction` and `metric_weights`; None where the model was
    compiled without.

    shown: the metrics' names in Keras's History, in the order of `metrics`.
    """

    optimizer: dict[str, Any] | None = None
    loss: str | dict[str, Any] | None = None
    metrics: list[str] | None = None
    reduction: str | None = None
    metric_weights: bool | None = None
    shown: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, config: Mapping[str, Any] | None) -> Compiled:
        """Read a `compile_config`; None for a model that is not compiled. Raise NotAKeyError."""
        if not config:
            return cls()
        if config.get("loss_weights") is not None:
            raise NotAKeyError("loss", "loss_weights of a compiled model are not supported; compile it without them")
        optimizer, loss = config.get("optimizer"), _one_loss(config.get("loss"))
        plain, weighted = (_listed(config.get(key)) for key in ("metrics", "weighted_metrics"))
        if plain and weighted:
            raise NotAKeyError("metrics", "the model has metrics and weighted_metrics; compile it with one of them")
        metrics = [metric_key(each) for each in (*plain, *weighted)]
        for name in metrics:
            if metrics.count(name) > 1:
                raise NotAKeyError("metrics", f"the model has two metrics called {name}; compile it with one of them")
        return cls(
            optimizer=None if optimizer is None else optimizer_keys(optimizer),
            loss=None if loss is None else loss_key(loss),
            metrics=metrics or None,
            reduction=None if loss is None else reduction_key(loss),
            metric_weights=bool(weighted) if metrics else None,
            shown=[_shown(each) for each in (*plain, *weighted)],
        )


def optimizer_keys(serialised: Any) -> dict[str, Any]:
    """Return the section `optimizer` for a serialised Keras optimizer, or for an optimizer's name."""
    if isinstance(serialised, str):
        return {"name": serialised}
    kind, arguments = _object(serialised, "optimizer")
    if kind == "LossScaleOptimizer":  # Keras wraps it around the user's optimizer with mixed_float16
        return optimizer_keys(arguments["inner_optimizer"])
    rate = rate_key(arguments.pop("learning_rate", None))
    if not arguments.get("use_ema"):
        for unused in ("use_ema", "ema_momentum", "ema_overwrite_frequency"):
            arguments.pop(unused, None)
    given = {} if rate is None else {"learning_rate": rate}
    return {"name": kind if kind[:1].isupper() else kind.lower(), **given, **arguments}


def rate_key(serialised: Any) -> Any:
    """Return the key `optimizer.learning_rate` for a serialised learning rate: a number or a schedule of Keras."""
    if isinstance(serialised, dict):
        name, schedule = _object(serialised, "optimizer.learning_rate")
        return {"name": name, **schedule}
    return _shortest(serialised) if isinstance(serialised, float) else serialised


def loss_key(serialised: Any) -> str | dict[str, Any]:
    """Return the key `loss` for a serialised Keras loss: a name, a function or an object of a class."""
    if isinstance(serialised, str):
        return serialised
    if (name := _function(serialised)) is not None:
        return name
    kind, arguments = _object(serialised, "loss")
    for apart in ("reduction", "dtype"):
        arguments.pop(apart, None)
    return {"name": kind, **arguments}


def reduction_key(serialised: Any) -> str:
    """Return the key `reduction` for a serialised Keras loss. Raise NotAKeyError for a sum."""
    is_plain = isinstance(serialised, str) or _function(serialised) is not None
    reduction = _KERAS_REDUCTION if is_plain else serialised["config"].get("reduction", _KERAS_REDUCTION)
    if reduction not in _REDUCTIONS:
        kind = serialised["class_name"]
        raise NotAKeyError(
            "loss", f"{kind} with reduction {reduction!r} is not supported, because a mini-batch's loss is a mean"
        )
    return _REDUCTIONS[reduction]


def metric_key(serialised: Any) -> str:
    """Return the name in the key `metrics` for a serialised Keras metric: a class of Keras has its name in snake
    case, as in Keras's History."""
    if isinstance(serialised, str):
        return _ALIASES.get(serialised, serialised)
    if (name := _function(serialised)) is not None:
        return name
    kind, arguments = _object(serialised, "metrics")
    arguments.pop("dtype", None)
    defaults = _METRIC_DEFAULTS.get(kind, {})
    more = {key: value for key, value in arguments.items() if defaults.get(key, _NONE) != value}
    if more:
        given = ", ".join(f"{key}={value!r}" for key, value in more.items())
        raise NotAKeyError("metrics", f"{kind}({given}): metrics with arguments are not supported; compile without it")
    return snake(kind) if str(serialised.get("module")).startswith("keras.") else kind


def _shown(serialised: Any) -> str:
    if not _is_object(serialised):
        return str(serialised)
    if (name := _function(serialised)) is not None:
        return name.rpartition(">")[2]  # without the package that a registered function has
    config = serialised["config"]
    # Keras leaves the default name of some metrics out.
    return str((isinstance(config, dict) and config.get("name")) or snake(serialised["class_name"]))


_NONE = object()
_METRIC_DEFAULTS: dict[str, dict[str, Any]] = {
    "AUC": {
        **{"num_thresholds": 200, "curve": "ROC", "summation_method": "interpolation"},
        **{"multi_label": False, "from_logits": False},
    },
    "BinaryAccuracy": {"threshold": 0.5},
    "BinaryCrossentropy": {"from_logits": False, "label_smoothing": 0},
    "BinaryIoU": {"target_class_ids": [0, 1], "threshold": 0.5},
    "CategoricalCrossentropy": {"from_logits": False, "label_smoothing": 0, "axis": -1},
    "ConcordanceCorrelation": {"axis": -1},
    "FBetaScore": {"beta": 1.0},
    "PearsonCorrelation": {"axis": -1},
    "R2Score": {"class_aggregation": "uniform_average", "num_regressors": 0},
    "SparseCategoricalCrossentropy": {"from_logits": False, "axis": -1},
    "SparseTopKCategoricalAccuracy": {"k": 5},
    "TopKCategoricalAccuracy": {"k": 5},
}
"""Arguments that a metric in a file has, although the user has not given them."""


def same(given: Any, compiled: Any) -> bool:
    """Return whether a key's value and a compiled value mean the same. Spelling of names does not count:
    `sparse_categorical_crossentropy` is `SparseCategoricalCrossentropy` without arguments."""
    return bool(_plain(given) == _plain(compiled))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        # False and 0 are what an argument is when it is not given.
        changed = {key: _plain(inner) for key, inner in value.items() if inner not in (None, False, 0)}
        return changed["name"] if list(changed) == ["name"] else changed
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return re.sub(r"[_\s]", "", value).lower() if isinstance(value, str) else value


def _one_loss(serialised: Any) -> Any:
    """Return the only serialised loss; None without one."""
    if isinstance(serialised, list | tuple | dict) and not _is_object(serialised):
        several = [*(serialised.values() if isinstance(serialised, dict) else serialised)]
        if len(several) != 1:
            raise NotAKeyError("loss", f"the model was compiled with {len(several)} losses; exactly one is supported")
        return _one_loss(several[0])
    return serialised


def _listed(metrics: Any) -> list[Any]:
    """Return the metrics of the only output as a list."""
    if metrics is None:
        return []
    if isinstance(metrics, dict) and not _is_object(metrics):
        metrics = [*metrics.values()]
    listed = metrics if isinstance(metrics, list | tuple) else [metrics]
    if len(listed) == 1 and isinstance(listed[0], list | tuple):
        listed = listed[0]
    if any(isinstance(each, list | tuple) for each in listed):
        raise NotAKeyError("metrics", "the model was compiled with metrics for several outputs; one is supported")
    return [each for each in listed if each is not None]


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("class_name"), str)


def _function(serialised: Any) -> str | None:
    """Return the name of a serialised function; None for anything else."""
    is_function = _is_object(serialised) and serialised["class_name"] == "function"
    return str(serialised["config"]) if is_function else None


def _object(serialised: Any, key: str) -> tuple[str, dict[str, Any]]:
    """Return (class, arguments that are not None, without the name) of a serialised object."""
    if _is_object(serialised) and serialised["class_name"] == "__lambda__":
        raise NotAKeyError(key, "is a lambda, which the nodes cannot find by its name; write a function with def")
    if not _is_object(serialised) or not isinstance(serialised.get("config"), dict):
        raise NotAKeyError(key, f"the compiled value {serialised!r} is not supported")
    registered = serialised.get("registered_name")
    name = registered if isinstance(registered, str) and ">" in registered else serialised["class_name"]
    arguments = serialised["config"].items()
    return str(name), {one: value for one, value in arguments if value is not None and one != "name"}


def _shortest(rate: float) -> float:
    """Return the shortest number with the same float32. Keras keeps a learning rate of 0.001 as
    0.0010000000474974513."""
    return float(str(np.float32(rate)))
