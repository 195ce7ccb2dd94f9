"""Model, optimizer, loss and metrics from the configuration, by Keras's own names and registries.

Misspelt names are told before (`model.keras_names`); what is known only once Keras is imported, a value out of
range for example, comes from the nodes, and names the configuration's line all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras

from hdfs_io.functions import FunctionError
from hdfs_io.preprocessing import Description
from sparksplit.model.builders import load_builder
from sparksplit.model.description import DataDescription
from sparksplit.model.inputs import Inputs
from sparksplit.model.keras_names import unknown
from sparksplit.model.rates import WarmedUp

if TYPE_CHECKING:
    from sparksplit.training.config import OptimizerConfig, TrainConfig


def data_description(description: Description, rows: int) -> DataDescription:
    """What a model's builder is told."""
    label = description.label
    return DataDescription(
        inputs={spec.name: tuple(spec.shape) for spec in description.tensors},
        classes=tuple(label.classes) if label is not None and label.classes is not None else None,
        label_shape=tuple(label.shape) if label is not None else (),
        rows=rows,
    )


def build_model(config: TrainConfig, source: str | None, data: DataDescription, inputs: Inputs) -> Any:
    """The user's model, built on the data's shapes. Raises ConfigError where it fails or does not fit the data."""
    name = config.model.build
    try:
        model = load_builder(name, source)(data, **config.model.params)
    except FunctionError as error:
        raise config.error("model.build", str(error)) from error
    except Exception as error:
        raise config.error("model.params", f"{name} failed: {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(model, keras.Model):
        raise config.error("model.build", f"{name} returned {type(model).__name__}, not a Keras model")
    example, _ = inputs.examples()
    try:
        output = model(example, training=False)
    except Exception as error:
        shapes = ", ".join(f"{key}: {list(shape)}" for key, shape in data.inputs.items())
        raise config.error("model.build", f"{name} does not take rows of {shapes}: {_first_line(error)}") from error
    if isinstance(output, list | tuple | dict):
        raise config.error("model.build", f"{name} has {len(output)} outputs; exactly one is supported")
    return model


def build_optimizer(config: TrainConfig, warmed_up: WarmedUp | None = None) -> Any:
    """The Keras optimizer. Raises ConfigError for an unknown name or argument.

    warmed_up: takes the learning rate's place, and the rate itself, where the way changes it.
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
    return _deserialize(
        config, "optimizer.name", keras.optimizers, keras.optimizers.Optimizer, optimizer.name, arguments
    )


def build_loss(config: TrainConfig, data: DataDescription, model: Any, inputs: Inputs) -> Callable[[Any, Any], Any]:
    """A function (labels, outputs) to one loss per row. Raises ConfigError where labels and outputs do not fit it."""
    wanted = config.loss
    if wanted is None:
        wanted = "mean_squared_error" if data.classes is None else "sparse_categorical_crossentropy"
    if isinstance(wanted, dict):
        arguments = {key: value for key, value in wanted.items() if key != "name"}
        arguments["reduction"] = None
        loss = _deserialize(config, "loss", keras.losses, keras.losses.Loss, _name(config, "loss", wanted), arguments)
    else:
        loss = _known(config, "loss", keras.losses, wanted)
        if isinstance(loss, keras.losses.Loss):
            loss.reduction = None

    def per_row(labels: Any, outputs: Any) -> Any:
        return loss(fitted_labels(labels, outputs, data), outputs)

    example, labels = inputs.examples()
    outputs = model(example, training=False)
    _check_classes(config, data, outputs)
    try:
        losses = per_row(labels, outputs)
    except Exception as error:
        raise config.error("loss", f"does not take this model's outputs: {_first_line(error)}") from error
    if losses.shape.rank < 1 or losses.shape[0] != labels.shape[0]:
        raise config.error("loss", "must give one value per row")
    return per_row


def build_metrics(config: TrainConfig, data: DataDescription, model: Any, inputs: Inputs) -> dict[str, Any]:
    """Fresh Keras metrics by name, in the configuration's order.

    Raises ConfigError for an unknown name, and for a metric that labels and outputs do not fit.
    """
    names = config.metrics
    if names is None:
        names = ["mean_absolute_error" if data.classes is None else "accuracy"]
    example, labels = inputs.examples()
    outputs = model(example, training=False)
    metrics = {}
    for index, name in enumerate(names):
        if name == "accuracy" and data.classes is not None:
            logits = isinstance(config.loss, dict) and bool(config.loss.get("from_logits"))
            metric = (
                keras.metrics.BinaryAccuracy(threshold=0.0 if logits else 0.5)
                if outputs.shape[-1] == 1
                else keras.metrics.SparseCategoricalAccuracy()
            )
        else:
            metric = _known(config, f"metrics.{index}", keras.metrics, name)
            if not isinstance(metric, keras.metrics.Metric):
                metric = keras.metrics.MeanMetricWrapper(metric, name=name)
        metrics[name] = _Fitted(metric, data)
        try:
            metrics[name].update_state(labels, outputs)
        except Exception as error:
            raise config.error(
                f"metrics.{index}", f"does not take this model's outputs: {_first_line(error)}"
            ) from error
        metrics[name].reset_state()
    return metrics


class _Fitted:
    """A metric whose labels are shaped like the outputs."""

    def __init__(self, metric: Any, data: DataDescription) -> None:
        self._metric, self._data = metric, data
        self.result, self.reset_state = metric.result, metric.reset_state

    @property
    def variables(self) -> list[Any]:
        return list(self._metric.variables)

    def update_state(self, labels: Any, outputs: Any) -> None:
        self._metric.update_state(fitted_labels(labels, outputs, self._data), outputs)


def fitted_labels(labels: Any, outputs: Any, data: DataDescription) -> Any:
    """Labels [rows] as [rows, 1] of the outputs' dtype where there is one output per row.

    Keras would otherwise squeeze both and average over rows, where one value per row is wanted.
    """
    if labels.shape.rank == outputs.shape.rank - 1 and (data.classes is None or outputs.shape[-1] == 1):
        return keras.ops.cast(keras.ops.expand_dims(labels, -1), outputs.dtype)
    return labels


def _check_classes(config: TrainConfig, data: DataDescription, outputs: Any) -> None:
    if data.classes is None:
        return
    if tuple(outputs.shape[1:-1]) != data.label_shape:
        raise config.error(
            "model.build",
            f"{config.model.build} gives {list(outputs.shape[1:])} a row, where a class is to be predicted "
            + (f"at each of {list(data.label_shape)}" if data.label_shape else "for the whole row"),
        )
    units, classes = outputs.shape[-1], len(data.classes)
    if units != classes and not (units == 1 and classes == 2):
        raise config.error(
            "model.build",
            f"{config.model.build} has an output of {units} units, the data set has {classes} classes; "
            f"give the last layer {classes} units (data.outputs)",
        )


def _deserialize(config: TrainConfig, key: str, module: Any, base: type, name: str, arguments: dict[str, Any]) -> Any:
    known = {
        attribute.lower(): attribute
        for attribute, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }
    found = known.get(name.lower().replace("_", "")) or (name if keras.saving.get_registered_object(name) else None)
    if found is None:
        raise config.error(key, unknown(name, known.values()))
    try:
        return module.deserialize({"class_name": found, "config": arguments})
    except Exception as error:
        raise config.error(key.removesuffix(".name"), f"{found}: {_first_line(error)}") from error


def _name(config: TrainConfig, key: str, values: dict[str, Any]) -> str:
    if not isinstance(values.get("name"), str):
        raise config.error(key, "must have a name: one of Keras's")
    return str(values["name"])


def _known(config: TrainConfig, key: str, module: Any, name: str) -> Any:
    try:
        return module.get(name)
    except ValueError:
        known = [attribute for attribute in dir(module) if not attribute.startswith("_")]
        raise config.error(key, unknown(name, known)) from None


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
