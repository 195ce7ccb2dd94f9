"""Numbers to predict, as the model is trained to give them, and back; inside TensorFlow graphs."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from hdfs_io.preprocessing import LabelSpec


def scaled(labels: Any, label: LabelSpec | None) -> Any:
    """What the model is to give for stored labels [rows, *shape]: (label - offset) * scale in Keras's float type; the
    labels themselves where they are not scaled."""
    if label is None or not label.is_scaled:
        return labels
    offset, scale = label.numbers()
    return tf.cast((tf.cast(labels, tf.float64) - offset) * scale, keras.config.floatx())


def unscaled(outputs: Any, label: LabelSpec | None) -> Any:
    """The inverse, for the model's outputs [rows, ...]: in the labels' units, in the outputs' dtype."""
    if label is None or not label.is_scaled:
        return outputs
    offset, scale = label.numbers()
    return tf.cast(tf.cast(outputs, tf.float64) / scale + offset, outputs.dtype)
