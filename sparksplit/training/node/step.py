"""The compiled part of training: many updates in one call of a tf.function, and evaluation.

Each update turns the node's rows of one mini-batch into gradients, lets the sync exchange what it exchanges, and
applies the optimizer. Looping over a chunk's updates inside TensorFlow saves the calls from Python, which cost a small
model more than its arithmetic.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from sparksplit.rows.chunks import Chunk
from sparksplit.strategies.slices import wants_slices
from sparksplit.strategies.state import observe
from sparksplit.strategies.syncs import Sync
from sparksplit.training.metrics import LOSS
from sparksplit.training.node import averages
from sparksplit.training.node.accumulated import rows_of
from sparksplit.training.node.graphs import Graphs
from sparksplit.training.node.jackknife import jackknife
from sparksplit.training.node.metrics import Metrics

Array = npt.NDArray[Any]
_COUNTS = tf.TensorSpec((None,), tf.int64)
_TOTAL = tf.TensorSpec((), tf.int64)


@dataclass(frozen=True)
class Evaluation:
    """loss: mean over rows, by weight where they have some. metrics: name to value. Both are NaN where all rows weigh
    nothing. rows: over all nodes."""

    loss: float
    metrics: dict[str, float]
    rows: int


class Step:
    """One model, one optimizer, one loss, and their compiled updates.

    loss: a keras loss without reduction: it maps (labels, outputs) to one value per row, or per row and position.
    metrics: fresh keras metrics by name. inputs: how stored values become the model's. weights: what each row counts.
    compiling: the context of calls that make graphs, or a device's code for them. accumulate: in how many parts the
    node's rows of a mini-batch are computed. jit: whether XLA compiles the model's passes.
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
        self._metrics = Metrics(metrics)
        self._graphs = Graphs(model, loss, self._metrics, inputs, weights, accumulate, optimizer.scale_loss, jit)
        observe(model, lambda *columns: model(inputs.decode(columns)[0], training=True), inputs.tensor_signature())
        self._signature = [*inputs.signature(), _COUNTS]
        self._train: dict[tuple[int | None, type[Sync]], Any] = {}
        columns = self._signature[:-1]
        self._weighted = weights.any
        more = [tf.TensorSpec((), self._graphs.float)] if self._weighted else []
        self._part = tf.function(self._forward_part, input_signature=[*columns, _TOTAL, *more], autograph=False)
        self._weight = tf.function(lambda *share: self._graphs.weight(share), input_signature=columns, autograph=False)
        self._applying = _Applying(optimizer, model.trainable_variables)
        self._evaluate = tf.function(self._graphs.evaluate, input_signature=self._signature, autograph=False)
        self._ran: set[Any] = set()
        """What has been called before, so that its graph is made and its device has code for it."""
        self.warmup = 0.0
        """Seconds spent on making graphs."""
        self.copying = 0.0
        """Seconds spent on copying rows to the device."""
        self._device = next((device.name for device in tf.config.list_logical_devices("GPU")), None)
        """Where rows are copied to; None where they are in its memory already."""

    def train(self, chunk: Chunk) -> Array:
        """Run the chunk's updates; returns each one's mean loss over all nodes' rows, [updates].

        Raises the collective's own error if an exchange failed.
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
        """A call with no updates, so that compiling is not counted as time of updates."""
        began = time.perf_counter()
        nothing = [tf.zeros((0, *spec.shape[1:]), spec.dtype) for spec in self._signature[:-1]]
        function(*nothing, np.zeros(1, np.int64), *more)
        self.warmup += time.perf_counter() - began

    def with_sync(self, sync: Sync, collective: Collective) -> Step:
        """A step with this step's model and graphs, for another sync or another virtual node."""
        other = copy.copy(self)
        other._sync, other._collective = sync, collective
        return other

    @property
    def _slices(self) -> bool:
        """Whether of large gradients only the rows in use are exchanged."""
        collective = self._collective
        return collective.size > 1 and not collective.same_shapes and wants_slices(self._sync)

    def variables(self) -> list[Any]:
        """All that training and evaluation change."""
        model, optimizer = self._model.variables, self._optimizer.variables
        return [*model, *optimizer, *self._metrics.variables(), *self._sums]

    def begin(self) -> None:
        """Take the present weights as those that all nodes have."""
        with self._first(("sync", type(self._sync))):
            began, exchanging = time.perf_counter(), self._collective.seconds
            self._sync.begin(self._model)
            self.warmup += time.perf_counter() - began - (self._collective.seconds - exchanging)

    def synchronise(self, rows: int) -> None:
        """Make the nodes agree. rows: how many this node has trained on since. Every node must call it."""
        self._sync.agree(self._model, rows)
        if not self._sync.every_step:
            averages.agree(self._model, self._optimizer, rows, self._collective)

    def averaged(self) -> AbstractContextManager[None]:
        """A block in which the model has the weights that a run would end with here: its moving averages, if any."""
        return averages.in_place(self._model, self._optimizer)

    def is_finite(self) -> bool:
        """Whether all trainable weights are finite numbers."""
        return all(bool(np.isfinite(variable.numpy()).all()) for variable in self._model.trainable_variables)

    def metric_results(self) -> dict[str, float]:
        """The metrics since the last call, over all nodes; resets them. Every node must call it."""
        return self._metrics.results(self._collective)

    def metric_sums(self) -> dict[str, Array]:
        """The state of the metrics of all nodes, for a checkpoint. Every node must call it."""
        return self._metrics.sums(self._collective)

    def restore_metrics(self, sums: Mapping[str, Array]) -> None:
        """Go on from what `metric_sums` returned."""
        self._metrics.restore(sums, self._collective)

    def evaluate(self, chunks: Iterable[Chunk]) -> Evaluation:
        """Loss and metrics over `chunks`, summed over all nodes. Every node must call it."""
        rows = self._see(chunks)
        sums = [np.asarray(each.numpy(), np.float64) for each in self._sums]
        loss, *weight, total = self._collective.sum([*sums, np.array(rows, np.int64)])
        # Of rows that all weigh nothing there is no mean; 0 would be the best of all losses.
        count = float(weight[0]) or math.nan if weight else max(1, int(total))
        metrics = self.metric_results()
        if math.isnan(count):
            metrics = dict.fromkeys(metrics, math.nan)
        return Evaluation(float(loss) / count, metrics, int(total))

    def jackknife(self, lanes: Iterable[tuple[int, Iterable[Chunk]]], many: int) -> dict[str, list[float]]:
        """How far each lane's rows move loss and metrics, as node.jackknife has it. lanes: (lane, its chunks) for this
        node's lanes that have rows; many: how many lanes there are. Every node must call it."""
        sums = ((lane, self._sums_of(chunks)) for lane, chunks in lanes)
        moves = jackknife(sums, self._sums_of(()), many, self._value_of, self._collective)
        self._metrics.reset()
        return moves

    def _sums_of(self, chunks: Iterable[Chunk]) -> dict[str, list[Array]]:
        """By metric, the sums over this node's `chunks` that its value comes from; of the loss: of rows' losses, and of
        their weights, or how many there are."""
        rows = self._see(chunks)
        sums = [np.array(each.numpy()) for each in self._sums]
        own = [*sums, *([np.array(rows, np.int64)] if len(sums) == 1 else [])]
        return {LOSS: own, **self._metrics.states()}

    def _value_of(self, name: str, sums: Sequence[Array]) -> float:
        """What the loss or a metric is where its sums are these; NaN for the loss of rows that all weigh nothing."""
        if name == LOSS:
            return float(sums[0]) / (float(sums[1]) or math.nan)
        return self._metrics.value_of(name, sums)

    @property
    def _sums(self) -> list[Any]:
        """Of losses and, where rows have some, of weights."""
        return [each for each in (self._graphs.loss_sum, self._graphs.weight_sum) if each is not None]

    def _see(self, chunks: Iterable[Chunk]) -> int:
        """Sum anew, over `chunks` alone; returns how many rows they have."""
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
        """The context of a call: `compiling`, if it is the first one of its kind."""
        if what in self._ran:
            return nullcontext()
        self._ran.add(what)
        return self._compiling()

    def _call(self, function: Any, chunk: Chunk, *more: Any) -> Any:
        columns = self._on_device(chunk)
        with self._collective.unhidden():
            return function(*columns, chunk.offsets, *more).numpy()

    def _on_device(self, chunk: Chunk) -> list[Any]:
        """The chunk's columns as tensors where they are computed on."""
        began = time.perf_counter()
        columns = [as_tensor(column) for column in _columns(chunk)]
        if self._device is not None:
            # At once, and awaited: TensorFlow would copy them only within the graph, which would count as computing.
            with tf.device(self._device):
                columns = [tf.identity(column) for column in columns]
            tf.test.experimental.sync_devices()
        self.copying += time.perf_counter() - began
        return columns

    def _train_chunk(self, even: int | None, *arguments: Any) -> Any:
        """The losses of a chunk's updates. even: the rows of every share, if they are equal."""
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
            # It may lie in the collective's buffers, which the next sums overwrite.
            return index + 1, losses.write(index, tf.raw_ops.DeepCopy(x=loss))

        losses = tf.TensorArray(graphs.float, updates, element_shape=())
        _, losses = tf.while_loop(lambda index, _: index < updates, update, (0, losses), parallel_iterations=1)
        return losses.stack()

    def _train_by_updates(self, chunk: Chunk) -> Array:
        """Like `train`, with every exchange outside the graphs."""
        columns = _columns(chunk)
        losses = []
        for begin, end, total in zip(chunk.offsets[:-1], chunk.offsets[1:], chunk.rows, strict=True):
            share = [column[begin:end] for column in columns]
            weight = [self._weight_of_all(self._weight(*share))] if self._weighted else []
            values = self._part(*share, total, *weight)
            losses.append(float(self._sync.update(values, self._model, self._applying)))
        return np.array(losses)

    def _weight_of_all(self, weight: Any) -> Any:
        """The sum of a mini-batch's weights, from that of this node's rows of it.

        It takes an exchange of its own, before that of the gradients: syncs, a user's own among them, are given parts
        of a mean.
        """
        if weight is None or self._collective.size == 1 or not self._sync.every_step:
            return weight
        # Copied: TensorFlow may divide the loss by it as late as in the gradients' sums, the third exchange from here
        # where large embeddings' rows travel; the collective's buffers are the next sums' by then.
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
    """The array as a tensor, without a copy if it is aligned (tf.constant copies twice); not to be changed again. What
    is one already, on the device that it is on, stays as it is."""
    if isinstance(array, tf.Tensor):
        return array
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__()) if is_aligned(array) else tf.constant(array)
