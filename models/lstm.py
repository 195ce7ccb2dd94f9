"""A long short-term memory network (Hochreiter and Schmidhuber, 1997) on sequences of tokens or of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import keras

from sparksplit import DataDescription

NEEDS = "sequence"


def build(
    data: DataDescription,
    units: Sequence[int] = (128,),
    embedding: int = 0,
    tokens: int | None = None,
    each: bool | None = None,
) -> keras.Model:
    """Map sequences [rows, length] or [rows, length, features] to the label.

    At each position, the output is [rows, length, classes], or [rows, length, 1] for numbers. Otherwise the last state
    gives [rows, classes], or [rows, numbers].

    units: of each LSTM layer, the first layer first
    tokens: number of different tokens if the inputs [rows, length] are their indices. By default the number of classes,
        if the label is a token at each position; otherwise the inputs are numbers
    embedding: size of the vector that the model learns for each token; 0: one-hot vectors
    each: whether the label has one value for each position, and not values that follow the sequence (windows over
        time). By default true if the label has as many values as positions

    Raises ValueError for inputs that are not sequences, and for an embedding without tokens.
    """
    shape = data.input_shape
    if len(shape) not in (1, 2):
        raise ValueError(f"lstm needs sequences [length(, features)], not rows of shape {list(shape)}")
    if each is None:
        each = data.label_shape == shape[:1]
    if data.label_shape != shape[:1] and (each or (data.label_shape and data.classes is not None)):
        raise ValueError(
            f"a label of shape {list(data.label_shape)} has not one value for each of {shape[0]} positions"
        )
    if tokens is None and each and len(shape) == 1 and data.classes is not None:
        tokens = len(data.classes)
    if embedding and tokens is None:
        raise ValueError("an embedding needs to know how many tokens there are")
    layers: list[keras.Layer] = [keras.layers.Input(shape)]
    if tokens is not None:
        # Make one-hot vectors with a table that is not trained: equal on every device, and without a layer of our own.
        table = {"embeddings_initializer": "identity", "trainable": False} if not embedding else {}
        layers.append(keras.layers.Embedding(tokens, embedding or tokens, **table))
    elif len(shape) == 1:
        layers.append(keras.layers.Reshape((*shape, 1)))
    for place, width in enumerate(units):
        layers.append(keras.layers.LSTM(width, return_sequences=each or place + 1 < len(units)))
    # With a label at each position, the output has the numbers of one position.
    outputs = 1 if each and data.classes is None else data.outputs
    # Probabilities of 16 bits would have only two or three digits.
    layers.append(keras.layers.Dense(outputs, data.activation, dtype=keras.config.floatx()))
    return keras.Sequential(layers)
