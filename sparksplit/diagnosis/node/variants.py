"""The variants of a configuration's step: the whole step, and the step with parts left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sparksplit.collectives import Alone, Collective
from sparksplit.diagnosis.node.rig import Rig
from sparksplit.diagnosis.node.runner import Variant
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.samples import Again
from sparksplit.strategies.state import averaged_state
from sparksplit.training.node.compiled.step import as_tensor

_ALIKE = 0.9
"""An exchange that sends at least this share of all gradients counts as sending all."""
_UPDATES = 4
_LITTLE = 1e-30


class Variants:
    """The variants of `rig`'s configuration, by name. sync_bytes: the bytes that this node sends in one exchange."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        step, alone = rig.step, rig.alone()
        synchronise, nodes = step.synchronise, rig.collective.size
        batch = rig.first()
        again, placed = rig.again(batch), rig.again(batch, _on_device)
        chunk = next(again.epoch(0, 0, 1))
        for each in (step, alone):
            rig.warm(each, chunk)
        self.sync_bytes = sent_once(rig, again) if nodes > 1 else 0
        exchange = Exchange(rig.collective, sent_arrays(rig.process.model), rig.sync.every_step)
        if nodes > 1:
            exchange.scale(self.sync_bytes)
        gradients = rig.process.step(_Gradients(), Alone())
        transforms = rig.config.transform is not None
        plain = rig.feed(transform=False) if transforms else None
        full = rig.whole()
        self.all: dict[str, Variant] = {"full": full}
        if plain is not None:
            self.all["no_transform"] = rig.variant(plain, step.train, synchronise)
        if rig.in_memory is not None and not rig.kept:
            self.all["no_reading"] = rig.variant(rig.in_memory, step.train, synchronise)
        self.all["repeated"] = rig.variant(again, step.train, synchronise)
        self.all["no_copy"] = rig.variant(placed, step.train, synchronise)
        if nodes > 1:
            self.all["no_sync"] = rig.variant(full.rows, alone.train)
            self.all["no_compute"] = rig.variant(full.rows, exchange.train, exchange.agree, resets=False)
        self.all["compute"] = rig.variant(placed, alone.train)
        self.all["forward_backward"] = rig.variant(placed, gradients.train)
        self.all["reading"] = rig.variant(full.rows, _nothing, resets=False)
        if plain is not None:
            self.all["reading_only"] = rig.variant(plain, _nothing, resets=False)


class _Gradients:
    """A sync that leaves the weights as they are. Only the gradients are computed."""

    every_step = True
    every: int | None = None

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        # A number of each gradient goes into the loss, because TensorFlow does not compute unused values.
        *gradients, loss = values
        used = [tf.reduce_sum(tf.cast(tf.reshape(part, [-1])[:1], loss.dtype)) for part in gradients]
        return loss + _LITTLE * tf.add_n(used) if used else loss


class Exchange:
    """The exchanges of the nodes, without a model. each_step: whether nodes exchange at each step."""

    def __init__(self, collective: Collective, arrays: Sequence[np.ndarray], each_step: bool) -> None:
        self._collective, self.arrays, self._each_step = collective, list(arrays), each_step and collective.size > 1
        self._variables: list[Any] | None = None

    def scale(self, sent: int) -> None:
        """Reduce the arrays to `sent` bytes, if an exchange sends less than all: only the rows of embeddings that are
        in use."""
        before = self._collective.bytes_sent
        self._collective.sum(self.arrays)
        whole = self._collective.bytes_sent - before
        if whole and sent < _ALIKE * whole:
            count = int(sum(array.nbytes for array in self.arrays) * sent / whole) // 4
            self.arrays = [np.zeros(max(1, count), np.float32)]

    def train(self, chunk: Chunk) -> None:
        """Make an exchange for each update of `chunk`."""
        if not self._each_step:
            return
        if self._variables is None:
            self._variables = [tf.Variable(array, trainable=False) for array in self.arrays]
            self._function = tf.function(self._exchanges, input_signature=[tf.TensorSpec((), tf.int32)])
        if not self._collective.in_graphs:
            self._exchanges(chunk.updates)
            return
        try:
            self._function(chunk.updates).numpy()
        except tf.errors.OpError as error:
            hidden = self._collective.cause(error)
            raise error if hidden is None else hidden from None

    def agree(self, _: int) -> None:
        """Make one exchange."""
        self._collective.sum(self.arrays)

    def _exchanges(self, count: Any) -> Any:
        variables = self._variables or []

        def one(index: Any) -> Any:
            with tf.control_dependencies(self._collective.sum_tensors([variable.value() for variable in variables])):
                return (index + 1,)

        if not self._collective.in_graphs:
            for index in range(count):
                one(index)
            return count
        return tf.while_loop(lambda index: index < count, one, (0,), parallel_iterations=1)[0]


def sent_arrays(model: Any) -> list[np.ndarray]:
    """Return zeros in the shapes of the arrays that nodes exchange."""
    variables = [*model.trainable_variables, *averaged_state(model)]
    return [*(np.zeros_like(each.numpy()) for each in variables), np.zeros((), np.float32)]


def sent_once(rig: Rig, again: Again) -> int:
    """Return the bytes that one exchange sends."""
    collective = rig.collective
    chunk = next(again.epoch(0, 0, _UPDATES))
    before = collective.bytes_sent
    if rig.sync.every_step:
        rig.step.train(chunk)
        sent = (collective.bytes_sent - before) // chunk.updates
    else:
        rig.sync.begin(rig.process.model)
        rig.step.synchronise(1)
        sent = collective.bytes_sent - before
    return int(sent)


def _nothing(_: Chunk) -> None:
    return


def _on_device(array: np.ndarray) -> Any:
    """The array on the device that computes."""
    gpus = tf.config.list_logical_devices("GPU")
    with tf.device(gpus[0].name if gpus else "CPU:0"):
        return tf.identity(as_tensor(array))
