"""A metric as training calls it: with labels as they are stored, and outputs as the model gives them."""

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
"""Metrics that take logits as they are: they are about margins, or about which output is the largest."""
Activation = Callable[[Any], Any]


def keras_metric(made: Any, probable: Activation | None) -> tuple[Any, Activation | None]:
    """(Keras's metric `made` with sums in float64, what makes of outputs what it takes). probable: makes probabilities
    of outputs; None: they are not logits.

    Floats of 32 bits stop counting at 2^24 rows.
    """
    config = {**made.get_config(), "dtype": "float64"}
    if _FROM_LOGITS in config:
        config[_FROM_LOGITS] = probable is not None
    if _FROM_LOGITS in config or isinstance(made, _ANY_SCALE):
        probable = None
    # Some make their variables in Keras's own float type, whatever theirs is.
    floats = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        metric = type(made).from_config(config)
    finally:
        keras.config.set_floatx(floats)
    return metric, _narrow if isinstance(made, _TOP_K) else probable


def _narrow(outputs: Any) -> Any:
    """TensorFlow orders no others than these."""
    return tf.cast(outputs, tf.float32)


class Fitted:
    """metric: one of Keras's or our own. label: the data set's. activation: makes of outputs what the metric takes;
    None: it takes them as they are."""

    def __init__(self, metric: Any, label: LabelSpec, activation: Activation | None = None) -> None:
        self._metric, self._label, self._activation = metric, label, activation
        self.result, self.reset_state = metric.result, metric.reset_state

    @property
    def variables(self) -> list[Any]:
        """The metric's sums."""
        return list(self._metric.variables)

    def update_state(self, labels: Any, outputs: Any, **weighted: Any) -> None:
        """Take in rows."""
        if self._label.classes is None:
            # Rounded as the exported model rounds them, but not again: errors may be small beside the numbers.
            outputs = tf.cast(unscaled(outputs, self._label), tf.float64)
            labels = tf.cast(labels, tf.float64)
        if self._activation is not None:
            outputs = self._activation(outputs)
        self._metric.update_state(fitted_labels(labels, outputs, self._label), outputs, **weighted)


def fitted_labels(labels: Any, outputs: Any, label: LabelSpec) -> Any:
    """Labels [rows] as [rows, 1], in the outputs' dtype, where there is one output per row.

    Keras would otherwise squeeze both and average over rows, but one value per row is wanted.
    """
    if labels.shape.rank == outputs.shape.rank - 1 and (label.classes is None or outputs.shape[-1] == 1):
        return keras.ops.cast(keras.ops.expand_dims(labels, -1), outputs.dtype)
    return labels
