"""The training loop on a node: epochs of updates, checkpoints, validation, and reports about them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from sparksplit.base.errors import InputError, Passing, RunError
from sparksplit.collectives import Collective
from sparksplit.rows.assembler import Chunk
from sparksplit.strategies.syncs import Sync
from sparksplit.training.node.looks import Looks
from sparksplit.training.node.schedule import Rounds, next_stop, syncs_left
from sparksplit.training.node.tally import Clock, Tally
from sparksplit.training.progress_record import EpochRecord, Progress, Values
from sparksplit.training.report import diverged, finite
from sparksplit.training.spent import of_round, trained
from sparksplit.training.stopping import Watch

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.rows.feed import Feed
    from sparksplit.training.callbacks.running import Running
    from sparksplit.training.node.compiled.step import Evaluation

_CHUNK_SECONDS = 0.25
"""Seconds that one call into TensorFlow should take: short enough to show progress, long enough to cost nothing."""


class Trained(Protocol):
    """The model and its updates, as the loop uses them, such as `compiled.step.Step`. All nodes must make the same
    calls, except of `train`.

    warmup, copying: seconds spent on making graphs, and on copying rows to the device.
    """

    warmup: float
    copying: float

    def train(self, chunk: Chunk) -> Any:
        """Run the chunk's mini-batches. Return the mean loss of each, [chunk.updates]."""

    def synchronise(self, rows: int) -> None:
        """Make the nodes agree. rows: rows that this node has trained on since the last time."""

    def is_finite(self) -> bool:
        """Return whether all trainable weights are finite numbers."""

    def metric_results(self) -> Mapping[str, float]:
        """Return the metrics since the last call, over all nodes."""

    def averaged(self) -> AbstractContextManager[None]:
        """Return a block in which the model has the weights that a run would end with here."""

    def evaluate(self, chunks: Iterable[Chunk]) -> Evaluation:
        """Return loss and metrics over `chunks`, over all nodes."""


@dataclass(frozen=True)
class Hooks:
    """Calls around updates.

    save: begins to write a checkpoint.
    epoch_done: publishes the history (rank 0).
    best: takes the present weights, which all nodes share, as the best so far.
    written: returns when the last checkpoint is there. Every node must call it.
    """

    save: Callable[[Progress], None]
    epoch_done: Callable[[list[EpochRecord]], None]
    best: Callable[[], None]
    written: Callable[[], None] = lambda: None


