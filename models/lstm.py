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
    """Sequences [rows, length] or [rows, length, features] to the label: at each position [rows, length, classes], or
    [rows, length, 1] for numbers, and otherwise from the last state, [rows, classes], or [rows, numbers].

    units: of each LSTM layer, the first one first
    tokens: how many different tokens [rows, length] are indices of; by default the classes where the label is a token
        at each position, and otherwise none: the inputs are numbers
    embedding: numbers that the model learns for each token; 0: one-hot vectors
    each: whether the label's values belong to the sequence's positions, one to each, rather than come after it (windows
        over time); by default where there are as many

    Raises ValueError for inputs that are no sequences, and where an embedding has no tokens.
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
        # One-hot vectors by a table that is not trained: the same on every device, and without a layer of our own.
        table = {"embeddings_initializer": "identity", "trainable": False} if not embedding else {}
        layers.append(keras.layers.Embedding(tokens, embedding or tokens, **table))
    elif len(shape) == 1:
        layers.append(keras.layers.Reshape((*shape, 1)))
    for place, width in enumerate(units):
        layers.append(keras.layers.LSTM(width, return_sequences=each or place + 1 < len(units)))
    # The numbers of one position where there is one label at each.
    outputs = 1 if each and data.classes is None else data.outputs
    # Of 16 bits, probabilities would have two or three digits.
    layers.append(keras.layers.Dense(outputs, data.activation, dtype=keras.config.floatx()))
    return keras.Sequential(layers)
