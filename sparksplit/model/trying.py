"""Tries losses and metrics on a few made-up rows. Each row must count by itself, for any split into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparksplit.dataset.description import LabelSpec


def some_rows(label: LabelSpec, shape: Sequence[int], dtype: Any) -> tuple[Any, Any]:
    """Return (labels, outputs) of made-up rows: labels as stored, and outputs as a model gives them.

    shape: shape of one row's outputs. dtype: dtype of the outputs. The number of rows differs from the size of every
    other axis. Otherwise labels [rows] could be taken for the label of one row.
    """
    rows = next(count for count in range(3, 100) if count not in (*shape, *label.shape))
    random = np.random.default_rng(rows)
    outputs = random.uniform(0.1, 0.9, (rows, *shape))
    if label.classes is None:
        labels: Any = random.uniform(0.1, 0.9, (rows, *label.shape))
    else:
        labels = np.arange(rows * label.values).reshape(rows, *label.shape) % len(label.classes)
        if shape[-1] > 1:
            outputs /= outputs.sum(axis=-1, keepdims=True)
    return tf.constant(labels, tf.as_dtype(label.dtype)), tf.constant(outputs, dtype)


def losses_by_row(loss: Callable[[Any, Any], Any], labels: Any, outputs: Any) -> bool:
    """Return whether the loss gives one value per row that depends on this row alone. Raise any error of `loss`."""
    whole = np.asarray(loss(labels, outputs))
    if not whole.ndim or len(whole) != len(labels):
        return False
    parts = [np.asarray(loss(labels[part], outputs[part])) for part in (slice(0, 1), slice(1, None))]
    if any(part.shape[1:] != whole.shape[1:] for part in parts):
        return False
    return _same(np.concatenate(parts), whole)


def sums_by_row(metric: Any, labels: Any, outputs: Any) -> bool:
    """Return whether the metric's sums over rows do not depend on how the rows are split. Reset the metric.

    Raise any error of the metric.
    """
    cut = _sums(metric, labels, outputs, slice(0, 1), slice(1, None))
    return all(map(_same, _sums(metric, labels, outputs, slice(None)), cut))


def counts_by_weight(metric: Any, labels: Any, outputs: Any) -> bool:
    """Return whether a row of weight 2 counts like two copies of this row. Reset the metric."""
    weights = tf.constant([2.0] + [1.0] * (len(labels) - 1), outputs.dtype)
    twice = _sums(metric, labels, outputs, slice(0, 1), slice(None))
    try:
        return all(map(_same, _sums(metric, labels, outputs, slice(None), sample_weight=weights), twice))
    except (ValueError, TypeError, tf.errors.OpError):  # the metric takes a weight per number, or no weights
        metric.reset_state()
        return False


def _sums(metric: Any, labels: Any, outputs: Any, *parts: slice, **weights: Any) -> list[npt.NDArray[Any]]:
    """Return the metric's sums after updates with the rows of `parts`, one part after the other. Reset the metric."""
    for part in parts:
        metric.update_state(labels[part], outputs[part], **weights)
    sums = [np.array(variable.numpy()) for variable in metric.variables]
    metric.reset_state()
    return sums


def _same(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Return whether two arrays are equal, except for rounding."""
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)
