"""Keras's float types: that of variables and of whatever is summed, and the one that layers compute in."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def set_floats(dtype: str) -> None:
    """Set both. dtype: the configuration's: a float type for everything, or one of Keras's mixed policies, with which
    layers compute in 16 bits, and everything else is float32."""
    keras.config.set_floatx("float64" if dtype == "float64" else "float32")
    keras.config.set_dtype_policy(dtype)


def outputs_of(model: Any, values: Any, training: bool) -> Any:
    """The model's outputs for `values`, in Keras's float type where they have fewer bits: of 11 or 8, a loss would have
    as few."""
    outputs = model(values, training=training)
    return tf.cast(outputs, keras.config.floatx()) if outputs.dtype.size < 4 else outputs


def is_loss_scaled(dtype: str) -> bool:
    """Whether gradients are computed of a multiple of the loss: in float16, small ones would be 0. bfloat16 has the
    range of float32."""
    return dtype == "mixed_float16"
