"""The moving averages of the weights that an optimizer may keep, on a node: what a run ends with, and is judged by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sparksplit.collectives import Collective
from sparksplit.collectives.narrow import widened
from sparksplit.model.optimizers import averages


def agree(model: Any, optimizer: Any, rows: int, collective: Collective) -> None:
    """Average them by rows, where nodes have optimizers of their own; every node must call it. rows: how many this node
    has trained on since the last time. The average of such averages is that of the nodes' mean weights."""
    own = [average for _, average in averages(optimizer, model.trainable_variables)]
    if not own or collective.size == 1:
        return
    parts = [part * part.dtype.type(rows) for part in widened([average.numpy() for average in own])]
    *sums, total = collective.sum([*parts, np.array(rows, np.int64)])
    if total:
        for average, part in zip(own, sums, strict=True):
            average.assign(part / part.dtype.type(total))


@contextmanager
def in_place(model: Any, optimizer: Any) -> Iterator[None]:
    """Give the model its averages for the block, and its weights back after it; nothing where there are none."""
    pairs = averages(optimizer, model.trainable_variables)
    kept = [np.array(variable.numpy()) for variable, _ in pairs]
    for variable, average in pairs:
        variable.assign(average.numpy())
    try:
        yield
    finally:
        for (variable, _), weight in zip(pairs, kept, strict=True):
            variable.assign(weight)
