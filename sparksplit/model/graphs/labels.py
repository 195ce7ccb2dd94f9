"""Scales number labels for training, and scales outputs back, inside TensorFlow graphs."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from sparksplit.dataset.description import LabelSpec


def scaled(labels: Any, label: LabelSpec | None) -> Any:
    """Return the model's targets for stored labels [rows, *shape].

    Numbers become (label - offset) * scale, in Keras's float type. Classes stay unchanged.
    """
    if label is None or label.kind != "number":
        return labels
    offset, scale = label.numbers()
    numbers = (tf.cast(labels, tf.float64) - offset) * scale if label.is_scaled else labels
    return tf.cast(numbers, keras.config.floatx())


def unscaled(outputs: Any, label: LabelSpec | None) -> Any:
    """Return the model's outputs [rows, ...] in the labels' units. This is the inverse of `scaled`.

    The dtype is the outputs' dtype, or float64 if the labels are float64.
    """
    if label is None or label.kind != "number":
        return outputs
    offset, scale = label.numbers()
    numbers = tf.cast(outputs, tf.float64) / scale + offset if label.is_scaled else outputs
    return tf.cast(numbers, tf.float64 if label.dtype == "float64" else outputs.dtype)
