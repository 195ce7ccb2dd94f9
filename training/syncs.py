"""Syncs: what the nodes exchange, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from training.transport import Transport


class Sync(Protocol):
    """What happens between the nodes' gradients and their weights.

    every_step: whether the nodes exchange at every step, and so hold the same weights and optimizer state after it.
    """

    every_step: bool

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        """Apply one update, inside a tf.function; the mean loss of the mini-batch, over all nodes if `every_step`.

        values: this node's part of means over the rows of the mini-batch, of all nodes if `every_step`: the gradients,
        one per trainable variable; the non-trainable float variables times the node's part of the rows; the loss.
        """

    def finish_round(self, model: Any, rows: int) -> None:
        """Make the nodes agree at a round's end. rows: that this node has trained on in it."""


class StepSync:
    """Gradients at every step, summed over the nodes and applied by every node alike.

    Each node's part is a sum over its rows divided by the rows of the whole mini-batch: so weighted, N nodes equal one
    (the mean over a mini-batch does not know who computed it).
    """

    every_step = True

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

    def finish_round(self, model: Any, rows: int) -> None:
        return


class RoundSync:
    """Weights, and non-trainable floats, averaged by rows at each round's end; between, each node goes its own way.

    The optimizer's state stays with its node. Averaging models that were trained apart: McDonald et al., "Distributed
    Training Strategies for the Structured Perceptron" (2010), as iterative parameter mixing.
    """

    every_step = False

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        trainable = model.trainable_variables
        optimizer.apply(values[: len(trainable)], trainable)
        return values[-1]

    def finish_round(self, model: Any, rows: int) -> None:
        from training.step import averaged_state

        if self._transport.size == 1:
            return
        variables = [*model.trainable_variables, *averaged_state(model)]
        *sums, total = self._transport.sum(
            [*(np.asarray(variable.numpy()) * rows for variable in variables), np.array(rows, np.int64)]
        )
        for variable, weighted in zip(variables, sums, strict=True):
            variable.assign(weighted / int(total))
