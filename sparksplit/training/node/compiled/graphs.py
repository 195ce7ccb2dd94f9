"""Parts of TensorFlow graphs that compute from a node's rows: losses, gradients, and evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from sparksplit.collectives.narrow import widened_tensors
from sparksplit.model.floats import outputs_of
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.graphs.weights import Weights
from sparksplit.strategies.slices import no_rows, used_rows
from sparksplit.strategies.state import averaged_state
from sparksplit.training.node.compiled.accumulated import accumulated
from sparksplit.training.node.compiled.metrics import Metrics


class Graphs:
    """Builds graph parts of one model.

    loss: a Keras loss without reduction. It maps (labels, outputs) to one value per row, or per row and position.
    inputs: turns stored values into the model's inputs.
    weights: the weight of each row.
    parts: number of parts in which a node computes its rows of a mini-batch.
    scale_loss: the optimizer's method. Gradients are computed of the loss that it returns.
    jit: whether XLA compiles the model's passes.
    """

    def __init__(
        self,
        model: Any,
        loss: Any,
        metrics: Metrics,
        inputs: Inputs,
        weights: Weights,
        parts: int,
        scale_loss: Callable[[Any], Any],
        jit: bool = False,
    ) -> None:
        self._model, self._loss, self._metrics, self._inputs = model, loss, metrics, inputs
        self._scale_loss = scale_loss
        self._passes = tf.function(self._both_passes, jit_compile=True, autograph=False) if jit else self._both_passes
        self._weights, self._parts = weights, parts
        self.float = tf.as_dtype(keras.config.floatx())
        # Metrics make their variables at their first update, which must be outside the graphs.
        examples, labels = inputs.examples()
        metrics.update(labels, outputs_of(model, examples, training=False))
        metrics.reset()
        # float64 for sums over all rows: float32 stops counting at 2^24 rows.
        self.loss_sum = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        """The summed loss of the rows that `evaluate` has seen."""
        self.weight_sum = tf.Variable(0.0, dtype=tf.float64, trainable=False) if weights.of_rows else None
        """The sum of the weights of these rows; None if rows have no weights."""

    def weight(self, share: Sequence[Any]) -> Any:
        """Return the sum of the training weights of a node's rows of a mini-batch; None if the loss is divided by the
        number of rows."""
        return tf.reduce_sum(self._weights.training(share)) if self._weights.divide_training else None

    def forward(self, share: Sequence[Any], total: Any, slices: bool = False, weight: Any = None) -> list[Any]:
        """Return this node's part of the means over the mini-batch's `total` rows: gradients (of the scaled loss),
        averaged state, loss.

        share: the node's rows of the mini-batch, as columns of stored values.
        slices: whether to return only the used rows of a large gradient.
        weight: the sum of the weights of all rows in the mini-batch. Gradients and loss are then means by weight. None:
            divide by the number of rows.
        """
        *gradients, loss = accumulated(share, self._parts, lambda rows: self._mean(rows, total, slices, weight))
        part = tf.cast(tf.shape(share[0])[0], self.float) / total
        state = [value * tf.cast(part, value.dtype) for value in self._state()]
        return [*gradients, *state, loss]

    def _mean(self, share: Sequence[Any], total: Any, slices: bool, weight: Any) -> list[Any]:
        """Return these rows' part of the mean over the mini-batch: gradients, loss."""
        inputs, labels = self._inputs.decode(share)
        weights = self._weights.training(share)
        part = tf.cast(tf.shape(share[0])[0], self.float) / total
        gradients, loss, outputs = self._passes(inputs, labels, weights, total, part, weight)
        self._metrics.update(labels, outputs, self._weights.of_metrics(weights))
        trainable = [variable.value for variable in self._model.trainable_variables]
        parts = map(used_rows, gradients, trainable) if slices else map(tf.convert_to_tensor, gradients)
        return [*parts, loss]

    def _both_passes(
        self, inputs: Any, labels: Any, weights: Any, total: Any, part: Any, weight: Any
    ) -> tuple[list[Any], Any, Any]:
        """Return (gradients, loss, the model's outputs). part: these rows' fraction of the mini-batch's rows."""
        with tf.GradientTape() as tape:
            outputs = outputs_of(self._model, inputs, training=True)
            losses = self._row_losses(labels, outputs, weights)
            loss = losses / total if weight is None else tf.math.divide_no_nan(losses, weight)
            if self._model.losses:
                loss += part * tf.cast(tf.add_n(self._model.losses), self.float)
            # The optimizer's `apply` removes the scale, if there is one, from the sums over all nodes.
            scaled = self._scale_loss(loss)
        trainable = [variable.value for variable in self._model.trainable_variables]
        gradients = tape.gradient(scaled, trainable, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return gradients, loss, outputs

    def nothing(self, like: Sequence[Any]) -> list[Any]:
        """Return what `forward` would return for no rows. like: its result for some rows."""
        shaped = [*(variable.value for variable in self._model.trainable_variables), *self._state()]
        parts = [
            no_rows(variable) if isinstance(part, tf.IndexedSlices) else tf.zeros(variable.shape, variable.dtype)
            for variable, part in zip(shaped, like[:-1], strict=True)
        ]
        return [*parts, tf.zeros((), self.float)]

    def forward_if_any(
        self, share: Sequence[Any], any_rows: Any, total: Any, slices: bool = False, weight: Any = None
    ) -> list[Any]:
        """Return `forward`, or `nothing` if `any_rows` is false, because some layers have no gradient for no rows."""
        like: list[Any] = []

        def some() -> list[Any]:
            like[:] = self.forward(share, total, slices, weight)
            return list(like)

        # TensorFlow traces the first branch first.
        parts: list[Any] = tf.cond(any_rows, some, lambda: self.nothing(like))
        return parts

    def _state(self) -> list[Any]:
        """Return the averaged state's values, none narrower than float32. A precision of 8 bits is too coarse for a
        share of the rows."""
        return widened_tensors([variable.value for variable in averaged_state(self._model)])

    def evaluate(self, *arguments: Any) -> Any:
        """Add a chunk's rows to the metrics, `loss_sum` and `weight_sum`. arguments: the chunk's columns, then the
        offsets of its mini-batches."""
        *columns, offsets = arguments
        updates = tf.shape(offsets)[0] - 1

        def batch(index: Any) -> Any:
            share = [column[offsets[index] : offsets[index + 1]] for column in columns]

            def add() -> Any:
                inputs, labels = self._inputs.decode(share)
                outputs = outputs_of(self._model, inputs, training=False)
                weights = self._weights.evaluation(share)
                self.loss_sum.assign_add(tf.cast(self._row_losses(labels, outputs, weights), tf.float64))
                if self.weight_sum is not None:
                    self.weight_sum.assign_add(tf.reduce_sum(tf.cast(weights, tf.float64)))
                self._metrics.update(labels, outputs, self._weights.of_metrics(weights))
                return index + 1

            return (tf.cond(offsets[index + 1] > offsets[index], add, lambda: index + 1),)

        done = tf.while_loop(lambda index: index < updates, batch, (0,), parallel_iterations=1)
        return done[0]

    def _row_losses(self, labels: Any, outputs: Any, weights: Any) -> Any:
        """Return the sum of the rows' losses, each times its weight if rows have weights. Positions in a row are
        averaged."""
        losses = tf.cast(self._loss(labels, outputs), self.float)
        if losses.shape.rank is not None and losses.shape.rank > 1:
            losses = tf.reduce_mean(losses, axis=list(range(1, losses.shape.rank)))
        return tf.reduce_sum(losses if weights is None else losses * weights)
