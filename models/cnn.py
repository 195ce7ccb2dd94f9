"""A small convolutional network like LeNet-5 (LeCun et al., 1998)."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from sparksplit import DataDescription

NEEDS = "image"


def build(data: DataDescription, filters: Sequence[int] = (20, 50), kernel: int = 5, dense: int = 512) -> keras.Model:
    """Map images [rows, height, width] or [rows, height, width, channels] to one output per class: [rows, classes].

    Each entry of `filters` adds a convolution of kernel x kernel and a max-pooling by 2. A dense layer follows. Weights
    before a ReLU are initialised as in He et al. (2015). Raises ValueError if the rows are not images, or if the images
    are too small for the layers.
    """
    shape = data.input_shape
    if len(shape) == 2:
        shape = (*shape, 1)
    if len(shape) != 3:
        raise ValueError(f"cnn needs images [height, width(, channels)], not rows of shape {list(shape)}")
    layers: list[keras.Layer] = [keras.layers.Input(data.input_shape), keras.layers.Reshape(shape)]
    for count in filters:
        layers += [
            keras.layers.Conv2D(count, kernel, activation="relu", kernel_initializer="he_normal"),
            keras.layers.MaxPooling2D(2),
        ]
    layers += [
        keras.layers.Flatten(),
        keras.layers.Dense(dense, "relu", kernel_initializer="he_normal"),
        # Probabilities of 16 bits would have only two or three digits.
        keras.layers.Dense(data.outputs, data.activation, dtype=keras.config.floatx()),
    ]
    return keras.Sequential(layers)
