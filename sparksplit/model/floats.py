"""Keras's float types: one for variables and sums, and one for the layers' computations."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def set_floats(dtype: str) -> None:
    """Set both float types.

    dtype: a float type for everything, or one of Keras's mixed policies. With a mixed policy, layers compute in 16
    bits, and everything else is float32.
    """
    keras.config.set_floatx("float64" if dtype == "float64" else "float32")
    keras.config.set_dtype_policy(dtype)


def outputs_of(model: Any, values: Any, training: bool) -> Any:
    """Return the model's outputs for `values`. Outputs of 16 bits are cast to Keras's float type.

    Otherwise the loss would have only the outputs' 11 or 8 significant bits.
    """
    outputs = model(values, training=training)
    return tf.cast(outputs, keras.config.floatx()) if outputs.dtype.size < 4 else outputs


def is_loss_scaled(dtype: str) -> bool:
    """Return whether the loss is scaled before gradients are computed, because small gradients would be 0 in float16.

    bfloat16 has the range of float32 and needs no scaling.
    """
    return dtype == "mixed_float16"
