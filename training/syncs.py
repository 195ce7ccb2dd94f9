"""Syncs: what the nodes exchange, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from training.transport import Transport


class Sync(Protocol):
    """What happens between a node's gradients and the weights; called inside a tf.function."""

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> tuple[Any, Any]:
        """Apply one update.

        values: the gradients of the loss summed over the node's rows, one per trainable variable; the non-trainable
        float variables times the rows; the summed loss; the rows. Returns (summed loss, rows) over all nodes.
        """


class StepSync:
    """Gradients at every step: summed over the nodes, divided by the rows, applied by every node alike.

    The weighting by rows is what makes N nodes equal one (the sum over a mini-batch does not know who computed it).
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> tuple[Any, Any]:
        from training.step import averaged_state

        trainable, state = model.trainable_variables, averaged_state(model)
        *sums, loss, rows = self._transport.sum_tensors(values)
        gradients, averages = sums[: len(trainable)], sums[len(trainable) :]
        optimizer.apply([gradient / _like(rows, gradient) for gradient in gradients], trainable)
        if self._transport.size > 1:
            for variable, total in zip(state, averages, strict=True):
                variable.assign(total / _like(rows, total))
        return loss, rows


def _like(value: Any, other: Any) -> Any:
    import tensorflow as tf

    return tf.cast(value, other.dtype)
