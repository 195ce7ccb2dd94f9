"""The compiled part of training: many updates in one call of a tf.function, and evaluation.

Each update turns the node's rows of one mini-batch into gradients, lets the sync exchange what it exchanges, and
applies the optimizer. Looping over a chunk's updates inside TensorFlow saves the calls from Python, which cost a small
model more than its arithmetic.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from sparksplit.base.memory import is_aligned
from sparksplit.collectives import Collective
from sparksplit.model.inputs import Inputs
from sparksplit.rows.chunks import Chunk
from sparksplit.strategies.syncs import Sync
from sparksplit.training.node.graphs import Graphs
from sparksplit.training.node.metrics import Metrics

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

    loss: a keras loss without reduction: it maps (labels, outputs) to one value per row, or per row and position.
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
        self._model, self._optimizer = model, optimizer
        self._sync, self._collective = sync, collective
        optimizer.build(model.trainable_variables)
        self._metrics = Metrics(metrics)
        self._graphs = Graphs(model, loss, self._metrics, inputs)
        self._signature = [*inputs.signature(), _COUNTS]
        self._train: dict[tuple[int | None, type[Sync]], Any] = {}
        self._part = tf.function(self._forward_part, input_signature=[*self._signature[:-1], _TOTAL], autograph=False)
        self._applying = _Applying(optimizer, model.trainable_variables)
        self._evaluate = tf.function(self._graphs.evaluate, input_signature=self._signature, autograph=False)
        self.warmup = 0.0
        """Seconds spent on making graphs."""

    def train(self, chunk: Chunk) -> Array:
        """Run the chunk's updates; returns each one's mean loss over all nodes' rows, [updates].

        Raises the collective's own error if an exchange failed.
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
            # A call with no updates, so that compiling is not counted as time of updates.
            nothing = [tf.zeros((0, *spec.shape[1:]), spec.dtype) for spec in self._signature[:-1]]
            function(*nothing, np.zeros(1, np.int64), np.zeros(0, np.int64))
            self.warmup += time.perf_counter() - began
        losses: Array = self._call(function, chunk, chunk.rows)
        self._collective.account(chunk.updates)
        return losses

    def with_sync(self, sync: Sync, collective: Collective) -> Step:
        """The same model and graphs, with another sync or for another virtual node."""
        other = copy.copy(self)
        other._sync, other._collective = sync, collective
        return other

    def variables(self) -> list[Any]:
        """All that training and evaluation change."""
        model, optimizer = self._model.variables, self._optimizer.variables
        return [*model, *optimizer, *self._metrics.variables(), self._graphs.loss_sum]

    def synchronise(self, rows: int) -> None:
        """Make the nodes agree. rows: how many this node has trained on since. Every node must call it."""
        self._sync.agree(self._model, rows)

    def is_finite(self) -> bool:
        """Whether all trainable weights are finite numbers."""
        return all(bool(np.isfinite(variable.numpy()).all()) for variable in self._model.trainable_variables)

    def metric_results(self) -> dict[str, float]:
        """The metrics since the last call, over all nodes; resets them. Every node must call it."""
        return self._metrics.results(self._collective)

    def metric_sums(self) -> dict[str, Array]:
        """The state of the metrics, summed over all nodes, for a checkpoint. Every node must call it."""
        return self._metrics.sums(self._collective)

    def restore_metrics(self, sums: Mapping[str, Array]) -> None:
        """Go on from what `metric_sums` returned."""
        self._metrics.restore(sums)

    def evaluate(self, chunks: Iterable[Chunk]) -> Evaluation:
        """Loss and metrics over `chunks`, summed over all nodes. Every node must call it."""
        loss_sum = self._graphs.loss_sum
        loss_sum.assign(0.0)
        self._metrics.reset()
        rows = 0
        for chunk in chunks:
            self._call(self._evaluate, chunk)
            rows += chunk.seen.rows
        loss, total = self._collective.sum([np.asarray(loss_sum.numpy(), np.float64), np.array(rows, np.int64)])
        return Evaluation(float(loss) / max(1, int(total)), self.metric_results(), int(total))

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
        """The losses of a chunk's updates. even: the rows of every share, if they are equal."""
        *columns, offsets, totals = arguments
        updates, graphs = tf.shape(totals)[0], self._graphs

        def update(index: Any, losses: Any) -> Any:
            begin, end = offsets[index], offsets[index + 1]
            total = tf.cast(totals[index], graphs.float)
            if even:
                # Static shapes save a tenth of a small model's time.
                values = graphs.forward([_rows(column, begin, even) for column in columns], total)
            elif self._collective.size == 1:
                values = graphs.forward([column[begin:end] for column in columns], total)
            else:
                values = graphs.forward_if_any([column[begin:end] for column in columns], end > begin, total)
            loss = self._sync.update(values, self._model, self._optimizer)
            # It may lie in the collective's buffers, which the next sums overwrite.
            return index + 1, losses.write(index, tf.raw_ops.DeepCopy(x=loss))

        losses = tf.TensorArray(graphs.float, updates, element_shape=())
        _, losses = tf.while_loop(lambda index, _: index < updates, update, (0, losses), parallel_iterations=1)
        return losses.stack()

    def _train_by_updates(self, chunk: Chunk) -> Array:
        """Like `train`, with every exchange outside the graphs."""
        columns = chunk.tensors if chunk.label is None else [*chunk.tensors, chunk.label]
        losses = []
        for begin, end, total in zip(chunk.offsets[:-1], chunk.offsets[1:], chunk.rows, strict=True):
            values = self._part(*(column[begin:end] for column in columns), total)
            losses.append(float(self._sync.update(values, self._model, self._applying)))
        return np.array(losses)

    def _forward_part(self, *arguments: Any) -> list[Any]:
        *share, rows = arguments
        total = tf.cast(rows, self._graphs.float)
        return list(self._graphs.forward_if_any(share, tf.shape(share[0])[0] > 0, total))


class _Applying:
    """An optimizer's `apply`, compiled, for eager gradients of all trainable variables."""

    def __init__(self, optimizer: Any, variables: Sequence[Any]) -> None:
        self._compiled = tf.function(lambda gradients: optimizer.apply(gradients, variables), autograph=False)

    def apply(self, gradients: Sequence[Any], _: Sequence[Any]) -> None:
        self._compiled(list(gradients))


def as_tensor(array: Array) -> Any:
    """The array as a tensor, without a copy if it is aligned (tf.constant copies twice); not to be changed again."""
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__()) if is_aligned(array) else tf.constant(array)


def _rows(column: Any, begin: Any, count: int) -> Any:
    """column[begin:begin + count], with a static shape."""
    rest = column.shape[1:]
    return tf.slice(column, [begin, *[0] * rest.rank], [count, *rest])
