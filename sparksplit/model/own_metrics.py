"""Metrics that Keras lacks, or lacks for a softmax of two units. Their state is sums, which nodes add up.

They have the members of Keras's metrics that training uses: update_state, result, reset_state, variables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sparksplit.base import measures
from sparksplit.model.keras_names import OWN
from sparksplit.model.metric_kinds import plain

_OURS = {**{name: name for name in OWN}, "r2score": "r2"}


def own_metric(name: str, classes: int | None, logits: bool, means: Sequence[float]) -> Any:
    """Return our metric called `name`, even if Keras has a metric of this name. None: Keras's metric is used.

    classes: number of classes; None for numbers. logits: whether the model's outputs are logits instead of
    probabilities. means: the approximate mean of each number of a label.

    Raise ValueError for a metric that does not fit the labels.
    """
    ours = _OURS.get(plain(name))
    if ours in ("rmse", "r2"):
        if classes is not None:
            raise ValueError(
                f"{name} needs labels that are numbers, but the labels of the data set are classes; leave it out, or"
                " prepare the data with input.label_type: number"
            )
        return R2(means) if ours == "r2" else _RootMeanSquare()
    if ours is None:
        return None
    if classes is None:
        if ours == "f1":
            raise ValueError("f1 needs labels that are classes; the data set's are numbers")
        return None
    if ours != "auc":
        return ByClass(ours, classes, logits)
    if classes != 2:
        raise ValueError(f"auc needs two classes; the data set has {classes}")
    return Auc(logits)


class _Sums:
    """Variables that are sums over rows, float64."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.variables = [tf.Variable(np.zeros(shape), dtype=tf.float64, trainable=False) for shape in shapes]

    def reset_state(self) -> None:
        """Forget all rows."""
        for variable in self.variables:
            variable.assign(tf.zeros_like(variable))

    def _add(self, *sums: Any) -> None:
        for variable, value in zip(self.variables, sums, strict=True):
            variable.assign_add(value)

    def _numbers(self) -> list[Any]:
        return [np.asarray(variable.numpy()) for variable in self.variables]


class Auc(_Sums):
    """The area under the ROC curve for the second of two classes, computed from histograms by `measures.auc`."""

    def __init__(self, logits: bool) -> None:
        super().__init__((2 * measures.BINS,))
        self._logits = logits

    def update_state(self, labels: Any, outputs: Any, sample_weight: Any = None) -> None:
        """Add rows. labels: class indices [rows, ...]; outputs [rows, ..., 1 or 2]; sample_weight [rows]."""
        odds = tf.clip_by_value(_log_odds(outputs, self._logits), -measures.ODDS, measures.ODDS)
        # NaN has no bin, so it makes the sums NaN. The loss reports the error.
        lost = tf.math.is_nan(odds)
        weights = tf.where(lost, odds, _weights(labels, sample_weight))
        odds = tf.where(lost, tf.zeros_like(odds), odds)
        places = tf.cast((tf.asinh(odds / measures.LINEAR) + measures.REACH) * measures.PER_UNIT, tf.int64)
        places = tf.minimum(places, measures.BINS - 1)
        # Change only the bins of these rows, because there are more bins than rows.
        bins = places + measures.BINS * tf.cast(_flat(labels) > 0, tf.int64)
        self.variables[0].scatter_add(tf.IndexedSlices(weights, bins))

    def result(self) -> float:
        """The area; NaN without rows of both classes."""
        return measures.auc(*np.split(self._numbers()[0], 2))[0]


class ByClass(_Sums):
    """precision, recall or f1, computed by `measures.of_classes`."""

    def __init__(self, name: str, classes: int, logits: bool) -> None:
        super().__init__((classes,), (classes,), (classes,))
        self._name, self._classes, self._logits = name, classes, logits

    def update_state(self, labels: Any, outputs: Any, sample_weight: Any = None) -> None:
        """Add rows. labels: class indices [rows, ...]; outputs [rows, ..., 1 or classes]; sample_weight [rows]."""
        if outputs.shape[-1] == 1:
            predicted = tf.cast(_second(outputs, self._logits) > 0.5, tf.int64)
        else:
            predicted = tf.reshape(tf.argmax(outputs, axis=-1), [-1])
        label, weights = tf.cast(_flat(labels), tf.int64), _weights(labels, sample_weight)
        right = weights * tf.cast(label == predicted, tf.float64)
        pairs = ((right, label), (weights, label), (weights, predicted))
        self._add(*(tf.math.unsorted_segment_sum(counted, of, self._classes) for counted, of in pairs))

    def result(self) -> float:
        """The metric; NaN without rows."""
        return measures.of_classes(*self._numbers())[self._name]


