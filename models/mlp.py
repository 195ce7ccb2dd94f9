"""A multi-layer perceptron: any number and width of hidden layers."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from sparksplit import DataDescription

NEEDS = "tensor"


def build(data: DataDescription, hidden: Sequence[int] = (128,), activation: str = "relu") -> keras.Model:
    """Map flattened rows [rows, *input_shape] through dense `hidden` layers to an output per class: [rows, classes]."""
    return keras.Sequential(
        [
            keras.layers.Input(data.input_shape),
            keras.layers.Flatten(),
            *(keras.layers.Dense(width, activation) for width in hidden),
            # Probabilities of 16 bits would have only two or three digits.
            keras.layers.Dense(data.outputs, data.activation, dtype=keras.config.floatx()),
        ]
    )
