"""The compiled part of training: many updates in one call of a tf.function, and evaluation.

Each update takes the node's rows of one mini-batch to gradients, lets the sync exchange what it exchanges, and applies
the optimizer. Looping over a chunk's updates inside TensorFlow saves the calls from Python, which cost a small model
more than its arithmetic.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparksplit.base.memory import is_aligned
from sparksplit.collectives import Collective
from sparksplit.model.inputs import Inputs
from sparksplit.rows.chunks import Chunk
from sparksplit.strategies.state import averaged_state
from sparksplit.strategies.syncs import Sync

Array = npt.NDArray[Any]
_COUNTS = tf.TensorSpec((None,), tf.int64)
_TOTAL = tf.TensorSpec((), tf.int64)


@dataclass(frozen=True)
class Evaluation:
    """loss: mean over rows. metrics: name to value. rows: over all nodes."""

    loss: float
    metrics: dict[str, float]
    rows: int


class Step:
    """One model, one optimizer, one loss, and their compiled updates.

    loss: a keras loss without reduction: (labels, outputs) to one value per row, or per row and position.
    metrics: fresh keras metrics by name. inputs: how stored values become the model's.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loss: Any,
        metrics: dict[str, Any],
        inputs: Inputs,
        sync: Sync,
        collective: Collective,
    ) -> None:
        self._model, self._optimizer, self._loss, self._inputs = model, optimizer, loss, inputs
        self._metrics, self._sync, self._collective = metrics, sync, collective
        self._float = tf.as_dtype(keras.config.floatx())
        optimizer.build(model.trainable_variables)
        self._build_metrics()
        self._signature = [*inputs.signature(), _COUNTS]
        self._train: dict[tuple[int | None, type[Sync]], Any] = {}
        self._part = tf.function(self._forward_part, input_signature=[*self._signature[:-1], _TOTAL], autograph=False)
        self._applying = _Applying(optimizer, model.trainable_variables)
        self._evaluate = tf.function(self._evaluate_chunk, input_signature=self._signature, autograph=False)
        self._loss_sum = tf.Variable(0.0, dtype=self._float, trainable=False)
        self.warmup = 0.0
        """Seconds spent on making graphs."""

    def train(self, chunk: Chunk) -> Array:
        """Run the chunk's updates; the mean loss over all nodes' rows of each, [updates].

        Raises the collective's own error where an exchange failed.
        """
        if self._sync.every_step and not self._collective.in_graphs:
            return self._train_by_updates(chunk)
        share = None if self._collective.same_graphs else chunk.share
        function = self._train.get((share, type(self._sync)))
        if function is None:
            began = time.perf_counter()
            function = self._train[share, type(self._sync)] = tf.function(
                partial(self._train_chunk, share), input_signature=[*self._signature, _COUNTS], autograph=False
            )
            # No updates: what is compiled now says nothing about the time of updates.
            nothing = [tf.zeros((0, *spec.shape[1:]), spec.dtype) for spec in self._signature[:-1]]
            function(*nothing, np.zeros(1, np.int64), np.zeros(0, np.int64))
            self.warmup += time.perf_counter() - began
        losses: Array = self._call(function, chunk, chunk.rows)
        self._collective.account(chunk.updates)
        return losses

    def with_sync(self, sync: Sync, collective: Collective) -> Step:
        """The same model and graphs, with another sync or as another virtual node."""
        other = copy.copy(self)
        other._sync, other._collective = sync, collective
        return other

    def variables(self) -> list[Any]:
        """All that training and evaluation change."""
        return [*self._model.variables, *self._optimizer.variables, *self._metric_variables(), self._loss_sum]

    def synchronise(self, rows: int) -> None:
        """Make the nodes agree. rows: that this node has trained on since they did. Every node must call it."""
        self._sync.agree(self._model, rows)

    def is_finite(self) -> bool:
        """Whether all trainable weights are finite numbers."""
        return all(bool(np.isfinite(variable.numpy()).all()) for variable in self._model.trainable_variables)

    def metric_results(self) -> dict[str, float]:
        """The metrics since the last call, over all nodes; resets them. Every node must call it."""
        variables = self._metric_variables()
        sums = self._collective.sum([np.asarray(variable.numpy()) for variable in variables])
        for variable, value in zip(variables, sums, strict=True):
            variable.assign(value)
        results = {name: float(np.mean(metric.result())) for name, metric in self._metrics.items()}
        for metric in self._metrics.values():
            metric.reset_state()
        return results

    def metric_sums(self) -> dict[str, Array]:
        """The state of the metrics, summed over all nodes, for a checkpoint. Every node must call it."""
        variables = self._metric_variables()
        sums = self._collective.sum([np.asarray(variable.numpy()) for variable in variables])
        return {f"m{place:04d}": np.array(value) for place, value in enumerate(sums)}

    def restore_metrics(self, sums: Mapping[str, Array]) -> None:
        """Go on from what `metric_sums` gave."""
        for place, variable in enumerate(self._metric_variables()):
            variable.assign(sums[f"m{place:04d}"])

    def evaluate(self, chunks: Iterable[Chunk]) -> Evaluation:
        """Loss and metrics over `chunks`, summed over all nodes. Every node must call it."""
        self._loss_sum.assign(0.0)
        for metric in self._metrics.values():
            metric.reset_state()
        rows = 0
        for chunk in chunks:
            self._call(self._evaluate, chunk)
            rows += chunk.seen.rows
        loss, total = self._collective.sum([np.asarray(self._loss_sum.numpy(), np.float64), np.array(rows, np.int64)])
        return Evaluation(float(loss) / max(1, int(total)), self.metric_results(), int(total))

    def _metric_variables(self) -> list[Any]:
        return [variable for metric in self._metrics.values() for variable in metric.variables]

    # The graphs.

    def _call(self, function: Any, chunk: Chunk, *more: Any) -> Any:
        columns = chunk.tensors if chunk.label is None else [*chunk.tensors, chunk.label]
        try:
            return function(*map(as_tensor, columns), chunk.offsets, *more).numpy()
        except tf.errors.OpError as error:
            hidden = self._collective.cause(error)
            if hidden is not None:
                raise hidden from None
            raise

    def _train_chunk(self, even: int | None, *arguments: Any) -> Any:
        """The losses of a chunk's updates. even: the rows of every share, where they are equal."""
        *columns, offsets, totals = arguments
        updates = tf.shape(totals)[0]

        def update(index: Any, losses: Any) -> Any:
            begin, end = offsets[index], offsets[index + 1]
            total = tf.cast(totals[index], self._float)
            if even:
                # Static shapes spare TensorFlow a tenth of a small model's time.
                values = self._forward([_rows(column, begin, even) for column in columns], total)
            elif self._collective.size == 1:
                values = self._forward([column[begin:end] for column in columns], total)
            else:
                # A share may be empty, and some layers have no gradient for no rows.
                share = [column[begin:end] for column in columns]
                values = tf.cond(end > begin, lambda: self._forward(share, total), self._nothing)
            loss = self._sync.update(values, self._model, self._optimizer)
            # It may lie in the collective's buffers, which the next sums overwrite.
            return index + 1, losses.write(index, tf.raw_ops.DeepCopy(x=loss))

        losses = tf.TensorArray(self._float, updates, element_shape=())
        _, losses = tf.while_loop(lambda index, _: index < updates, update, (0, losses), parallel_iterations=1)
        return losses.stack()

    def _train_by_updates(self, chunk: Chunk) -> Array:
        """As `train`, with every exchange outside the graphs."""
        columns = chunk.tensors if chunk.label is None else [*chunk.tensors, chunk.label]
        losses = []
        for begin, end, total in zip(chunk.offsets[:-1], chunk.offsets[1:], chunk.rows, strict=True):
            values = self._part(*(column[begin:end] for column in columns), total)
            losses.append(float(self._sync.update(values, self._model, self._applying)))
        return np.array(losses)

    def _forward_part(self, *arguments: Any) -> list[Any]:
        *share, rows = arguments
        total = tf.cast(rows, self._float)
        return list(tf.cond(tf.shape(share[0])[0] > 0, lambda: self._forward(share, total), self._nothing))

    def _forward(self, share: Sequence[Any], total: Any) -> list[Any]:
        """This node's part of the means over the mini-batch's `total` rows: gradients, averaged state, loss."""
        inputs, labels = self._inputs.decode(share)
        part = tf.cast(tf.shape(share[0])[0], self._float) / total
        with tf.GradientTape() as tape:
            outputs = self._model(inputs, training=True)
            loss = self._row_losses(labels, outputs) / total
            if self._model.losses:
                loss += part * tf.cast(tf.add_n(self._model.losses), self._float)
        trainable = [variable.value for variable in self._model.trainable_variables]
        gradients = tape.gradient(loss, trainable, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        self._update_metrics(labels, outputs)
        state = [variable.value * tf.cast(part, variable.dtype) for variable in averaged_state(self._model)]
        return [*map(tf.convert_to_tensor, gradients), *state, loss]

    def _nothing(self) -> list[Any]:
        shaped = [*self._model.trainable_variables, *averaged_state(self._model)]
        return [*(tf.zeros(variable.shape, variable.dtype) for variable in shaped), tf.zeros((), self._float)]

    def _row_losses(self, labels: Any, outputs: Any) -> Any:
        """The sum over rows of each row's loss; positions within a row are averaged."""
        losses = tf.cast(self._loss(labels, outputs), self._float)
        if losses.shape.rank is not None and losses.shape.rank > 1:
            losses = tf.reduce_mean(losses, axis=list(range(1, losses.shape.rank)))
        return tf.reduce_sum(losses)

    def _evaluate_chunk(self, *arguments: Any) -> Any:
        *columns, offsets = arguments
        updates = tf.shape(offsets)[0] - 1

        def batch(index: Any) -> Any:
            share = [column[offsets[index] : offsets[index + 1]] for column in columns]

            def add() -> Any:
                inputs, labels = self._inputs.decode(share)
                outputs = self._model(inputs, training=False)
                self._loss_sum.assign_add(self._row_losses(labels, outputs))
                self._update_metrics(labels, outputs)
                return index + 1

            return (tf.cond(offsets[index + 1] > offsets[index], add, lambda: index + 1),)

        done = tf.while_loop(lambda index: index < updates, batch, (0,), parallel_iterations=1)
        return done[0]

    def _update_metrics(self, labels: Any, outputs: Any) -> None:
        for metric in self._metrics.values():
            metric.update_state(labels, outputs)

    def _build_metrics(self) -> None:
        """Let metrics make their variables now, outside the graphs."""
        inputs, labels = self._inputs.examples()
        outputs = self._model(inputs, training=False)
        for metric in self._metrics.values():
            metric.update_state(labels, outputs)
            metric.reset_state()


class _Applying:
    """An optimizer's `apply`, compiled, for eager gradients of all trainable variables."""

    def __init__(self, optimizer: Any, variables: Sequence[Any]) -> None:
        self._compiled = tf.function(lambda gradients: optimizer.apply(gradients, variables), autograph=False)

    def apply(self, gradients: Sequence[Any], _: Sequence[Any]) -> None:
        self._compiled(list(gradients))


def as_tensor(array: Array) -> Any:
    """The array as a tensor, without a copy where it is aligned (tf.constant copies twice); not to be changed again."""
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__()) if is_aligned(array) else tf.constant(array)


def _rows(column: Any, begin: Any, count: int) -> Any:
    """column[begin:begin + count], of static shape."""
    rest = column.shape[1:]
    return tf.slice(column, [begin, *[0] * rest.rank], [count, *rest])
