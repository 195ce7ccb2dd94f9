"""Builds the model, optimizer, loss and metrics from the configuration, with Keras's own names and registries.

`model.keras_names` reports misspelt names earlier. Mistakes that need an imported Keras, such as a value out of range,
are reported by the nodes. These errors also name the configuration's line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from sparksplit.base.errors import SparksplitError
from sparksplit.base.user_functions import FunctionError
from sparksplit.dataset.description import WEIGHT
from sparksplit.model import saving
from sparksplit.model.arrival import overridden
from sparksplit.model.builders import load_builder
from sparksplit.model.custom_objects import register
from sparksplit.model.description import DataDescription
from sparksplit.model.floats import is_loss_scaled, outputs_of
from sparksplit.model.graphs.fitted_metric import FittedMetric, fitted_labels, keras_metric
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.graphs.labels import scaled
from sparksplit.model.keras_names import unknown
from sparksplit.model.metric_kinds import NUMBERS, misfit, place_of, plain
from sparksplit.model.own_metrics import own_metric
from sparksplit.model.own_model import OwnModelError, is_own_model, received
from sparksplit.model.rates import WarmedUp
from sparksplit.model.trying import counts_by_weight, losses_by_row, some_rows, sums_by_row

if TYPE_CHECKING:
    from sparksplit.model.model_config import ModelKeys, OptimizerConfig


def build_model(
    config: ModelKeys, source: str | None, data: DataDescription, inputs: Inputs, scratch: str | None = None
) -> Any:
    """Return the user's model, built on the data's shapes. Raise ConfigError if it fails or does not fit the data.

    scratch: a local folder, to check that the model can be saved like a trained model. None: no check.
    """
    name = config.model.build
    try:
        model, known, trusted = _made(config, source, data)
    except (FunctionError, OwnModelError) as error:
        raise config.error("model.build", str(error)) from error
    except SparksplitError:  # such as a file system that is away for a moment
        raise
    except Exception as error:
        key = "model.build" if is_own_model(name) and not config.model.params else "model.params"
        raise config.error(key, f"{name} failed: {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(model, keras.Model):
        hint = "; does it end with `return model`?" if model is None else ""
        raise config.error("model.build", f"{name} returned {type(model).__name__}, not a Keras model{hint}")
    if (method := overridden(model)) is not None:
        raise config.error("model.build", f"{name} has its own {method}, which the nodes would not call; use loss=")
    example, _ = inputs.examples()
    try:
        output = model(example, training=False)
    except Exception as error:
        shapes = ", ".join(f"{key}: {list(shape)}" for key, shape in data.inputs.items())
        begin = "begin with keras.layers.Input(data.input_shape)"
        if len(data.inputs) > 1:
            begin = "give it a keras.layers.Input for each of data.inputs, by name"
        # Other errors come from the model's own code, not from its shapes.
        hint = f"; {begin}" if isinstance(error, (ValueError, tf.errors.InvalidArgumentError)) else ""
        why = _first_line(error).rstrip(".")
        raise config.error("model.build", f"{name} does not take rows of {shapes}: {why}{hint}") from error
    if isinstance(output, list | tuple | dict):
        raise config.error("model.build", f"{name} has {len(output)} outputs; exactly one is supported")
    if scratch is not None:
        try:
            saving.try_out(model, known, inputs, scratch, trusted)
        except saving.NotSavedError as error:
            raise config.error("model.build", f"{name}: {error}") from error
    return model


def _made(config: ModelKeys, source: str | None, data: DataDescription) -> tuple[Any, Mapping[str, Any], bool]:
    """Return the model, the user's classes and functions that load it again, and whether code in its file may run."""
    name, params = config.model.build, config.model.params
    if not is_own_model(name):
        build = load_builder(name, source)
        return build(data, **params), saving.supplied(build), False
    assert source is not None
    own = received(source)
    if not own.model:
        return own.code(data, **params), saving.supplied(own.code), False
    known = own.code or {}
    register(known)  # losses, metrics and optimizers are looked up by name
    return saving.load_bytes(own.model, known, own.trusted), known, own.trusted


