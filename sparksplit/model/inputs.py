"""How a node turns stored values into the model's input, inside TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from hdfs_io.preprocessing import Description, TensorSpec, arithmetic, high_and_low, is_wide


class Inputs:
    """The tensors and the label of a data set, in the form that a model wants.

    A model with one input gets a tensor [rows, *shape], one with several a mapping by the tensors' names; always in
    Keras's float type, with the fitted preprocessing applied as hdfs_io.preprocessing computes it.
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
        """`tensor_signature`, and the label's, if there is one."""
        label = self._description.label
        labels = [] if label is None else [tf.TensorSpec((None, *label.shape), tf.as_dtype(label.dtype))]
        return [*self.tensor_signature(), *labels]

    def decode(self, columns: Sequence[Any]) -> tuple[Any, Any]:
        """(the model's input, label) from stored columns: the tensors in order, then the label (None without one)."""
        specs = self._description.tensors
        tensors = {spec.name: self._decode(spec, column) for spec, column in zip(specs, columns, strict=False)}
        label = columns[len(specs)] if len(columns) > len(specs) else None
        if label is not None and label.dtype.is_integer:
            # Keras does not take small unsigned integers for classes.
            label = tf.cast(label, tf.int64)
        return (next(iter(tensors.values())) if len(tensors) == 1 else tensors), label

    def examples(self, rows: int = 2) -> tuple[Any, Any]:
        """Zeros of the right shapes and dtypes, to build a model or a metric with."""
        return self.decode([tf.zeros((rows, *spec.shape[1:]), spec.dtype) for spec in self.signature()])

    def _decode(self, spec: TensorSpec, column: Any) -> Any:
        offset, scale, impute = self._numbers[spec.name]
        kind = arithmetic(spec.numpy_dtype, offset, scale)
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
