"""The compiled part of training: many updates in one call of a tf.function, and evaluation.

Each update computes gradients from the node's rows of one mini-batch, lets the sync exchange, and applies the
optimizer. The loop over a chunk's updates runs inside TensorFlow. The calls from Python would cost a small model more
than its arithmetic.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from hdfs_io import activity
from sparksplit.base.memory import is_aligned
from sparksplit.collectives import Collective
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.graphs.weights import Weights
from sparksplit.model.optimizers import built
from sparksplit.rows.assembler import Chunk
from sparksplit.strategies.slices import wants_slices
from sparksplit.strategies.state import observe
from sparksplit.strategies.syncs import Sync
from sparksplit.training.metric_facts import LOSS
from sparksplit.training.node.compiled import averages
from sparksplit.training.node.compiled.accumulated import rows_of
from sparksplit.training.node.compiled.graphs import Graphs
from sparksplit.training.node.compiled.metrics import Metrics
from sparksplit.training.node.jackknife import jackknife

Array = npt.NDArray[Any]
_COUNTS = tf.TensorSpec((None,), tf.int64)
_TOTAL = tf.TensorSpec((), tf.int64)


@dataclass(frozen=True)
class Evaluation:
    """The loss and the metrics of some rows. The loss is NaN if all rows have weight 0, and so are weighted metrics.

    loss: mean over rows, by weight if rows have weights (unless `reduction` is sum_over_batch_size).
    metrics: name to value.
    rows: number of rows over all nodes.
    """

    loss: float
    metrics: dict[str, float]
    rows: int


class Step:
    """One model, one optimizer, one loss, and their compiled updates.

    loss: a Keras loss without reduction. It maps (labels, outputs) to one value per row, or per row and position.
    metrics: new Keras metrics by name.
    inputs: turns stored values into the model's inputs.
    weights: the weight of each row.
    compiling: the context of calls that make graphs, or a device's code for graphs.
    accumulate: number of parts in which a node computes its rows of a mini-batch.
    jit: whether XLA compiles the model's passes.
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
        weights: Weights = Weights(),  # noqa: B008
        compiling: Callable[[], AbstractContextManager[None]] = nullcontext,
        accumulate: int = 1,
        jit: bool = False,
    ) -> None:
        self._model, self._optimizer, self._compiling = model, optimizer, compiling
        self._sync, self._collective = sync, collective
        built(optimizer, model.trainable_variables)
        self._metrics, self._weights = Metrics(metrics), weights
        self._graphs = Graphs(model, loss, self._metrics, inputs, weights, accumulate, optimizer.scale_loss, jit)
        observe(model, lambda *columns: model(inputs.decode(columns)[0], training=True), inputs.tensor_signature())
        self._signature = [*inputs.signature(), _COUNTS]
        self._train: dict[tuple[int | None, type[Sync]], Any] = {}
        columns = self._signature[:-1]
        self._weighted = weights.divide_training
        more = [tf.TensorSpec((), self._graphs.float)] if self._weighted else []
        self._part = tf.function(self._forward_part, input_signature=[*columns, _TOTAL, *more], autograph=False)
        self._weight = tf.function(lambda *share: self._graphs.weight(share), input_signature=columns, autograph=False)
        self._applying = _Applying(optimizer, model.trainable_variables)
        self._evaluate = tf.function(self._graphs.evaluate, input_signature=self._signature, autograph=False)
        self._ran: set[Any] = set()
        """Kinds of calls that have been made before: their graphs are made, and the device has code for them."""
        self.warmup = 0.0
        """Seconds spent on making graphs."""
        self.copying = 0.0
        """Seconds spent on copying rows to the device."""
        self._device = next((device.name for device in tf.config.list_logical_devices("GPU")), None)
        """The device that rows are copied to. None if rows are already in its memory."""

    def train(self, chunk: Chunk) -> Array:
        """Run the chunk's updates. Return the mean loss of each update, [updates].

        The loss is over all nodes' rows if the sync exchanges at every step, otherwise over this node's rows. Raise the
        collective's own error if an exchange failed.
        """
        share = None if self._collective.same_graphs else chunk.share
        with self._first(("train", share, type(self._sync))):
            return self._train_together(chunk, share)

    def _train_together(self, chunk: Chunk, share: int | None) -> Array:
        if self._sync.every_step and not self._collective.in_graphs:
            return self._train_by_updates(chunk)
        function = self._train.get((share, type(self._sync)))
        if function is None:
            function = self._train[share, type(self._sync)] = tf.function(
                partial(self._train_chunk, share), input_signature=[*self._signature, _COUNTS], autograph=False
            )
            self._warm_up(function, np.zeros(0, np.int64))
        losses: Array = self._call(function, chunk, chunk.rows)
        if self._sync.every_step:
            self._collective.account(chunk.updates)
        return losses

    def _warm_up(self, function: Any, *more: Any) -> None:
        """Call `function` with no updates, so that compiling does not count as time of updates."""
        began = time.perf_counter()
        nothing = [tf.zeros((0, *spec.shape[1:]), spec.dtype) for spec in self._signature[:-1]]
        function(*nothing, np.zeros(1, np.int64), *more)
        self.warmup += time.perf_counter() - began

    def gradients(self, chunk: Chunk) -> Iterator[list[Array]]:
        """Yield the gradients of each mini-batch of `chunk`, from this node's rows, without an update. If the loss is
        scaled, they are those of the scaled loss."""
        for values in self._parts(chunk):
            yield [np.asarray(part) for part in values[: len(self._model.trainable_variables)]]

    def with_sync(self, sync: Sync, collective: Collective) -> Step:
        """Return a step with this step's model and graphs, for another sync or another virtual node."""
        other = copy.copy(self)
        other._sync, other._collective = sync, collective
        return other

    @property
    def _slices(self) -> bool:
        """Whether only the used rows of large gradients are exchanged."""
        collective = self._collective
        return collective.size > 1 and not collective.same_shapes and wants_slices(self._sync)

    def variables(self) -> list[Any]:
        """Return all variables that training and evaluation change."""
        model, optimizer = self._model.variables, self._optimizer.variables
        return [*model, *optimizer, *self._metrics.variables(), *self._sums]

    def begin(self) -> None:
        """Take the present weights as the weights that all nodes have."""
        with self._first(("sync", type(self._sync))):
            began, exchanging = time.perf_counter(), self._collective.seconds
            self._sync.begin(self._model)
            self.warmup += time.perf_counter() - began - (self._collective.seconds - exchanging)

    def synchronise(self, rows: int) -> None:
        """Make the nodes agree. Every node must call this. rows: rows that this node has trained on since the last
        time."""
        self._sync.agree(self._model, rows)
        if not self._sync.every_step:
            averages.agree(self._model, self._optimizer, rows, self._collective)

    def averaged(self) -> AbstractContextManager[None]:
        """Return a block in which the model has the weights that a run would end with here: its moving averages, if
        any."""
        return averages.in_place(self._model, self._optimizer)

    def is_finite(self) -> bool:
        """Return whether all trainable weights are finite numbers."""
        return all(bool(np.isfinite(variable.numpy()).all()) for variable in self._model.trainable_variables)

    def metric_results(self) -> dict[str, float]:
        """Return the metrics since the last call, over all nodes, and reset them. Every node must call this."""
        return self._metrics.results(self._collective)

    def metric_sums(self) -> dict[str, Array]:
        """Return the state of the metrics of all nodes, for a checkpoint. Every node must call this."""
        return self._metrics.sums(self._collective)

    def restore_metrics(self, sums: Mapping[str, Array]) -> None:
        """Go on from the result of `metric_sums`."""
        self._metrics.restore(sums, self._collective)

    def evaluate(self, chunks: Iterable[Chunk]) -> Evaluation:
        """Return loss and metrics over `chunks`, summed over all nodes. Every node must call this."""
        rows = self._see(chunks)
        sums = [np.asarray(each.numpy(), np.float64) for each in self._sums]
        loss, *weight, total = self._collective.sum([*sums, np.array(rows, np.int64)])
        # Rows that all have weight 0 have no mean. A loss of 0 would be the best of all losses.
        weighs = float(weight[0]) if weight else float(total)
        divisor = weighs if self._weights.divide_evaluation else float(total)
        metrics = self.metric_results()
        if weight and not weighs and self._weights.in_metrics:
            metrics = dict.fromkeys(metrics, math.nan)
        return Evaluation(float(loss) / divisor if weighs else math.nan, metrics, int(total))

    def jackknife(self, lanes: Iterable[tuple[int, Iterable[Chunk]]], many: int) -> dict[str, list[float]]:
        """Return how far each lane's rows move loss and metrics, as in node.jackknife. Every node must call this.

        lanes: (lane, its chunks) for this node's lanes that have rows.
        many: number of lanes.
        """
        sums = ((lane, self._sums_of(chunks)) for lane, chunks in lanes)
        moves = jackknife(sums, self._sums_of(()), many, self._value_of, self._collective)
        self._metrics.reset()
        return moves

    def _sums_of(self, chunks: Iterable[Chunk]) -> dict[str, list[Array]]:
        """Return, by metric, the sums over this node's `chunks` that its value comes from, and what these rows count in
        it: the sum of their weights or their number."""
        rows = np.array(self._see(chunks), np.int64)
        loss, weight = np.array(self._graphs.loss_sum.numpy()), rows
        if self._graphs.weight_sum is not None:
            weight = np.array(self._graphs.weight_sum.numpy())
        size = weight if self._weights.in_metrics else rows
        metrics = {name: [*state, size] for name, state in self._metrics.states().items()}
        return {LOSS: [loss, weight if self._weights.divide_evaluation else rows], **metrics}

    def _value_of(self, name: str, sums: Sequence[Array]) -> float:
        """Return the loss or a metric for these sums; NaN for the loss if all rows have weight 0."""
        if name == LOSS:
            return float(sums[0]) / (float(sums[1]) or math.nan)
        return self._metrics.value_of(name, sums[:-1])

    @property
    def _sums(self) -> list[Any]:
        """The variables with the sum of losses and, if rows have weights, the sum of weights."""
        return [each for each in (self._graphs.loss_sum, self._graphs.weight_sum) if each is not None]

    def _see(self, chunks: Iterable[Chunk]) -> int:
        """Sum anew, over `chunks` alone. Return how many rows they have."""
        for each in self._sums:
            each.assign(0.0)
        self._metrics.reset()
        rows = 0
        for chunk in chunks:
            is_first = "evaluate" not in self._ran
            with self._first("evaluate"):
                if is_first:
                    self._warm_up(self._evaluate)
                self._call(self._evaluate, chunk)
            activity.note()
            rows += chunk.seen.rows
        return rows

    def _first(self, what: Any) -> AbstractContextManager[None]:
        """Return the context of a call: `compiling` for the first call of its kind."""
        if what in self._ran:
            return nullcontext()
        self._ran.add(what)
        return self._compiling()

    def _call(self, function: Any, chunk: Chunk, *more: Any) -> Any:
        columns = self._on_device(chunk)
        with self._collective.unhidden():
            return function(*columns, chunk.offsets, *more).numpy()

    def _on_device(self, chunk: Chunk) -> list[Any]:
        """Return the chunk's columns as tensors on the device that computes."""
        began = time.perf_counter()
        columns = [as_tensor(column) for column in _columns(chunk)]
        if self._device is not None:
            # Copy now, and wait. Otherwise TensorFlow copies within the graph, which would count as computing.
            with tf.device(self._device):
                columns = [tf.identity(column) for column in columns]
            tf.test.experimental.sync_devices()
        self.copying += time.perf_counter() - began
        return columns

    def _train_chunk(self, even: int | None, *arguments: Any) -> Any:
        """Return the losses of a chunk's updates. even: the rows of every share, if all shares are equal."""
        *columns, offsets, totals = arguments
        updates, graphs, slices = tf.shape(totals)[0], self._graphs, self._slices

        def update(index: Any, losses: Any) -> Any:
            begin, end = offsets[index], offsets[index + 1]
            total = tf.cast(totals[index], graphs.float)
            share = [rows_of(column, begin, even) if even else column[begin:end] for column in columns]
            weight = self._weight_of_all(graphs.weight(share))
            if even:
                # Static shapes save a tenth of a small model's time.
                values = graphs.forward(share, total, slices, weight)
            elif self._collective.size == 1:
                values = graphs.forward(share, total, weight=weight)
            else:
                values = graphs.forward_if_any(share, end > begin, total, slices, weight)
            loss = self._sync.update(values, self._model, self._optimizer)
            # The loss may lie in the collective's buffers, which the next sums overwrite.
            return index + 1, losses.write(index, tf.raw_ops.DeepCopy(x=loss))

        losses = tf.TensorArray(graphs.float, updates, element_shape=())
        _, losses = tf.while_loop(lambda index, _: index < updates, update, (0, losses), parallel_iterations=1)
        return losses.stack()

    def _train_by_updates(self, chunk: Chunk) -> Array:
        """Like `train`, with every exchange outside the graphs."""
        return np.array(
            [float(self._sync.update(values, self._model, self._applying)) for values in self._parts(chunk)]
        )

    def _parts(self, chunk: Chunk) -> Iterator[list[Any]]:
        """Yield this node's part of the means over each mini-batch of `chunk`, with the weights at that time."""
        columns = _columns(chunk)
        for begin, end, total in zip(chunk.offsets[:-1], chunk.offsets[1:], chunk.rows, strict=True):
            share = [column[begin:end] for column in columns]
            weight = [self._weight_of_all(self._weight(*share))] if self._weighted else []
            yield self._part(*share, total, *weight)

    def _weight_of_all(self, weight: Any) -> Any:
        """Return the sum of a mini-batch's weights over all nodes, from the sum over this node's rows.

        The sum takes an exchange of its own, before the exchange of the gradients. Syncs, also a user's own, get parts
        of a mean.
        """
        if weight is None or self._collective.size == 1 or not self._sync.every_step:
            return weight
        # Copied, because TensorFlow may use the sum as late as in the exchange of the gradients. With large embeddings,
        # that is the third exchange from here. The next sums have overwritten the collective's buffers by then.
        return tf.raw_ops.DeepCopy(x=self._collective.sum_tensors([weight])[0])

    def _forward_part(self, *arguments: Any) -> list[Any]:
        columns = len(self._signature) - 1
        share, (rows, *weight) = arguments[:columns], arguments[columns:]
        total = tf.cast(rows, self._graphs.float)
        return list(self._graphs.forward_if_any(share, tf.shape(share[0])[0] > 0, total, self._slices, *weight))


class _Applying:
    """An optimizer's `apply`, compiled, for eager gradients of all trainable variables."""

    def __init__(self, optimizer: Any, variables: Sequence[Any]) -> None:
        self._compiled = tf.function(lambda gradients: optimizer.apply(gradients, variables), autograph=False)

    def apply(self, gradients: Sequence[Any], _: Sequence[Any]) -> None:
        self._compiled(list(gradients))


def _columns(chunk: Chunk) -> list[Array]:
    return chunk.tensors if chunk.label is None else [*chunk.tensors, chunk.label]


def as_tensor(array: Any) -> Any:
    """Return the array as a tensor, without a copy if it is aligned (tf.constant copies twice). Do not change the array
    again.

    A tensor stays as it is, on its device.
    """
    if isinstance(array, tf.Tensor):
        return array
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__()) if is_aligned(array) else tf.constant(array)
