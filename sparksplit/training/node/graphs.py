"""What a model computes from a node's rows, as parts of TensorFlow graphs: losses, gradients, and evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from sparksplit.model.inputs import Inputs
from sparksplit.strategies.state import averaged_state
from sparksplit.training.node.metrics import Metrics


class Graphs:
    """loss: a keras loss without reduction: it maps (labels, outputs) to one value per row, or per row and position.

    inputs: how stored values become the model's.
    """

    def __init__(self, model: Any, loss: Any, metrics: Metrics, inputs: Inputs) -> None:
        self._model, self._loss, self._metrics, self._inputs = model, loss, metrics, inputs
        self.float = tf.as_dtype(keras.config.floatx())
        # Metrics make their variables now, outside the graphs.
        examples, labels = inputs.examples()
        metrics.update(labels, model(examples, training=False))
        metrics.reset()
        self.loss_sum = tf.Variable(0.0, dtype=self.float, trainable=False)
        """The summed loss of the rows that `evaluate` has seen."""

    def forward(self, share: Sequence[Any], total: Any) -> list[Any]:
        """This node's part of the means over the mini-batch's `total` rows: gradients, averaged state, loss.

        share: the node's rows of the mini-batch, as columns of stored values.
        """
        inputs, labels = self._inputs.decode(share)
        part = tf.cast(tf.shape(share[0])[0], self.float) / total
        with tf.GradientTape() as tape:
            outputs = self._model(inputs, training=True)
            loss = self._row_losses(labels, outputs) / total
            if self._model.losses:
                loss += part * tf.cast(tf.add_n(self._model.losses), self.float)
        trainable = [variable.value for variable in self._model.trainable_variables]
        gradients = tape.gradient(loss, trainable, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        self._metrics.update(labels, outputs)
        state = [variable.value * tf.cast(part, variable.dtype) for variable in averaged_state(self._model)]
        return [*map(tf.convert_to_tensor, gradients), *state, loss]

    def nothing(self) -> list[Any]:
        """What `forward` would give for no rows."""
        shaped = [*self._model.trainable_variables, *averaged_state(self._model)]
        return [*(tf.zeros(variable.shape, variable.dtype) for variable in shaped), tf.zeros((), self.float)]

    def forward_if_any(self, share: Sequence[Any], any_rows: Any, total: Any) -> list[Any]:
        """`forward`, or `nothing` if `any_rows` is false, since some layers have no gradient for no rows."""
        found: list[Any] = tf.cond(any_rows, lambda: self.forward(share, total), self.nothing)
        return found

    def evaluate(self, *arguments: Any) -> Any:
        """Add a chunk's rows to the metrics and to `loss_sum`. arguments: its columns, its mini-batches' offsets."""
        *columns, offsets = arguments
        updates = tf.shape(offsets)[0] - 1

        def batch(index: Any) -> Any:
            share = [column[offsets[index] : offsets[index + 1]] for column in columns]

            def add() -> Any:
                inputs, labels = self._inputs.decode(share)
                outputs = self._model(inputs, training=False)
                self.loss_sum.assign_add(self._row_losses(labels, outputs))
                self._metrics.update(labels, outputs)
                return index + 1

            return (tf.cond(offsets[index + 1] > offsets[index], add, lambda: index + 1),)

        done = tf.while_loop(lambda index: index < updates, batch, (0,), parallel_iterations=1)
        return done[0]

    def _row_losses(self, labels: Any, outputs: Any) -> Any:
        """The sum over rows of each row's loss; positions within a row are averaged."""
        losses = tf.cast(self._loss(labels, outputs), self.float)
        if losses.shape.rank is not None and losses.shape.rank > 1:
            losses = tf.reduce_mean(losses, axis=list(range(1, losses.shape.rank)))
        return tf.reduce_sum(losses)