class Loop:
    """Runs `rounds`, starting where `tally` is.

    A step is one mini-batch of a node. An update is one change of the weights that all nodes share. Each step is an
    update if the nodes agree at every step, or on a single node. Otherwise each sync is an update.

    sync: the sync of these rounds.
    every: steps between checkpoints. `epoch`: a checkpoint at the end of each round. None: neither.
    looks: when other checkpoints are due. None: none are.
    validation: None without validation rows.
    watch: decides from the validations when the run ends, and which weights are the best. None: nothing is watched.
    callbacks: called at the end of each round. They may end the run. None: there are none.
    """

    def __init__(
        self,
        step: Trained,
        feed: Feed,
        validation: Feed | None,
        collective: Collective,
        member: Member,
        hooks: Hooks,
        *,
        rounds: Rounds,
        sync: Sync,
        every: int | Literal["epoch"] | None,
        looks: Looks | None = None,
        watch: Watch | None,
        tally: Tally,
        clock: Clock,
        callbacks: Running | None = None,
    ) -> None:
        self._step, self._feed, self._validation = step, feed, validation
        self._collective, self._member, self._hooks = collective, member, hooks
        self._rounds, self._sync, self._every, self._watch = rounds, sync, every, watch
        self._tally, self._clock, self._looks, self._callbacks = tally, clock, looks, callbacks
        self._round: list[int] = []
        """The epochs of the round, by rank."""
        self._suspect: str | None = None
        """A value of the present chunk that is not a finite number, and its row."""

    def run(self) -> Progress:
        """Train to the end, or to where the watch or a callback ends the run. Raise Diverged if the loss is no longer
        finite."""
        tally, first = self._tally, self._rounds.first
        # The cluster takes `update` as progress. Here it counts steps, because there are more steps than updates.
        self._member.state(update=tally.step, epochs=self._rounds.passes)
        begun_with = tally.step
        self._report_length(begun_with)
        finished = (tally.step - first) // self._steps if tally.step else 0
        for number, epochs in enumerate(zip(*self._rounds.epochs, strict=True), finished):
            if self._has_stopped:
                break
            self._round = list(epochs)
            self._train_epoch(self._round[self._collective.rank], first + number * self._steps)
            self._finish_round()
        if self._has_stopped:
            self._member.state(steps=tally.step, update=tally.step)
        return self._progress()

    @property
    def _has_stopped(self) -> bool:
        watched = self._watch is not None and self._watch.ends(self._tally.watched)
        return watched or (self._callbacks is not None and self._callbacks.has_stopped)

    @property
    def _steps(self) -> int:
        """Steps of a round."""
        return self._rounds.steps

    @property
    def _within_round(self) -> bool:
        return (self._tally.step - self._rounds.first) % self._steps != 0

    @property
    def _shares_steps(self) -> bool:
        """Whether each step changes the weights that all nodes share."""
        return self._sync.every_step or self._collective.size == 1

    def _report_length(self, begun_with: int) -> None:
        """Tell the driver how many steps the run has. begun_with: steps that were done at the start."""
        if self._rounds.whole:
            self._member.state(steps=self._rounds.whole[0])
        else:
            rounds = (begun_with - self._rounds.first) // self._steps + len(self._rounds.epochs[0])
            self._member.state(steps=self._rounds.first + rounds * self._steps)

    def _train_epoch(self, epoch: int, base: int) -> None:
        """Train the rest of one epoch."""
        tally, sync_every = self._tally, self._sync.every
        tally.begin_epoch()
        waited = time.perf_counter()
        chunks = self._feed.epoch(epoch, tally.step - base, stops=partial(self._stop, base))
        for chunk in self._clock.fed(chunks):
            with self._clock.training(self._step, self._collective):
                losses = self._train(chunk)
            self._account(epoch, base, chunk, losses)
            if self._looks is not None:
                self._looks.check()
            if self._looks is None or not (self._sync.every_step or sync_every):
                self._end_if_asked()  # otherwise the next look ends the node, with a checkpoint
            # The time includes the wait for the chunk's rows, which may be the slow part.
            self._feed.max_updates = self._length(chunk.updates, time.perf_counter() - waited)
            if sync_every and (tally.step - base) % sync_every == 0:
                self._synchronise_within(base, tally.step - base)
            elif self._sync.every_step:
                self._save_within()
            waited = time.perf_counter()
        # A node whose rows have ended has weight 0, and still joins each sync.
        if sync_every:
            for done in syncs_left(tally.step - base, self._steps, sync_every):
                self._synchronise_within(base, done)
        tally.step = base + self._steps

    def _train(self, chunk: Chunk) -> Any:
        self._suspect = chunk.suspect
        try:
            return self._step.train(chunk)
        except Exception as error:
            # Another node may have seen the loss first and ended.
            if self._suspect and not self._step.is_finite():
                raise InputError(self._suspect) from error
            raise

    def _stop(self, base: int, step: int) -> int:
        """Return the step that a chunk which begins at `step` may not go beyond. Both count within the round."""
        every = self._every if isinstance(self._every, int) else None
        end = next_stop(step, base=base, every=every, sync_every=self._sync.every)
        if self._looks is not None and self._sync.every_step:
            end = self._looks.until(base + step, base + end, self._feed.max_updates) - base
        return end

    def _length(self, steps: int, seconds: float) -> int:
        """Return the number of steps for the next chunks, after a chunk of `steps` steps took this many seconds."""
        length = max(1, min(4 * steps, int(_CHUNK_SECONDS * steps / max(seconds, 1e-9))))
        if not (self._collective.same_graphs and self._sync.every_step):
            return length
        # Sums match by the iteration of their loop here, so all nodes must make equally many iterations.
        with self._clock.training(self._step, self._collective):
            (total,) = self._collective.sum([np.array(length, np.int64)])
        return int(total) // self._collective.size

    def _synchronise_within(self, base: int, done: int) -> None:
        """Sync after `done` steps of the round. At the end of the round, `_finish_round` makes the sync."""
        if done < self._steps:
            self._tally.step = base + done
            self._synchronise()
            self._member.state(update=self._tally.step)
            self._save_within()

    def _synchronise(self) -> None:
        with self._clock.training(self._step, self._collective):
            self._step.synchronise(self._tally.take_rows())
        if not self._shares_steps:
            self._tally.shared(1)

    def _account(self, epoch: int, base: int, chunk: Chunk, losses: Any) -> None:
        if not np.isfinite(losses).all():
            bad = int(np.argmin(np.isfinite(losses)))
            raise diverged(epoch + 1, base + chunk.first + bad + 1, losses[bad], self._suspect)
        self._tally.add(chunk, losses)
        self._tally.step = base + chunk.first + chunk.updates
        if self._suspect:
            # The loss may be finite because `relu` of NaN is 0. If the weights are finite too, the model can handle the
            # value.
            self._refuse_lost(epoch + 1)
            self._suspect = None
        if self._shares_steps:
            self._tally.shared(chunk.updates)
        self._member.state(
            update=self._tally.step,
            epoch=self._round[0],
            loss=float(losses[-1]),
            rows=self._tally.own_rows,
            sync_seconds=self._collective.seconds,
            at=time.perf_counter(),
        )

    def _finish_round(self) -> None:
        tally, clock = self._tally, self._clock
        self._synchronise()
        epoch = max(self._round) + 1
        with clock.spent_on("metrics"):
            self._refuse_lost(epoch)
            loss, rows = tally.finish_round(self._round, apart=not self._sync.every_step)
            train = finite({"loss": loss, **self._step.metric_results()})
        validation = self._validate()
        spent = clock.end_round()
        seconds = trained(spent)
        tally.history.append(
            EpochRecord(
                epoch=epoch,
                updates=tally.updates,
                steps=tally.step,
                train=train,
                validation=validation,
                rows=rows,
                rows_per_second=round(rows / seconds, 1) if seconds else None,
                seconds=of_round(spent),
            )
        )
        self._look_at(tally.history[-1])
        if self._callbacks is not None:
            self._callbacks.epoch_done(tally.history[-1], self._has_stopped)
        self._hooks.epoch_done(tally.history)
        self._save_if_due()

    def _refuse_lost(self, epoch: int) -> None:
        """Raise Diverged if the weights are no longer finite, or InputError if a row is at fault: no checkpoint may
        keep them.

        The last loss may still be a number, because it was computed before the update.
        """
        if not self._step.is_finite():
            loss = "no number from here on, since weights are not finite"
            raise diverged(epoch, self._tally.step, loss, self._suspect)

    def _validate(self) -> Values | None:
        if self._validation is None:
            return None
        with self._member.phase("validation"), self._clock.validating(self._step), self._step.averaged():
            evaluation = self._step.evaluate(self._validation.epoch(0))
        return finite({"loss": evaluation.loss, **evaluation.metrics})

    def _look_at(self, record: EpochRecord) -> None:
        """Let the watch see the round's validation. Every node must call this.

        All nodes take rank 0's value, whose bits the sum keeps. Nodes on different machines may differ in the last bit.
        """
        if self._watch is None or record.validation is None:
            return
        value, tally = record.validation[self._watch.metric], self._tally
        part = 0.0 if self._collective.rank else math.nan if value is None else value
        (shared,) = self._collective.sum([np.array(part, np.float64)])
        tally.watched = self._watch.after(tally.watched, float(shared), record.epoch, record.updates)
        if tally.watched.epoch == record.epoch:
            self._hooks.best()

    def _save_within(self) -> None:
        # A checkpoint at the end of a round comes later, because the round's record belongs in it.
        if self._within_round:
            self._save_if_due()

    def _save_if_due(self) -> None:
        """Write a checkpoint if one is due. Every node must call this, where all nodes agree."""
        step, every, ends_round, ending = self._tally.step, self._every, not self._within_round, False
        due = ends_round if every == "epoch" else every is not None and step % every == 0
        if self._looks is not None and self._looks.is_next(step, ends_round):
            with self._clock.spent_on("checkpoint"):
                seen = self._looks.look(step, ends_round)
            due, ending = due or seen.due, seen.ending
        if due or ending:
            self._save()
        if ending:
            with self._member.phase("checkpoint"):
                self._hooks.written()
            self._end_if_asked()

    def _save(self) -> None:
        if self._within_round:
            self._refuse_lost(self._round[self._collective.rank] + 1)
        sent = self._collective.bytes_sent
        with self._clock.spent_on("checkpoint"), self._member.phase("checkpoint"):
            self._hooks.save(self._progress())
        self._collective.bytes_sent = sent
        if self._looks is not None:
            self._looks.saved(not self._within_round)

    def _end_if_asked(self) -> None:
        """Raise the error that ends this node, if it was asked to end."""
        if self._member.stopping.is_set():
            raise RunError("stopped by the driver")
        if self._member.leaving.is_set():
            raise Passing(self._member.leaving.reason)

    def _progress(self) -> Progress:
        within = self._round if self._within_round else ()
        progress = self._tally.progress(self._clock, within, apart=not self._sync.every_step)
        return progress if self._callbacks is None else replace(progress, changed=self._callbacks.changed)


def evaluate_once(step: Trained, feed: Feed | None) -> Evaluation | None:
    """Return loss and metrics over all of `feed`; None without a feed."""
    return None if feed is None else step.evaluate(feed.epoch(0))
