"""The data description that a model's builder gets. This is the contract for a user's own model.

    def build(data: DataDescription, **params) -> keras.Model

The returned model is uncompiled. It takes `data.inputs`: one tensor, or a mapping by name if there are several. Inputs
are floats, with the fitted preprocessing applied. Inputs in `data.categories` are whole numbers.

The model has one output. For `data.classes` classes, the output has one probability for each class, in their order. If
`data.label_shape` is not (), the output has these values for each place of the label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sparksplit.dataset import feature_spec
from sparksplit.dataset.description import Description


@dataclass(frozen=True)
class DataDescription:
    """The data, as a model's builder sees them.

    inputs: shape of one row, by the input's name. classes: names of the classes; None for numbers. label_shape: shape
    of one row's label; () for a single class or number. rows: number of rows in the training split.

    categories: inputs that are indices (int32) of a category, of a text's tokens or of a number's buckets, with the
    number of indices. Index 0 is a missing value or a text's padding. With a vocabulary, index 1 is an unknown value,
    and the next indices are the known values. Hashes and buckets begin at index 1.
    """

    inputs: dict[str, tuple[int, ...]]
    classes: tuple[str, ...] | None
    label_shape: tuple[int, ...]
    rows: int
    categories: dict[str, int] = field(default_factory=dict)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one row of the only tensor. Raises ValueError if there are several tensors."""
        if len(self.inputs) != 1:
            raise ValueError(f"the data set has {len(self.inputs)} tensors ({', '.join(self.inputs)}), not one")
        return next(iter(self.inputs.values()))

    @property
    def outputs(self) -> int:
        """Units of the last layer: one for each class, or one for each number of a row's label."""
        return len(self.classes) if self.classes is not None else math.prod(self.label_shape)

    @property
    def activation(self) -> str:
        """Activation of the last layer: softmax for classes, linear for numbers."""
        return "softmax" if self.classes is not None else "linear"


def data_description(description: Description, rows: int) -> DataDescription:
    """Return the data description for a model's builder. rows: number of rows in the training split."""
    label, features = description.label, description.features
    stored = {tensor.name: tuple(tensor.shape) for tensor in description.model_tensors}
    return DataDescription(
        inputs=feature_spec.inputs(features) if features else stored,
        classes=tuple(label.classes) if label is not None and label.classes is not None else None,
        label_shape=tuple(label.shape) if label is not None else (),
        rows=rows,
        categories=feature_spec.categories(features),
    )
