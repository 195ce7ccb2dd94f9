"""Users' functions, as tests name them by this file's path."""

import time

import keras


def with_state(data, rate=0.3):
    """Every kind of state that a checkpoint must carry: weights, BatchNorm's statistics, Dropout's random state."""
    return keras.Sequential(
        [
            keras.layers.Input(data.input_shape),
            keras.layers.Flatten(),
            keras.layers.Dense(32, "relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(rate),
            keras.layers.Dense(data.outputs, data.activation),
        ]
    )


def too_narrow(data):
    return keras.Sequential([keras.layers.Input(data.input_shape), keras.layers.Flatten(), keras.layers.Dense(7)])


def failing(data, **params):
    raise KeyError("widht")


def slowly(tensors, label, seeds):
    time.sleep(0.2)
    return tensors, label


def linear(data):
    """A linear model that begins at zero, for arithmetic that a few lines of NumPy repeat."""
    flat = [keras.layers.Input(data.input_shape), keras.layers.Flatten()]
    return keras.Sequential([*flat, keras.layers.Dense(1, kernel_initializer="zeros")])
