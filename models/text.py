"""A model of texts as tokens: convolutions over the tokens (Kim 2014), or a long short-term memory network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import keras

from sparksplit import DataDescription

NEEDS = "text"


def build(
    data: DataDescription,
    network: Literal["convolution", "lstm"] = "convolution",
    embedding: int = 64,
    widths: Sequence[int] = (3, 4, 5),
    filters: int = 64,
    units: int = 64,
    dropout: float = 0.0,
) -> keras.Model:
    """Map one or more texts [rows, length] to [rows, classes], or [rows, numbers].

    Each text becomes a vector of its own. Other inputs, numbers and categories, join these vectors before the last
    layer.

    network: convolution: the largest outputs of convolutions; lstm: the state after a text's last token
    embedding: size of the vector that the model learns for each token, and for each index of a category
    widths: widths of the convolutions, in tokens
    filters: number of filters for each width
    units: units of the LSTM
    dropout: share of the last layer's inputs that training leaves out; above 0, results depend on the nodes

    Raises ValueError if no input is a text, and for an unknown network.
    """
    if network not in ("convolution", "lstm"):
        raise ValueError(f"network must be convolution or lstm (is {network!r})")
    if not any(data.inputs[name] for name in data.categories):
        raise ValueError("text needs a text among its inputs (features: COLUMN: text)")
    inputs: dict[str, Any] = {}
    parts = []
    for place, (name, shape) in enumerate(data.inputs.items()):
        size = data.categories.get(name)
        inputs[name] = keras.layers.Input(shape, name=name, dtype="int32" if size else None)
        if size is None:
            # Layer names have a dot, because Keras needs unique names, and the inputs have the columns' names.
            parts.append(keras.layers.Flatten(name=f"numbers.{place}")(inputs[name]))
            continue
        # Convolutions read padding as one more token. The LSTM skips padding.
        masked = network == "lstm" and bool(shape)
        vectors = keras.layers.Embedding(size, embedding, mask_zero=masked, name=f"embedding.{place}")(inputs[name])
        if masked:
            parts.append(keras.layers.LSTM(units, name=f"lstm.{place}")(vectors))
        elif shape:
            parts.extend(_largest(vectors, filters, width, f"{place}.{width}") for width in widths)
        else:
            parts.append(vectors)
    outputs = keras.layers.Concatenate(name="side.by.side")(parts) if len(parts) > 1 else parts[0]
    if dropout:
        outputs = keras.layers.Dropout(dropout, name="dropout.0")(outputs)
    # Probabilities of 16 bits would have only two or three digits.
    last = {"name": "all.outputs", "dtype": keras.config.floatx()}
    outputs = keras.layers.Dense(data.outputs, data.activation, **last)(outputs)
    return keras.Model(inputs if len(inputs) > 1 else next(iter(inputs.values())), outputs)


def _largest(vectors: Any, filters: int, width: int, name: str) -> Any:
    """Return [rows, filters]: each filter's largest output over the text.

    With "same", a text may be shorter than `width`.
    """
    found = keras.layers.Conv1D(filters, width, padding="same", activation="relu", name=f"convolution.{name}")(vectors)
    return keras.layers.GlobalMaxPooling1D(name=f"largest.{name}")(found)
