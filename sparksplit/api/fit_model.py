"""How a compiled Keras model reaches `train`, and how its weights come back. The only part of `fit` that knows Keras's
objects."""

from __future__ import annotations

import base64
import inspect
import json
from typing import Any

import numpy as np

from hdfs_io import filesystem
from sparksplit.api.fit_rows import FitRows, Target
from sparksplit.api.functions import train
from sparksplit.api.results import TrainedRun
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset.prepared import PreparedDataSet

_FIRST = "# Written by sparksplit.fit: a model, and the weights that it began with."
_BUILDER = """
import base64
import json

import keras
import numpy as np

CONFIG = {config!r}
WEIGHTS = {weights!r}


def build(data):
    model = keras.saving.deserialize_keras_object(json.loads(CONFIG))
    model.set_weights([
        np.frombuffer(base64.b64decode(content), dtype).reshape(shape) for dtype, shape, content in WEIGHTS
    ])
    return model
"""


def check_model(model: Any) -> None:
    """Raise ConfigError if `model` is not a built and compiled Keras model with one output."""
    import keras

    if not isinstance(model, keras.Model):
        raise ConfigError(f"model: must be a keras.Model (is {type(model).__name__})")
    if not model.compiled:
        raise ConfigError(
            "model: is not compiled; call model.compile(optimizer=..., loss=...) first, as for Keras's fit"
        )
    if not model.built:
        raise ConfigError("model: has no weights yet; begin it with keras.layers.Input, or call it on a few rows first")
    if isinstance(model.loss, list | tuple | dict):
        raise ConfigError("model: has several losses; sparksplit trains models with one output")
    if not hasattr(model, "output_shape") or isinstance(model.output_shape, list | dict):
        raise ConfigError("model: must be Sequential or functional, with one output")


def target_of(model: Any) -> Target:
    """Return what a compiled model computes."""
    loss = model.loss
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", None) or getattr(loss, "name", "")
    smoothed = bool(getattr(loss, "_fn_kwargs", {}).get("label_smoothing"))
    inputs = [each.name.partition(":")[0] for each in model.inputs]
    return Target(str(name), tuple(model.output_shape[1:]), inputs, smoothed)


def reduction_of(model: Any) -> str:
    """Return the key `reduction` for the compiled loss. Raise ConfigError for a loss that is summed."""
    reduction = getattr(model.loss, "reduction", "sum_over_batch_size")
    if reduction not in ("sum_over_batch_size", "mean_with_sample_weight"):
        raise ConfigError(
            f"model: its loss has reduction={reduction!r}; use sum_over_batch_size or mean_with_sample_weight"
        )
    return str(reduction)


def metric_weights_of(model: Any) -> bool:
    """Return the key `metric_weights` for the compiled metrics: Keras has metrics that use weights, and others that do
    not. Raise ConfigError if the model has both."""
    compiled = model.get_compile_config()
    plain, weighted = bool(compiled["metrics"]), bool(compiled["weighted_metrics"])
    if plain and weighted:
        raise ConfigError("model: has metrics and weighted_metrics; with weights, compile it with one of them")
    return weighted


def metric_names(model: Any) -> list[str]:
    """Return the names of the compiled metrics in Keras's History, in the order of the key `metrics`."""
    compiled = model.get_compile_config()
    names = [*(compiled["metrics"] or []), *(compiled["weighted_metrics"] or [])]
    return [name if isinstance(name, str) else str(name["config"]["name"]) for name in names]


def trained(
    model: Any, data: PreparedDataSet, output: str, overwrite: bool, rows: FitRows, keys: dict[str, Any]
) -> TrainedRun:
    """Train a copy of `model`, from its weights, on `rows`, which are prepared in `data`.

    keys: training keys; they replace what was compiled.
    """
    # The text decides whether the same call is the same run, and so does the file's name.
    builder = f"{output}-model.py"
    if filesystem.exists(builder) and not filesystem.read_bytes(builder).startswith(_FIRST.encode()):
        raise InputError(f"{builder}: is not a file of sparksplit.fit; give another output, or move the file away")
    filesystem.write_bytes(builder, _builder(model).encode())
    keys = {**_compiled(model, rows), **keys}
    return train(data, output, overwrite=overwrite, model={"build": f"{builder}:build"}, **keys)


