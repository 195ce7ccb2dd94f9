"""Losses and metrics on a few made-up rows: whether each row counts by itself, however rows are cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparksplit.dataset.description import LabelSpec


def some_rows(label: LabelSpec, shape: Sequence[int], dtype: Any) -> tuple[Any, Any]:
    """(labels, outputs) of rows, as stored and as a model gives them. shape: of one row's outputs; dtype: of outputs.

    There are as many rows as no axis of theirs has numbers, so that labels [rows] are not taken for one row's.
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
    """Whether the loss gives one value per row, which depends on that row alone. Raises what `loss` raises."""
    whole = np.asarray(loss(labels, outputs))
    if not whole.ndim or len(whole) != len(labels):
        return False
    parts = [np.asarray(loss(labels[part], outputs[part])) for part in (slice(0, 1), slice(1, None))]
    if any(part.shape[1:] != whole.shape[1:] for part in parts):
        return False
    return _same(np.concatenate(parts), whole)


def sums_by_row(metric: Any, labels: Any, outputs: Any) -> bool:
    """Whether the metric's sums over rows are the same however rows are cut. It is reset. Raises what it raises."""
    cut = _sums(metric, labels, outputs, slice(0, 1), slice(1, None))
    return all(map(_same, _sums(metric, labels, outputs, slice(None)), cut))


def counts_by_weight(metric: Any, labels: Any, outputs: Any) -> bool:
    """Whether a row whose weight is 2 is to the metric as a row that comes twice. It is reset."""
    weights = tf.constant([2.0] + [1.0] * (len(labels) - 1), outputs.dtype)
    twice = _sums(metric, labels, outputs, slice(0, 1), slice(None))
    try:
        return all(map(_same, _sums(metric, labels, outputs, slice(None), sample_weight=weights), twice))
    except (ValueError, TypeError, tf.errors.OpError):  # it takes a weight for each number of a row, or none
        metric.reset_state()
        return False


def _sums(metric: Any, labels: Any, outputs: Any, *parts: slice, **weights: Any) -> list[npt.NDArray[Any]]:
    """The metric's sums over the rows of `parts`, one after the other; it is reset."""
    for part in parts:
        metric.update_state(labels[part], outputs[part], **weights)
    found = [np.array(variable.numpy()) for variable in metric.variables]
    metric.reset_state()
    return found


def _same(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """But for rounding."""
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)
