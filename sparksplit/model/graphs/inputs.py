"""Turns stored values into a node's model input, inside TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from sparksplit.dataset.description import Description, TensorSpec, arithmetic, high_and_low, is_wide
from sparksplit.model.graphs.features import FeatureInputs


class Inputs:
    """The tensors and the label of a data set, in the form that a model takes.

    A model with one input gets a tensor [rows, *shape]. A model with several inputs gets a mapping by the tensors'
    names. Inputs have Keras's float type, with the fitted preprocessing applied as in sparksplit.dataset.description.

    For a data set with features, sparksplit.dataset.feature_spec names the inputs. Some of them may be indices.
    """

    def __init__(self, description: Description) -> None:
        self._description = description
        self._features = FeatureInputs(description.features) if description.features else None
        self._numbers = {
            spec.name: description.preprocessing.arrays(spec.name, spec.shape) for spec in description.tensors
        }

    @property
    def description(self) -> Description:
        """The description of the data set."""
        return self._description

    def tensor_signature(self) -> list[Any]:
        """Return a tf.TensorSpec for each stored tensor that the model takes, [None, *shape] of the stored dtype."""
        return _signature(self._description.model_tensors)

    def signature(self) -> list[Any]:
        """Return a tf.TensorSpec for each stored tensor, [None, *shape] of the stored dtype, then for the label if
        there is one.
        """
        label = self._description.label
        labels = [] if label is None else [tf.TensorSpec((None, *label.shape), tf.as_dtype(label.dtype))]
        return [*_signature(self._description.tensors), *labels]

    def decode(self, columns: Sequence[Any]) -> tuple[Any, Any]:
        """Return (the model's input, label) from stored columns. The label is None if `columns` has no label.

        columns: all tensors in order, then the label. Without a label, only the tensors of `tensor_signature` are
        enough.
        """
        specs, given = self._description.tensors, self._description.model_tensors
        if len(columns) == len(given):
            specs = given
        stored = {spec.name: column for spec, column in zip(specs, columns, strict=False)}
        label = columns[len(specs)] if len(columns) > len(specs) else None
        if label is not None and label.dtype.is_integer:
            # Keras does not take small unsigned integers as classes.
            label = tf.cast(label, tf.int64)
        if self._features is not None:
            return self._features.decode(stored), label
        tensors = {spec.name: self._decode(spec, stored[spec.name]) for spec in given}
        return (next(iter(tensors.values())) if len(tensors) == 1 else tensors), label

    def examples(self, rows: int = 2) -> tuple[Any, Any]:
        """Return zeros of the right shapes and dtypes, for building a model or a metric."""
        return self.decode([tf.zeros((rows, *spec.shape[1:]), spec.dtype) for spec in self.signature()])

    def _decode(self, spec: TensorSpec, column: Any) -> Any:
        offset, scale, impute = self._numbers[spec.name]
        kind = arithmetic(spec.numpy_dtype, offset, scale, keras.config.floatx())
        if is_wide(spec.numpy_dtype) and offset.any():
            high, low = high_and_low(offset)
            above = tf.bitwise.right_shift(column, tf.constant(32, column.dtype))
            below = tf.bitwise.bitwise_and(column, tf.constant(2**32 - 1, column.dtype))
            values = (tf.cast(above, kind) - high) * 2.0**32 + (tf.cast(below, kind) - low)
        else:
            values = tf.cast(column, kind)
            if impute is not None:
                filling = tf.broadcast_to(impute.astype(kind), tf.shape(values))
                values = tf.where(tf.math.is_nan(values), filling, values)
            if offset.any():
                values = values - offset.astype(kind)
        return tf.cast(values * scale.astype(kind), keras.config.floatx())


def _signature(tensors: Sequence[TensorSpec]) -> list[Any]:
    return [tf.TensorSpec((None, *spec.shape), tf.as_dtype(spec.dtype), name=spec.name) for spec in tensors]