def take_weights(model: Any, run: TrainedRun) -> None:
    """Give `model` the weights of a finished run."""
    model.set_weights(run.model().get_weights())


def _builder(model: Any) -> str:
    import keras

    # Not the archive of model.save, whose bytes hold the time: the same call must be the same run.
    config = keras.saving.serialize_keras_object(model)
    config.pop("compile_config", None)
    weights = []
    for variable in map(np.asarray, model.get_weights()):
        content = base64.b64encode(np.ascontiguousarray(variable).tobytes()).decode()
        weights.append((variable.dtype.str, variable.shape, content))
    return _FIRST + _BUILDER.format(config=json.dumps(config, sort_keys=True), weights=weights)


def _compiled(model: Any, rows: FitRows) -> dict[str, Any]:
    """Return the training keys for the model's compiled optimizer, loss and metrics."""
    several = rows.classes is None and model.output_shape[-1] > 1
    compiled = model.get_compile_config()
    optimizer = {key: value for key, value in model.optimizer.get_config().items() if value is not None}
    if not optimizer.get("use_ema"):
        optimizer.pop("ema_momentum", None)
    rate = optimizer["learning_rate"]
    if isinstance(rate, dict):
        optimizer["learning_rate"] = {**rate["config"], "name": rate["class_name"]}
    optimizer["name"] = type(model.optimizer).__name__
    keys: dict[str, Any] = {"optimizer": optimizer, "loss": _loss(model, compiled["loss"], rows), "metrics": []}
    for metric in [*(compiled["metrics"] or []), *(compiled["weighted_metrics"] or [])]:
        keys["metrics"].append(_metric(metric, several))
    if (policy := model.dtype_policy.name) != "float32":
        keys["dtype"] = policy
    return keys


def _loss(model: Any, loss: Any, rows: FitRows) -> Any:
    """Return the key `loss`. loss: as in the compile configuration."""
    name, arguments = loss, {}
    if isinstance(loss, dict) and loss["module"] == "builtins":
        name = loss["config"]  # a function, of Keras or the user's own
    elif isinstance(loss, dict):
        # Some of Keras's losses leave arguments out of their configuration, such as the delta of Huber.
        taken = inspect.signature(type(model.loss).__init__).parameters
        more = {key: value for key, value in getattr(model.loss, "_fn_kwargs", {}).items() if key in taken}
        arguments = {key: value for key, value in {**more, **loss["config"]}.items() if value is not None}
        name = loss["class_name"]
    if rows.from_one_hot:
        name, arguments = "SparseCategoricalCrossentropy", {"from_logits": arguments.get("from_logits", False)}
    kept = {key: value for key, value in arguments.items() if key not in ("reduction", "name")}
    return {**kept, "name": name} if name[:1].isupper() else name


def _metric(metric: Any, several: bool) -> str:
    """Return a name for the key `metrics`. several: a row's label is several numbers."""
    if isinstance(metric, str):
        if metric in ("accuracy", "acc"):  # Keras chooses by the shapes, too
            return "categorical_accuracy" if several else "accuracy"
        return metric
    import keras

    if isinstance(metric, dict) and metric.get("module") == "keras.metrics":
        made = keras.saving.deserialize_keras_object(metric)
        plain = type(made)().get_config()
        if {**made.get_config(), "name": ""} == {**plain, "name": ""}:
            return str(plain["name"])
    raise ConfigError(f"model: metric {metric!r} has arguments of its own; compile it by name, such as metrics=['auc']")
