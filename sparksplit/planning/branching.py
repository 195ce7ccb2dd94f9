"""The node's part of the useful mini-batch: train up to a checkpoint, and go on from there with larger mini-batches.

The updates are those of `train`, on the rows of a sample in memory. `useful` says which mini-batches and learning
rates, and why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hdfs_io import activity
from sparksplit.collectives import Alone
from sparksplit.diagnosis.node.rig import Rig
from sparksplit.diagnosis.node.runner import Runner
from sparksplit.planning.measured import Branched, Noise, Repeat
from sparksplit.planning.useful import FACTORS, GRADIENTS, LOSSES, REPEATS, Window, noise_of, rate_factor, window
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.feed import Feed, LanesOf, RowSource
from sparksplit.training.train_config import TrainConfig

_HELD_OUT = 1024
"""The rows whose loss is computed: at least so many, or a quarter of the lanes."""
_CALL = 0.1
"""Seconds of a call into TensorFlow."""


def branched(rig: Rig, rows: RowSource, runner: Runner, seconds: float, per_update: float) -> Branched:
    """Return what training with larger mini-batches learns, within about `seconds`.

    The weights and the optimizer of the rig are other ones afterwards. rows: a sample in memory. per_update: seconds of
    an update with the configured mini-batch.
    """
    import tensorflow as tf

    began, (training, held_out) = time.perf_counter(), parted(rows)
    nothing = replace(unbranched(rig.config), sampled=sum(training.lane_rows))
    if rig.process.data.manifest.order == "given":
        return replace(nothing, problem="order")  # some lanes are every n-th row, or the first rows of the source
    batch_size, factors = rig.config.batch_size, dict(zip(FACTORS, nothing.rate_factors, strict=True))
    updates, held = nothing.sampled // batch_size, sum(held_out.lane_rows) / batch_size

    def length() -> Window:
        spent = time.perf_counter() - began
        found = window(seconds - spent, per_update, updates, rig.config.epochs, held)
        return replace(found, needed=found.needed + spent)

    repeats: list[Repeat] = []
    try:
        if (found := length()).updates:
            made = _Branching(rig, factors, training, held_out, runner, per_update)
            made.warm()
            found = length()
        if math.isinf(found.needed):
            return replace(nothing, problem="rows")
        if not found.updates:
            return replace(nothing, problem="seconds", needed=found.needed)
        for number in range(REPEATS):
            repeat = made.repeat(number, found.updates)
            if not np.isfinite(repeat.before) or repeat.after[0] is None:
                return replace(nothing, problem="loss")
            repeats.append(repeat)
            if time.perf_counter() - began > seconds:
                break
    except tf.errors.ResourceExhaustedError:
        return replace(nothing, problem="memory")
    trained = sum(made.extents(found.updates))
    return replace(nothing, rows=trained, seconds=round(time.perf_counter() - began, 1), repeats=repeats, problem=None)


def unbranched(config: TrainConfig) -> Branched:
    """Return the branches of `config` before any is trained. The problem is that of a node that then ends."""
    return Branched(
        batch_sizes=[times * config.batch_size for times in FACTORS],
        rate_factors=[rate_factor(config.optimizer.name, times) for times in FACTORS],
        rows=0,
        seconds=0.0,
        sampled=0,
        repeats=[],
        problem="node",
    )


def parted(rows: RowSource) -> tuple[RowSource, RowSource]:
    """Return (rows to train on, rows whose loss is computed), in other lanes. Lanes are dealt by the hash of a row."""
    lanes = np.flatnonzero(rows.lane_rows)
    candidates = lanes[::4]
    enough = int(np.searchsorted(np.cumsum(np.array(rows.lane_rows)[candidates]), _HELD_OUT)) + 1
    held_out = candidates[:enough]
    return LanesOf(rows, np.setdiff1d(lanes, held_out)), LanesOf(rows, held_out)


class _Branching:
    """factors: for each multiple of the mini-batch, the factor of the learning rate."""

    def __init__(
        self,
        rig: Rig,
        factors: Mapping[int, float],
        training: RowSource,
        held_out: RowSource,
        runner: Runner,
        per_update: float,
    ) -> None:
        process, config, alone = rig.process, rig.config, Alone()
        self._rig, self._runner, self._batch_size, self._factors = rig, runner, config.batch_size, factors
        self._rate = _Rate(process.optimizer)
        # Its graphs are made with the learning rate that can be set.
        self._step = process.step(rig.strategy.sync(alone, config.sync), alone)
        self._feeds = {times: self._feed(training, times * self._batch_size) for times in FACTORS}
        for times, feed in self._feeds.items():
            feed.max_updates = max(1, int(_CALL / (per_update * times)))
        held = rig.feed(transform=False, source=held_out, batch_size=max(self._batch_size, 256))
        self._held_out = list(held.epoch(0))
        rig.end(held)

    def _feed(self, rows: RowSource, batch_size: int) -> Feed:
        return self._rig.feed(source=rows, batch_size=batch_size)

    def warm(self) -> None:
        """Make all graphs."""
        for feed in self._feeds.values():
            self._train(feed, 0, 0, 1)
        self._noise(0)
        self._loss()

    def extents(self, updates: int) -> list[int]:
        """Return the rows of each epoch of a branch, of `updates` updates with the smallest mini-batch in all.

        All epochs but the last one are whole, and the last one has whole mini-batches of every size. So all branches
        see the same rows.
        """
        largest, whole = FACTORS[-1] * self._batch_size, self._feeds[1].rows
        epochs, rest = divmod(updates * self._batch_size, whole)
        return [whole] * epochs + [rest - rest % largest] * (rest >= largest)

    def repeat(self, number: int, updates: int) -> Repeat:
        """Train up to a checkpoint, and train each branch from there. number: decides which rows."""
        extents = self.extents(updates)
        first = 2 * number * len(extents)
        self._rig.reset()
        self._rate.set(1.0, 1)
        before = self._pass(1, extents, first, losses=1)
        saved = [(each, np.array(each.numpy())) for each in self._step.variables()]
        noise = self._noise(first + len(extents))
        after: list[float | None] = []
        for times, factor in self._factors.items():
            for variable, value in saved:
                variable.assign(value)
            self._rate.set(factor, times)
            loss = self._pass(times, extents, first + len(extents))
            after.append(loss if np.isfinite(loss) else None)
        return Repeat(before, after, noise)

    def _pass(self, times: int, extents: Sequence[int], first: int, losses: int = LOSSES) -> float:
        """Train on `extents` rows of the epochs from `first` on. Return the mean of so many losses, the last one at the
        end.

        With a high learning rate, the loss goes up and down from update to update.
        """
        feed, size = self._feeds[times], times * self._batch_size
        for number, rows in enumerate(extents[:-1]):
            self._train(feed, first + number, 0, -(-rows // size))
        # Losses are computed where all branches have seen the same rows: after mini-batches of the largest size.
        units, last = extents[-1] // (FACTORS[-1] * self._batch_size), -(-extents[-1] // size)
        ends = [(units - units * after // (2 * losses)) * FACTORS[-1] // times for after in range(losses - 1, 0, -1)]
        found, begin = [], 0
        for end in [*ends, last]:
            self._train(feed, first + len(extents) - 1, begin, end)
            found.append(self._loss())
            begin = end
        return float(np.mean(found))

    def _train(self, feed: Feed, epoch: int, first: int, last: int) -> None:
        for chunk in feed.epoch(epoch, first, last):
            self._runner.heed()
            self._step.train(_uneven(chunk))
            activity.note()

    def _noise(self, epoch: int) -> Noise | None:
        """Return the noise of gradients with the present weights."""
        chunks = self._feeds[1].epoch(epoch, 0, GRADIENTS)
        found = (gradients for chunk in chunks for gradients in self._step.gradients(_uneven(chunk)))
        return noise_of(found, self._batch_size)

    def _loss(self) -> float:
        return self._step.evaluate(self._held_out).loss


def _uneven(chunk: Chunk) -> Chunk:
    """Return the chunk without the mark of equal shares, so that mini-batches of all sizes have the same graphs."""
    return replace(chunk, share=None)


class _Rate:
    """The learning rate of `optimizer`, as a function that can be changed after graphs are made.

    A schedule goes on by rows: with k times the rows in a mini-batch, it advances by k updates at each update.
    """

    def __init__(self, optimizer: Any) -> None:
        import keras
        import tensorflow as tf

        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        rate = optimizer._learning_rate
        schedule = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
        value = None if schedule else float(rate)
        self._iterations = optimizer.iterations
        self._factor = tf.Variable(1.0, dtype=keras.config.floatx(), trainable=False)
        self._begin, self._times = (tf.Variable(count, dtype=tf.int64, trainable=False) for count in (0, 1))

        def now() -> Any:
            if value is not None:
                return self._factor * value
            done = tf.cast(tf.convert_to_tensor(self._iterations), tf.int64) - self._begin
            return self._factor * tf.cast(rate(self._begin + done * self._times), self._factor.dtype)

        optimizer.learning_rate = now

    def set(self, factor: float, times: int) -> None:
        """From now on, use `factor` x the learning rate, and advance a schedule by `times` updates at a time."""
        self._begin.assign(int(self._iterations.numpy()))
        self._times.assign(times)
        self._factor.assign(factor)
