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


def not_saved(data):
    flat = [keras.layers.Input(data.input_shape), keras.layers.Flatten(), keras.layers.Lambda(lambda x: x, name="same")]
    return keras.Sequential([*flat, keras.layers.Dense(data.outputs, data.activation)])


def failing(data, **params):
    raise KeyError("widht")


def slowly(tensors, label, seeds):
    time.sleep(0.2)
    return tensors, label


def linear(data):
    """A linear model that begins at zero, for arithmetic that a few lines of NumPy repeat."""
    flat = [keras.layers.Input(data.input_shape), keras.layers.Flatten()]
    return keras.Sequential([*flat, keras.layers.Dense(1, kernel_initializer="zeros")])


def one_unit(data):
    """A logistic regression that begins at zero: one output for two classes."""
    flat = [keras.layers.Input(data.input_shape), keras.layers.Flatten()]
    return keras.Sequential([*flat, keras.layers.Dense(1, "sigmoid", kernel_initializer="zeros")])


def several(data):
    """A linear model that begins at zero, for several numbers at once."""
    flat = [keras.layers.Input(data.input_shape), keras.layers.Flatten()]
    return keras.Sequential([*flat, keras.layers.Dense(data.outputs, kernel_initializer="zeros")])


def embedded(data, whole=False):
    """An embedding of 1.3 MB before a frozen layer. whole: regularised by zero, so that its gradient has all rows."""
    regularizer = keras.regularizers.L2(0.0) if whole else None
    layers = [
        keras.layers.Input(data.input_shape),
        keras.layers.Embedding(40_000, 8, embeddings_regularizer=regularizer),
        keras.layers.Flatten(),
        keras.layers.Dense(500, "relu", trainable=False, name="frozen"),
        keras.layers.Dense(data.outputs, data.activation),
    ]
    return keras.Sequential(layers)


class Timed(keras.layers.Layer):
    """Not registered with Keras: this file supplies it."""

    def call(self, x):
        import tensorflow as tf

        return x + 0 * tf.cast(tf.timestamp(), x.dtype)


def timed(data):
    """A model with an operation that has no deterministic kernel."""
    flat = [keras.layers.Input(data.input_shape), keras.layers.Flatten(), Timed()]
    return keras.Sequential([*flat, keras.layers.Dense(data.outputs, data.activation)])
