"""Turns parsed rows of a table into stored rows: indices replace the texts of categories and text features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.feature_spec import Category, Feature, Text
from sparksplit.dataset.lane_files import binary_column
from sparksplit.features.encoding import index_array, index_dtype
from sparksplit.features.table import Table, index_tensor


@dataclass(frozen=True)
class Encoder:
    """Encodes parsed rows. Picklable.

    features: features of a table, in its order; empty if rows are stored as parsed. parsed: tensors of the parsed rows.
    """

    features: tuple[Feature, ...]
    parsed: tuple[TensorSpec, ...]

    @cached_property
    def texts(self) -> list[Category | Text]:
        """The features that are texts until they are stored."""
        return [feature for feature in self.features if isinstance(feature, Category | Text)]

    @cached_property
    def indices(self) -> list[TensorSpec]:
        """The tensors for the indices of `texts`."""
        ends: dict[str, tuple[str, int]] = {}
        for feature in self.texts:
            dtype, end = index_dtype(feature.size), feature.place + feature.values
            ends[feature.tensor] = dtype, max(end, ends.get(feature.tensor, (dtype, 0))[1])
        return [TensorSpec(name=name, dtype=dtype, shape=[width]) for name, (dtype, width) in sorted(ends.items())]

    @property
    def tensors(self) -> list[TensorSpec]:
        """The stored tensors."""
        return [*self.parsed, *self.indices]

    def __call__(self, tensors: Sequence[pa.Array], texts: Sequence[pa.Array]) -> list[pa.Array]:
        """Return the columns of the stored tensors.

        tensors: binary columns of the parsed tensors. texts: columns of strings, for the features in `texts`.
        """
        stored = self.indexed(texts)
        return [*tensors, *(binary_column(stored[spec.name], spec) for spec in self.indices)]

    def indexed(self, texts: Sequence[pa.Array]) -> dict[str, npt.NDArray[Any]]:
        """Return the stored tensors of `indices` by name, [rows, values]. texts: as in `__call__`."""
        rows = len(texts[0]) if texts else 0
        stored = {spec.name: np.empty((rows, spec.values), spec.numpy_dtype) for spec in self.indices}
        for feature, column in zip(self.texts, texts, strict=True):
            stored[feature.tensor][:, feature.place : feature.place + feature.values] = index_array(feature, column)
        return stored


def encoder_of(table: Table | None, parsed: Sequence[TensorSpec], vocabularies: Mapping[str, list[str]]) -> Encoder:
    """Return the encoder for rows of `table`.

    vocabularies: by column, for columns that are not fitted yet. Fitted columns bring their own vocabularies and
    places.
    """
    if table is None:
        return Encoder((), tuple(parsed))
    features: list[Feature] = []
    ends: dict[str, int] = {}
    for column in table.columns:
        if column.fitted is not None:
            features.append(column.fitted)
            continue
        feature = table.feature(column)
        if isinstance(feature, Category | Text):
            feature = feature.model_copy(update={"vocabulary": vocabularies.get(column.name, [])})
            tensor = index_tensor(index_dtype(feature.size))
            place = ends.get(tensor, 0)
            feature = feature.model_copy(update={"tensor": tensor, "place": place})
            ends[tensor] = place + feature.values
        features.append(feature)
    return Encoder(tuple(features), tuple(parsed))
