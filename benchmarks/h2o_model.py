"""The network of benchmarks/h2o.py: one hidden layer of rectifiers, with an L1 penalty on all its weights."""

from __future__ import annotations

import keras

from sparksplit import DataDescription


def build(data: DataDescription, hidden: int, l1: float) -> keras.Model:
    """[rows, *input_shape] flattened, `hidden` rectifiers, one output per class: [rows, classes]."""
    penalty = keras.regularizers.L1(l1)
    return keras.Sequential(
        [
            keras.layers.Input(data.input_shape),
            keras.layers.Flatten(),
            keras.layers.Dense(hidden, "relu", kernel_initializer="he_normal", kernel_regularizer=penalty),
            keras.layers.Dense(data.outputs, data.activation, kernel_regularizer=penalty),
        ]
    )