class _RootMeanSquare(_Sums):
    """The root of the mean squared error over all rows and numbers."""

    def __init__(self) -> None:
        super().__init__((), ())

    def update_state(self, labels: Any, outputs: Any, sample_weight: Any = None) -> None:
        """Add rows: labels and outputs [rows, ...]; sample_weight [rows]."""
        label, weights = _by_row(labels), _row_weights(labels, sample_weight)
        squares = tf.square(_by_row(outputs) - label) * weights
        self._add(tf.reduce_sum(squares), tf.reduce_sum(weights * tf.ones_like(label)))

    def result(self) -> float:
        """The root; NaN without rows."""
        squares, weight = self._numbers()
        return math.sqrt(squares / weight) if weight else math.nan


class R2(_Sums):
    """The share of the labels' variance that the outputs explain, computed by `measures.r2`.

    means: the approximate mean of each number of a label, equal on all nodes. Sums use the squared distances from these
    means. The squares of large numbers that lie close together would lose the spread.
    """

    def __init__(self, means: Sequence[float]) -> None:
        values = len(means)
        super().__init__((), (values,), (values,), (values,))
        self._means = np.array(means, np.float64)

    def update_state(self, labels: Any, outputs: Any, sample_weight: Any = None) -> None:
        """Add rows: labels and outputs [rows, ...]; sample_weight [rows]."""
        label, weights = _by_row(labels), _row_weights(labels, sample_weight)
        distance = label - self._means
        sums = [weights * values for values in (distance, tf.square(distance), tf.square(_by_row(outputs) - label))]
        self._add(tf.reduce_sum(weights), *(tf.reduce_sum(each, axis=0) for each in sums))

    def result(self) -> float:
        """The share; NaN without rows."""
        weight, total, squares, errors = self._numbers()
        if not weight:
            return math.nan
        # Rounding errors of a constant label are not spread. float64 sums squares to about 1e-16 of their sum.
        spread = squares - total**2 / weight
        return measures.r2(errors, np.where(spread > 1e-13 * squares, spread, 0.0))


def _second(outputs: Any, logits: bool) -> Any:
    """Return the second class's probability from one unit or two, float64, flat."""
    values = tf.cast(outputs, tf.float64)
    if outputs.shape[-1] == 1:
        return tf.reshape(tf.sigmoid(values) if logits else values, [-1])
    return tf.reshape((tf.nn.softmax(values) if logits else values)[..., 1], [-1])


def _log_odds(outputs: Any, logits: bool) -> Any:
    """Return log(p / (1 - p)) of the second class's probability p from one unit or two, float64, flat.

    The result is finite for finite outputs.
    """
    values = tf.cast(outputs, tf.float64)
    is_one = outputs.shape[-1] == 1
    if not logits:
        least, step = measures.floors(tf.as_dtype(outputs.dtype).as_numpy_dtype)
        shares = values if not is_one else tf.concat([tf.maximum(1 - values, step), values], axis=-1)
        values, is_one = tf.math.log(tf.maximum(shares, least)), False
    return tf.reshape(values if is_one else values[..., 1] - values[..., 0], [-1])


def _flat(labels: Any) -> Any:
    return tf.reshape(labels, [-1])


def _weights(labels: Any, sample_weight: Any) -> Any:
    """Return each label's weight, float64, flat: its row's weight, or 1."""
    ones = tf.ones_like(_by_row(labels))
    return tf.reshape(ones * _row_weights(labels, sample_weight), [-1])


def _row_weights(labels: Any, sample_weight: Any) -> Any:
    """Return each row's weight, or 1, as float64 [rows, 1]."""
    given = tf.ones_like(_by_row(labels)[:, 0]) if sample_weight is None else sample_weight
    return tf.reshape(tf.cast(given, tf.float64), [-1, 1])


def _by_row(values: Any) -> Any:
    """Return `values` as float64 [rows, numbers]."""
    rows = tf.shape(values)[0]
    return tf.cast(tf.reshape(values, [rows, math.prod(values.shape[1:])]), tf.float64)
