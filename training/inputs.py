"""How a node turns stored values into the model's input, inside TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from hdfs_io.preprocessing import Description


class Inputs:
    """The tensors and the label of a data set, as a model wants them.

    A model with one input gets a tensor [rows, *shape], one with several a mapping by the tensors' names; always of
    Keras's float type, with the fitted preprocessing applied (in float32, as hdfs_io.preprocessing does).
    """

    def __init__(self, description: Description) -> None:
        self._description = description
        self._numbers = {
            spec.name: description.preprocessing.arrays(spec.name, spec.shape) for spec in description.tensors
        }

    def tensor_signature(self) -> list[Any]:
        """One tf.TensorSpec per stored tensor, [None, *shape] of the stored dtype."""
        return [
            tf.TensorSpec((None, *spec.shape), tf.as_dtype(spec.dtype), name=spec.name)
            for spec in self._description.tensors
        ]

    def signature(self) -> list[Any]:
        """`tensor_signature`, and the label's where there is one."""
        label = self._description.label
        labels = [] if label is None else [tf.TensorSpec((None, *label.shape), tf.as_dtype(label.dtype))]
        return [*self.tensor_signature(), *labels]

    def decode(self, columns: Sequence[Any]) -> tuple[Any, Any]:
        """(model's input, label) from stored columns: the tensors in order, then the label (None without one)."""
        specs = self._description.tensors
        tensors = {spec.name: self._decode(spec.name, column) for spec, column in zip(specs, columns, strict=False)}
        label = columns[len(specs)] if len(columns) > len(specs) else None
        if label is not None and label.dtype.is_integer:
            # Keras takes no small unsigned integers for classes.
            label = tf.cast(label, tf.int64)
        return (next(iter(tensors.values())) if len(tensors) == 1 else tensors), label

    def examples(self, rows: int = 2) -> tuple[Any, Any]:
        """Zeros of the right shapes and dtypes, to build a model or a metric with."""
        return self.decode([tf.zeros((rows, *spec.shape[1:]), spec.dtype) for spec in self.signature()])

    def _decode(self, name: str, column: Any) -> Any:
        offset, scale, impute = self._numbers[name]
        values = tf.cast(column, tf.float32)
        if impute is not None:
            values = tf.where(tf.math.is_nan(values), tf.broadcast_to(impute, tf.shape(values)), values)
        if offset.any():
            values = values - offset
        return tf.cast(values * scale, keras.config.floatx())
