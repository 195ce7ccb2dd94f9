"""What a model's builder is told about the data: the contract for a user's own model.

    def build(data: DataDescription, **params) -> keras.Model

The model is uncompiled. It takes `data.inputs` (one tensor, or a mapping by name where there are several; floats, with
the fitted preprocessing applied, and for those that `data.categories` names whole numbers) and gives one output: for
`data.classes` classes, one probability each, in their order; where `data.label_shape` is not (), that for each place of
the label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sparksplit.dataset import feature_spec
from sparksplit.dataset.description import Description


@dataclass(frozen=True)
class DataDescription:
    """inputs: shape of one row, by the input's name. classes: names of the classes; None for numbers.

    label_shape: shape of one row's label, () for a single class or number. rows: how many the training split has.
    categories: those of the inputs that are indices (int32) of a category or of a text's tokens, and how many indices
    each has: 0 is a missing value or a text's padding, 1 one that the training split had not, and the rest its values.
    """

    inputs: dict[str, tuple[int, ...]]
    classes: tuple[str, ...] | None
    label_shape: tuple[int, ...]
    rows: int
    categories: dict[str, int] = field(default_factory=dict)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one row of the only tensor. Raises ValueError where there are several."""
        if len(self.inputs) != 1:
            raise ValueError(f"the data set has {len(self.inputs)} tensors ({', '.join(self.inputs)}), not one")
        return next(iter(self.inputs.values()))

    @property
    def outputs(self) -> int:
        """Units of the last layer: one for each class, or for each number of one label."""
        return len(self.classes) if self.classes is not None else math.prod(self.label_shape)

    @property
    def activation(self) -> str:
        """The last layer's: softmax for classes, linear for numbers."""
        return "softmax" if self.classes is not None else "linear"


def data_description(description: Description, rows: int) -> DataDescription:
    """What a model's builder is told. rows: how many the training split has."""
    label, features = description.label, description.features
    stored = {tensor.name: tuple(tensor.shape) for tensor in description.model_tensors}
    return DataDescription(
        inputs=feature_spec.inputs(features) if features else stored,
        classes=tuple(label.classes) if label is not None and label.classes is not None else None,
        label_shape=tuple(label.shape) if label is not None else (),
        rows=rows,
        categories=feature_spec.categories(features),
    )
