"""Numbers to predict, as the model is trained to give them, and back; inside TensorFlow graphs."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from sparksplit.dataset.description import LabelSpec


def scaled(labels: Any, label: LabelSpec | None) -> Any:
    """What the model is to give for stored labels [rows, *shape]: of numbers (label - offset) * scale, in Keras's float
    type; classes as they are."""
    if label is None or label.kind != "number":
        return labels
    offset, scale = label.numbers()
    numbers = (tf.cast(labels, tf.float64) - offset) * scale if label.is_scaled else labels
    return tf.cast(numbers, keras.config.floatx())


def unscaled(outputs: Any, label: LabelSpec | None) -> Any:
    """The inverse, for the model's outputs [rows, ...]: in the labels' units, in the outputs' dtype, or in the labels'
    where that has more digits."""
    if label is None or label.kind != "number":
        return outputs
    offset, scale = label.numbers()
    numbers = tf.cast(outputs, tf.float64) / scale + offset if label.is_scaled else outputs
    return tf.cast(numbers, tf.float64 if label.dtype == "float64" else outputs.dtype)
