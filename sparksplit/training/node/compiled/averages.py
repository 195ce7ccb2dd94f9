"""The moving averages of the weights that an optimizer may keep, on a node. A run ends with them, and is judged by
them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sparksplit.collectives import Collective
from sparksplit.collectives.narrow import widened
from sparksplit.model.optimizers import averages


def agree(model: Any, optimizer: Any, rows: int, collective: Collective) -> None:
    """Average the moving averages by rows, if nodes have their own optimizers. Every node must call this.

    rows: rows that this node has trained on since the last time.
    The mean of the nodes' moving averages is the moving average of the nodes' mean weights.
    """
    variables = [average for _, average in averages(optimizer, model.trainable_variables)]
    if not variables or collective.size == 1:
        return
    parts = [part * part.dtype.type(rows) for part in widened([average.numpy() for average in variables])]
    *sums, total = collective.sum([*parts, np.array(rows, np.int64)])
    if total:
        for average, part in zip(variables, sums, strict=True):
            average.assign(part / part.dtype.type(total))


@contextmanager
def in_place(model: Any, optimizer: Any) -> Iterator[None]:
    """Give the model its moving averages for the block, and its weights back afterwards. Do nothing without moving
    averages."""
    pairs = averages(optimizer, model.trainable_variables)
    kept = [np.array(variable.numpy()) for variable, _ in pairs]
    for variable, average in pairs:
        variable.assign(average.numpy())
    try:
        yield
    finally:
        for (variable, _), weight in zip(pairs, kept, strict=True):
            variable.assign(weight)
