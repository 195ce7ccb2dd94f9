"""A multi-layer perceptron: any number and width of hidden layers."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from sparksplit import DataDescription

NEEDS = "tensor"


def build(data: DataDescription, hidden: Sequence[int] = (128,), activation: str = "relu") -> keras.Model:
    """[rows, *input_shape] flattened, dense `hidden` layers, one output per class: [rows, classes]."""
    return keras.Sequential(
        [
            keras.layers.Input(data.input_shape),
            keras.layers.Flatten(),
            *(keras.layers.Dense(width, activation) for width in hidden),
            # Of 16 bits, probabilities would have two or three digits.
            keras.layers.Dense(data.outputs, data.activation, dtype=keras.config.floatx()),
        ]
    )
