"""A model of tables of mixed columns: an embedding for each category, then a multi-layer perceptron.

Optionally wide and deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from sparksplit import DataDescription


def build(
    data: DataDescription,
    hidden: Sequence[int] = (128, 64),
    activation: str = "relu",
    dropout: float = 0.0,
    wide: bool = False,
) -> keras.Model:
    """Map any inputs to [rows, classes], or [rows, numbers].

    Each index becomes a vector that the model learns. All vectors and all numbers, side by side, go through dense
    layers.

    hidden: the widths of the dense layers, any number of them
    dropout: share of each dense layer's outputs that training leaves out; above 0, results depend on the nodes
    wide: add a linear model before the outputs' activation, with a weight for each number and each index (wide and
        deep, Cheng et al. 2016)
    """
    inputs = {
        name: keras.layers.Input(shape, name=name, dtype="int32" if name in data.categories else None)
        for name, shape in data.inputs.items()
    }
    given = [(place, inputs[name], data.categories.get(name)) for place, name in enumerate(inputs)]
    parts = [_deep(*one) for one in given]
    # Layer names have a dot, because Keras needs unique names, and the inputs have the columns' names.
    outputs = keras.layers.Concatenate(name="side.by.side")(parts) if len(parts) > 1 else parts[0]
    for place, width in enumerate(hidden):
        outputs = keras.layers.Dense(width, activation, name=f"hidden.{place}")(outputs)
        if dropout:
            outputs = keras.layers.Dropout(dropout, name=f"dropout.{place}")(outputs)
    outputs = keras.layers.Dense(data.outputs, name="deep.outputs")(outputs)
    if wide:
        outputs = keras.layers.Add(name="sum.outputs")([outputs, *(_wide(*one, data.outputs) for one in given)])
    # Probabilities of 16 bits would have only two or three digits.
    outputs = keras.layers.Activation(data.activation, name="all.outputs", dtype=keras.config.floatx())(outputs)
    return keras.Model(inputs if len(inputs) > 1 else next(iter(inputs.values())), outputs)


def embedding_width(size: int) -> int:
    """Return the size of the vector for an index out of `size` indices, at most 50.

    This is fastai's rule (Howard and Gugger 2020, "fastai: A Layered API for Deep Learning", emb_sz_rule).
    """
    width: float = 1.6 * size**0.56
    return min(50, round(width))


def _deep(place: int, values: Any, size: int | None) -> Any:
    """Return [rows, width]: numbers unchanged, and indices as vectors.

    A text is the largest value of its tokens' vectors, number by number (SWEM-max, Shen et al. 2018).
    """
    if size is None:
        return keras.layers.Flatten(name=f"numbers.{place}")(values)
    vectors = keras.layers.Embedding(size, embedding_width(size), name=f"embedding.{place}")(values)
    return keras.layers.GlobalMaxPooling1D(name=f"largest.{place}")(vectors) if values.shape[1:] else vectors


def _wide(place: int, values: Any, size: int | None, outputs: int) -> Any:
    """Return [rows, outputs]: the linear model's part for one input.

    For a text, this part is the mean of the tokens' weights.
    """
    if size is None:
        flat = keras.layers.Flatten(name=f"wide.numbers.{place}")(values)
        return keras.layers.Dense(outputs, use_bias=False, name=f"wide.{place}")(flat)
    weights = keras.layers.Embedding(size, outputs, "zeros", name=f"wide.{place}")(values)
    return keras.layers.GlobalAveragePooling1D(name=f"mean.{place}")(weights) if values.shape[1:] else weights