def build_optimizer(config: ModelKeys, warmed_up: WarmedUp | None = None) -> Any:
    """Return the Keras optimizer. Raise ConfigError for an unknown name or argument.

    warmed_up: schedule for a strategy that changes the learning rate. It replaces the learning rate, and gets the
    configured learning rate as its `rate`.

    If the loss is scaled, Keras's LossScaleOptimizer wraps the optimizer. It gets sums of scaled gradients, which are
    equal on all nodes. All nodes therefore find the same gradients infinite.
    """
    optimizer: OptimizerConfig = config.optimizer
    arguments = dict(optimizer.model_extra or {})
    rate = optimizer.learning_rate
    arguments["learning_rate"] = rate
    if isinstance(rate, dict):
        schedule = {key: value for key, value in rate.items() if key != "name"}
        arguments["learning_rate"] = _deserialize(
            config,
            "optimizer.learning_rate",
            keras.optimizers.schedules,
            keras.optimizers.schedules.LearningRateSchedule,
            _name(config, "optimizer.learning_rate", rate),
            schedule,
        )
    if warmed_up is not None:
        warmed_up.rate = arguments["learning_rate"]
        arguments["learning_rate"] = warmed_up
    made = _deserialize(
        config, "optimizer.name", keras.optimizers, keras.optimizers.Optimizer, optimizer.name, arguments
    )
    if not is_loss_scaled(config.dtype):
        return made
    if made.loss_scale_factor is not None:
        raise config.error(
            "optimizer.loss_scale_factor", f"has no effect with dtype: {config.dtype}, which scales the loss itself"
        )
    return keras.optimizers.LossScaleOptimizer(made)


def build_loss(config: ModelKeys, data: DataDescription, model: Any, inputs: Inputs) -> Callable[[Any, Any], Any]:
    """Return a function of (labels, outputs) that gives one loss per row.

    Raise ConfigError if the loss does not fit them.
    """
    label = inputs.description.label
    assert label is not None
    outputs = outputs_of(model, inputs.examples()[0], training=False)
    _check_classes(config, data, outputs)
    wanted = config.loss
    if wanted is None:
        single = "sparse_categorical_crossentropy" if outputs.shape[-1] > 1 else "binary_crossentropy"
        wanted = "mean_squared_error" if data.classes is None else single
    _check_units(config, data, outputs, wanted)
    if isinstance(wanted, dict):
        arguments = {key: value for key, value in wanted.items() if key != "name"}
        arguments["reduction"] = None
        loss = _deserialize(config, "loss", keras.losses, keras.losses.Loss, _name(config, "loss", wanted), arguments)
    else:
        loss = _known(config, "loss", keras.losses, wanted)
        if isinstance(loss, keras.losses.Loss):
            loss.reduction = None

    def per_row(labels: Any, outputs: Any) -> Any:
        return loss(fitted_labels(scaled(labels, label), outputs, label), outputs)

    try:
        by_row = losses_by_row(per_row, *some_rows(label, outputs.shape[1:], outputs.dtype))
    except Exception as error:
        why = f"does not take this model's outputs ({_first_line(error)})"
        if data.classes is not None:
            why = "does not take class numbers as labels; sparse_categorical_crossentropy does"
            if isinstance(wanted, dict) or not loss.__module__.startswith("keras."):
                why = f"{why} ({_first_line(error)})"  # an argument, or the user's own code, may be the reason
        raise config.error("loss", why) from error
    if not by_row:
        raise config.error("loss", "must give one value per row that depends only on that row")
    return per_row


def build_metrics(
    config: ModelKeys, data: DataDescription, model: Any, inputs: Inputs, means: Sequence[float] | None = None
) -> dict[str, Any]:
    """Return new metrics by name, in the configuration's order.

    means: the mean of each number in the training rows' labels. Raise ConfigError for an unknown name, and for a metric
    that does not fit the labels and outputs.
    """
    label = inputs.description.label
    assert label is not None
    outputs = outputs_of(model, inputs.examples()[0], training=False)
    logits = isinstance(config.loss, dict) and bool(config.loss.get("from_logits"))
    classes = None if data.classes is None else len(data.classes)
    place = place_of(classes, outputs.shape[-1], label.values)
    # Logits of a single output always need a sigmoid, because the user's own loss may have any name.
    one_by_one = outputs.shape[-1] == 1 or _is_binary(config.loss)
    probable = (keras.ops.sigmoid if one_by_one else keras.ops.softmax) if logits else None
    # As Keras chooses by the shapes. Several numbers are one-hot rows.
    several = "categorical_accuracy" if place == NUMBERS else "sparse_categorical_accuracy"
    ours = {"accuracy": several if outputs.shape[-1] > 1 else "binary_accuracy"}
    rows = some_rows(label, outputs.shape[1:], outputs.dtype)
    has_weights = config.class_weights is not None or any(each.name == WEIGHT for each in inputs.description.tensors)
    weighted = has_weights and config.metric_weights
    names = config.metrics
    if names is None:
        names = ["mean_absolute_error" if data.classes is None else "accuracy"]
    metrics = {}
    for index, name in enumerate(names):
        key = f"metrics.{index}"
        try:
            metric = own_metric(name, classes, logits, means or [0.0] * label.values)
        except ValueError as error:
            raise config.error(key, str(error)) from None
        if metric is None and (problem := misfit(name, place)):
            raise config.error(key, problem)
        activation = None
        if metric is None:
            metric, activation = keras_metric(_known(config, key, keras.metrics, ours.get(plain(name), name)), probable)
        metrics[name] = FittedMetric(metric, label, activation)
        try:
            by_row = sums_by_row(metrics[name], *rows)
        except Exception as error:
            raise config.error(key, f"does not take this model's outputs: {_first_line(error)}") from error
        if not by_row:
            raise config.error(
                key, f"{name} is not a sum over rows: it depends on how rows are split into mini-batches"
            )
        if weighted and not counts_by_weight(metrics[name], *rows):
            raise config.error(key, f"{name} does not apply row weights to these labels; remove it")
    return metrics


