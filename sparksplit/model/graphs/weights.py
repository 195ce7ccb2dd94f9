"""Each row's weight in the loss and in the metrics, inside TensorFlow graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sparksplit.dataset.description import WEIGHT, Description

BY_WEIGHT = "mean_with_sample_weight"
"""The `reduction` that divides by the sum of the weights."""


class Weights:
    """The weights of rows. In training, a row's weight is its class weight times its own weight.

    Rows have their own weights if the data set has the tensor WEIGHT. Class weights do not apply to validation and test
    rows, because a model's score should not depend on how the model was trained.

    description: description of the data set. by_class: class weights by index; None: each class has weight 1.
    reduction: what the loss of some rows is divided by, as in the key `reduction`.
    in_metrics: whether the weights count in the metrics too.
    """

    def __init__(
        self,
        description: Description | None = None,
        by_class: Sequence[float] | None = None,
        reduction: str = BY_WEIGHT,
        in_metrics: bool = True,
    ) -> None:
        tensors = [] if description is None else [tensor.name for tensor in description.tensors]
        self._label = len(tensors)
        self._place = tensors.index(WEIGHT) if WEIGHT in tensors else None
        self._by_class = None if by_class is None else np.asarray(by_class, np.float64)
        self._is_mean, self._in_metrics = reduction == BY_WEIGHT, in_metrics

    @property
    def of_rows(self) -> bool:
        """Whether rows have weights of their own, which count in validation and test too."""
        return self._place is not None

    @property
    def in_metrics(self) -> bool:
        """Whether the weights count in the metrics too."""
        return self._in_metrics

    @property
    def divide_evaluation(self) -> bool:
        """Whether the loss of validation and test rows is divided by the sum of their weights, not by their number."""
        return self._is_mean and self._place is not None

    @property
    def divide_training(self) -> bool:
        """Whether the loss of training rows is divided by the sum of their weights, not by their number."""
        return self._is_mean and (self._place is not None or self._by_class is not None)

    def of_metrics(self, weights: Any) -> Any:
        """Return the weights of rows in the metrics; None: each row has weight 1. weights: as in the loss."""
        return weights if self._in_metrics else None

    def training(self, columns: Sequence[Any]) -> Any:
        """Return the weights of training rows, [rows] in Keras's float type. None: each row has weight 1.

        A label that is not one of the classes has weight 0.

        columns: stored columns, first the tensors, then the label.
        """
        of_row = self.evaluation(columns)
        if self._by_class is None:
            return of_row
        classes = tf.constant(self._by_class, tf.as_dtype(keras.config.floatx()))
        labels = tf.cast(columns[self._label], tf.int64)
        # A loss may ignore a label that is no class (`ignore_class: -1`). tf.gather fails for it, or gives 0 on a GPU.
        inside = tf.clip_by_value(labels, 0, len(self._by_class) - 1)
        of_class = tf.where(labels == inside, tf.gather(classes, inside), 0.0)
        return of_class if of_row is None else of_class * of_row

    def evaluation(self, columns: Sequence[Any]) -> Any:
        """Return the weights of validation and test rows, [rows] in Keras's float type. None: each row has weight 1.

        Class weights do not count here.
        """
        if self._place is None:
            return None
        return tf.cast(columns[self._place], tf.as_dtype(keras.config.floatx()))
