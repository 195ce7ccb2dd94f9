"""A metric for training. Takes labels as they are stored, and outputs as the model gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from sparksplit.dataset.description import LabelSpec
from sparksplit.model.graphs.labels import unscaled

_FROM_LOGITS = "from_logits"
_TOP_K = (keras.metrics.TopKCategoricalAccuracy, keras.metrics.SparseTopKCategoricalAccuracy)
_ANY_SCALE = (
    *(keras.metrics.Hinge, keras.metrics.SquaredHinge, keras.metrics.SparseCategoricalAccuracy, *_TOP_K),
    keras.metrics.CategoricalAccuracy,
)
"""Metrics that take logits unchanged. They compare margins, or look for the largest output."""
Activation = Callable[[Any], Any]


def keras_metric(made: Any, probable: Activation | None) -> tuple[Any, Activation | None]:
    """Return a copy of a Keras metric that sums in float64, and the function to apply to the outputs before the metric.
    Float32 would stop counting at 2^24 rows.

    probable: turns the model's logits into probabilities; None if its outputs are not logits. The returned function is
    `probable` if the metric needs probabilities, and None if it takes the outputs unchanged.
    """
    config = {**made.get_config(), "dtype": "float64"}
    if _FROM_LOGITS in config:
        config[_FROM_LOGITS] = probable is not None
    if _FROM_LOGITS in config or isinstance(made, _ANY_SCALE):
        probable = None
    # Some metrics make their variables in Keras's float type and ignore their own dtype.
    floats = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        metric = type(made).from_config(config)
    finally:
        keras.config.set_floatx(floats)
    return metric, _narrow if isinstance(made, _TOP_K) else probable


def _narrow(outputs: Any) -> Any:
    """Return `outputs` as float32, because TensorFlow's in_top_k takes no other float type."""
    return tf.cast(outputs, tf.float32)


class FittedMetric:
    """A metric with its conversions of labels and outputs.

    metric: a metric of Keras or of sparksplit. label: the data set's label. activation: function to apply to outputs
    before the metric; None: the metric takes outputs unchanged.
    """

    def __init__(self, metric: Any, label: LabelSpec, activation: Activation | None = None) -> None:
        self._metric, self._label, self._activation = metric, label, activation
        self.result, self.reset_state = metric.result, metric.reset_state

    @property
    def variables(self) -> list[Any]:
        """The metric's sums."""
        return list(self._metric.variables)

    def update_state(self, labels: Any, outputs: Any, **weighted: Any) -> None:
        """Add rows to the metric."""
        if self._label.classes is None:
            # Round once, as the exported model does, then compute in float64: errors may be small beside the numbers.
            outputs = tf.cast(unscaled(outputs, self._label), tf.float64)
            labels = tf.cast(labels, tf.float64)
        if self._activation is not None:
            outputs = self._activation(outputs)
        self._metric.update_state(fitted_labels(labels, outputs, self._label), outputs, **weighted)


def fitted_labels(labels: Any, outputs: Any, label: LabelSpec) -> Any:
    """Return labels [rows] as [rows, 1], in the dtype of the outputs, if the outputs are [rows, units] and either the
    labels are numbers (not classes) or there is one unit. Return all other labels as they are.

    Keras would otherwise drop the last dimension and average over rows, but we need one value per row.
    """
    if labels.shape.rank == outputs.shape.rank - 1 and (label.classes is None or outputs.shape[-1] == 1):
        return keras.ops.cast(keras.ops.expand_dims(labels, -1), outputs.dtype)
    return labels