def _is_binary(loss: Any) -> bool:
    return isinstance(loss, dict) and str(loss.get("name", "")).lower().startswith("binary")


def _check_classes(config: ModelKeys, data: DataDescription, outputs: Any) -> None:
    if data.classes is None:
        # Keras would broadcast a single output to all numbers of the label.
        if data.label_shape and tuple(outputs.shape[1:]) not in (data.label_shape, (*data.label_shape, 1)):
            raise config.error(
                "model.build",
                f"{config.model.build} gives outputs of shape {list(outputs.shape[1:])} per row, but the labels "
                f"are numbers of shape {list(data.label_shape)}",
            )
        return
    if tuple(outputs.shape[1:-1]) != data.label_shape:
        raise config.error(
            "model.build",
            f"{config.model.build} gives outputs of shape {list(outputs.shape[1:])} per row, but the labels are "
            + (f"classes of shape {list(data.label_shape)}" if data.label_shape else "one class per row"),
        )
    units, classes = outputs.shape[-1], len(data.classes)
    if units != classes and not (units == 1 and classes == 2):
        raise config.error(
            "model.build",
            f"{config.model.build} has an output of {units} units, but the data set has {classes} classes; "
            f"give the last layer {classes} units (data.outputs)",
        )


def _check_units(config: ModelKeys, data: DataDescription, outputs: Any, loss: str | dict[str, Any]) -> None:
    """Raise ConfigError for a loss that is not meant for these outputs, although Keras would compute the loss."""
    name = str(loss.get("name", "")) if isinstance(loss, dict) else loss
    if outputs.shape[-1] == 1 and "categorical" in name.lower():
        other = "mean_squared_error" if data.classes is None else "binary_crossentropy"
        raise config.error("loss", f"{name} needs a unit for each class; for one output, use {other}")
    if data.classes is not None and outputs.shape[-1] > 1 and name.lower().startswith("binary"):
        raise config.error(
            "loss",
            f"{name} needs a last layer with one unit. For one unit per class, use sparse_categorical_crossentropy",
        )


def _deserialize(config: ModelKeys, key: str, module: Any, base: type, name: str, arguments: dict[str, Any]) -> Any:
    known = {
        attribute.lower(): attribute
        for attribute, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }
    keras_name = known.get(name.lower().replace("_", ""))
    chosen = getattr(module, keras_name) if keras_name else keras.saving.get_registered_object(name)
    if chosen is None:
        raise config.error(key, unknown(name, known.values()))
    try:
        # Do not use `module.deserialize`, which lacks some of Keras's classes, such as Lamb.
        return chosen.from_config(arguments)
    except Exception as error:
        raise config.error(key.removesuffix(".name"), f"{keras_name or name}: {_first_line(error)}") from error


def _name(config: ModelKeys, key: str, values: dict[str, Any]) -> str:
    if not isinstance(values.get("name"), str):
        raise config.error(key, "must have a `name`: a class of Keras")
    return str(values["name"])


def _known(config: ModelKeys, key: str, module: Any, name: str) -> Any:
    own = keras.saving.get_registered_object(name)
    if own is not None:
        if isinstance(own, type):
            return own()
        # Not called `name`: where Keras copies a metric, it takes the name of a registered function for the function.
        return keras.metrics.MeanMetricWrapper(own, "own_metric") if module is keras.metrics else own
    try:
        return module.get(name)
    except ValueError:
        known = [attribute for attribute in dir(module) if not attribute.startswith("_")]
        raise config.error(key, unknown(name, known)) from None


_NOISE = re.compile(
    r"\{\{[^{}]*\}\} ?| \[Op:\w+\] name: ?|\x1b\[[\d;]*m|^Exception encountered when calling .*", re.MULTILINE
)
"""Parts of error messages that mean nothing to a user: names of TensorFlow's graph, codes of a terminal, and the header
that Keras puts before the reason."""
_ARRAY = re.compile(r"\[\[[-+.\de\s\[\]]*\]\]")
"""An array in an error message. Keras writes the values of the input, in many lines, before the shapes that differ."""


def _first_line(error: BaseException) -> str:
    text = _ARRAY.sub("[...]", _NOISE.sub("", str(error)))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
