"""Syncs: what the nodes exchange, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from training.transport import Transport


class Sync(Protocol):
    """What happens between a node's gradients and the weights; called inside a tf.function."""

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        """Apply one update; the mean loss of the mini-batch over all nodes.

        values: this node's part of means over the rows of the global mini-batch: the gradients, one per trainable
        variable; the non-trainable float variables times the node's part of the rows; the loss.
        """


class StepSync:
    """Gradients at every step, summed over the nodes and applied by every node alike.

    Each node's part is a sum over its rows divided by the rows of the whole mini-batch: so weighted, N nodes equal one
    (the mean over a mini-batch does not know who computed it).
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        import tensorflow as tf

        from training.step import averaged_state

        trainable, state = model.trainable_variables, averaged_state(model)
        *sums, loss = self._transport.sum_tensors(values)
        optimizer.apply(sums[: len(trainable)], trainable)
        if self._transport.size > 1:
            for variable, average in zip(state, sums[len(trainable) :], strict=True):
                variable.assign(tf.raw_ops.DeepCopy(x=average))
        # What is kept must not lie in the transport's buffers, which the next sums overwrite.
        return tf.raw_ops.DeepCopy(x=loss)
