"""The loop on a node: epochs of updates, checkpoints, validation, and what is reported about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sparksplit.base.errors import RunError
from sparksplit.collectives import Collective
from sparksplit.rows.chunks import Chunk
from sparksplit.rows.ledger import Entry, Ledger
from sparksplit.strategies.syncs import Sync
from sparksplit.training.checkpoints import Progress
from sparksplit.training.record import EpochRecord, EpochSeconds
from sparksplit.training.report import diverged, finite

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.rows.feed import Feed, Stops
    from sparksplit.training.node.step import Evaluation

_CHUNK_SECONDS = 0.25
"""Aimed duration of one call into TensorFlow: short enough for progress, long enough to be free."""


class Trained(Protocol):
    """What the loop trains; `training.node.step.Step` is it. Every node must call each of these alike, but for `train`.

    warmup: seconds spent on making graphs.
    """

    warmup: float

    def train(self, chunk: Chunk) -> Any:
        """Run the chunk's mini-batches; the mean loss of each, [chunk.updates]."""

    def synchronise(self, rows: int) -> None:
        """Make the nodes agree. rows: that this node has trained on since they did."""

    def is_finite(self) -> bool:
        """Whether all trainable weights are finite numbers."""

    def metric_results(self) -> Mapping[str, float]:
        """The metrics since the last call, over all nodes."""

    def evaluate(self, chunks: Iterable[Chunk]) -> Evaluation:
        """Loss and metrics over `chunks`, over all nodes."""


class RowFeed(Protocol):
    """Where the loop's rows come from: a `rows.feed.Feed`, or a `handoff.arrival.ArrivingFeed`."""

    max_updates: int

    @property
    def exact(self) -> bool:
        """Whether chunks follow the order of rows."""

    @property
    def updates(self) -> int:
        """Mini-batches in one epoch."""

    def epoch(self, epoch: int, first: int = 0, last: int | None = None, stops: Stops = ...) -> Iterator[Chunk]:
        """The chunks that hold the mini-batches from `first` on."""


@dataclass
class Clock:
    """Seconds by what they were spent on: feed (waiting for rows), warmup (making graphs), train (updates, exchanges
    included), of it sync (exchanges) and of that waiting (for peers), validation, checkpoint."""

    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, began: float) -> None:
        """Add the time since `began` (time.perf_counter)."""
        self.spent(name, time.perf_counter() - began)

    def spent(self, name: str, seconds: float) -> None:
        """Add so many seconds."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


@dataclass(frozen=True)
class Hooks:
    """What happens around updates. save: writes a checkpoint. epoch_done: publishes the history (rank 0)."""

    save: Callable[[Progress], None]
    epoch_done: Callable[[list[EpochRecord]], None]


class Loop:
    """Runs what is left of `epochs` from where `progress` is.

    A step is one mini-batch of a node; an update is one change of the weights that all nodes share: a step where they
    agree at every step (and on a single node), else a sync.

    epochs: by rank, the epochs of the rounds that are not finished, as Split.epochs gives them. every: steps between
    checkpoints, None for one at each round's end. first: the run's steps before the first round.
    steps: the steps of a round, those of the node with the most. to_come: (steps, epochs) of the whole run where other
    rounds follow these, as progress shows them.
    validation: None without validation rows. began: when the process did (time.perf_counter); seconds_before: of the
    run until then.
    """

    def __init__(
        self,
        step: Trained,
        feed: RowFeed,
        validation: Feed | None,
        collective: Collective,
        member: Member,
        hooks: Hooks,
        *,
        epochs: Sequence[range],
        every: int | None,
        sync: Sync,
        first: int,
        steps: Callable[[], int],
        to_come: tuple[int, int] | None = None,
        progress: Progress,
        began: float,
        seconds_before: float,
    ) -> None:
        self._step, self._feed, self._validation = step, feed, validation
        self._collective, self._member, self._hooks = collective, member, hooks
        self._epochs, self._every, self._sync = epochs, every, sync
        self._first, self._steps = first, steps
        self._to_come = to_come
        self._round: list[int] = []
        self._begun_with = progress
        self._began, self._seconds_before = began, seconds_before
        self._ledger = Ledger.from_json(progress.ledger)
        self._history = list(progress.history)
        self._done, self._updates, self._syncs = progress.step, progress.update, progress.syncs
        self._sent_before = collective.bytes_sent
        self._loss_sum, self._loss_rows = progress.loss_sum, progress.loss_rows
        self._own = Entry()
        self._since = 0
        self._seconds = progress.round_train
        """Of the round so far: updates, exchanges, and waiting for rows."""
        self._round_began = 0.0
        self.own_rows = 0
        self.clock = Clock()

    def run(self) -> Progress:
        """Train to the end. Raises RunError where the loss is no longer finite."""
        # `update` is the cluster's word for a sign of progress: here it counts steps, of which there are more.
        passes = self._to_come[1] if self._to_come else max((own[-1] + 1 for own in self._epochs if own), default=0)
        self._member.state(update=self._done, epochs=passes)
        self._report_length()
        finished = (self._done - self._first) // self._steps() if self._done else 0
        before = self._begun_with.round_total
        for number, epochs in enumerate(zip(*self._epochs, strict=True), finished):
            self._round = list(epochs)
            # A feed of rows that arrive knows its length only when its first epoch has ended.
            base = self._first + number * self._steps() if number or self._feed.exact else 0
            self._round_began, before = time.perf_counter() - before, 0.0
            self._train_epoch(self._round[self._collective.rank], base)
            self._report_length()
            self._finish_round()
        return self._progress()

    def _report_length(self) -> None:
        if self._to_come:
            self._member.state(steps=self._to_come[0])
        elif self._feed.exact:
            rounds = (self._begun_with.step - self._first) // self._steps() + len(self._epochs[0])
            self._member.state(steps=self._first + rounds * self._steps())

    @contextmanager
    def _training(self) -> Iterator[None]:
        """Time that the block spends on updates and exchanges, without making graphs."""
        step, collective = self._step, self._collective
        began, warmup, sync, waited = time.perf_counter(), step.warmup, collective.seconds, collective.waited
        yield
        warmup = step.warmup - warmup
        trained = time.perf_counter() - began - warmup
        self._seconds += trained
        self.clock.spent("train", trained)
        self.clock.spent("warmup", warmup)
        self.clock.spent("sync", collective.seconds - sync)
        self.clock.spent("waiting", collective.waited - waited)

    def _train_epoch(self, epoch: int, base: int) -> None:
        """The rest of one epoch."""
        self._own = Entry()

        def stops(step: int) -> int:
            ends = [step + (1 << 62)]
            if self._every:
                ends.append(step + self._every - (base + step) % self._every)
            if self._sync.every:
                ends.append(step + self._sync.every - step % self._sync.every)
            return min(ends)

        waited = time.perf_counter()
        for chunk in self._feed.epoch(epoch, self._done - base, stops=stops):
            self.clock.add("feed", waited)
            self._seconds += time.perf_counter() - waited
            began = time.perf_counter()
            with self._training():
                losses = self._step.train(chunk)
            self._account(epoch, base, chunk, losses)
            if self._member.stopping.is_set():
                raise RunError("stopped by the driver")
            self._feed.max_updates = self._length(chunk.updates, time.perf_counter() - began)
            if self._sync.every and (self._done - base) % self._sync.every == 0:
                self._synchronise_within(base, self._done - base)
            # At a round's end its record belongs into the checkpoint, too.
            within = self._feed.exact and (self._done - self._first) % self._steps()
            if within and self._every and self._done % self._every == 0:
                self._save()
            waited = time.perf_counter()
        if self._sync.every:
            # Those whose rows have ended weigh nothing, and still join in.
            every = self._sync.every
            for done in range(every * ((self._done - base) // every + 1), self._steps(), every):
                self._synchronise_within(base, done)
        if self._feed.exact:
            self._done = base + self._steps()

    def _length(self, steps: int, seconds: float) -> int:
        """Steps of the next chunks, after one of `steps` took so many seconds."""
        length = max(1, min(4 * steps, int(_CHUNK_SECONDS * steps / max(seconds, 1e-9))))
        if not (self._collective.same_graphs and self._sync.every_step):
            return length
        # Sums that match by the turn of the loop that they are in: all nodes must make as many turns.
        with self._training():
            (total,) = self._collective.sum([np.array(length, np.int64)])
        return int(total) // self._collective.size

    def _synchronise_within(self, base: int, done: int) -> None:
        """A sync after `done` steps of the round; the one at its end is `_finish_round`'s."""
        if done < self._steps():
            self._done = base + done
            self._synchronise()
            self._member.state(update=self._done)

    def _synchronise(self) -> None:
        with self._training():
            self._step.synchronise(self._since)
        self._since = 0
        if not self._shares_steps:
            self._shared(1)

    @property
    def _shares_steps(self) -> bool:
        """Whether each step changes the weights that all nodes share."""
        return self._sync.every_step or self._collective.size == 1

    def _shared(self, times: int) -> None:
        """The weights that all nodes share have changed so often."""
        self._updates += times
        if self._collective.size > 1:
            self._syncs += times

    def _account(self, epoch: int, base: int, chunk: Chunk, losses: Any) -> None:
        if not np.isfinite(losses).all():
            bad = int(np.argmin(np.isfinite(losses)))
            raise RunError(diverged(epoch + 1, base + chunk.first + bad + 1, losses[bad]))
        # One by one: chunks depend on the clock, and the sum's bits must not.
        for loss in (losses.astype(np.float64) * chunk.rows).tolist():
            self._loss_sum += loss
        self._loss_rows += int(chunk.rows.sum())
        self._own += chunk.seen
        self._since += chunk.seen.rows
        self.own_rows += chunk.seen.rows
        self._done = base + chunk.first + chunk.updates
        if self._shares_steps:
            self._shared(chunk.updates)
        self._member.state(
            update=self._done,
            epoch=self._round[0],
            loss=float(losses[-1]),
            rows=self.own_rows,
            sync_seconds=self._collective.seconds,
        )

    def _finish_round(self) -> None:
        self._synchronise()
        epoch = max(self._round) + 1
        if not self._step.is_finite():
            # The last loss was computed before the update that spoilt them.
            raise RunError(diverged(epoch, self._done, "no number from here on, since weights are not finite"))
        self._ledger.entries.update(self._entries_of_all())
        if not self._sync.every_step:
            sums = self._collective.sum([np.array(self._loss_sum), np.array(self._loss_rows, np.int64)])
            self._loss_sum, self._loss_rows = float(sums[0]), int(sums[1])
        loss = self._loss_sum / max(1, self._loss_rows)
        train, validation = finite({"loss": loss, **self._step.metric_results()}), None
        if self._validation is not None:
            with self._member.phase("validation"):
                since = time.perf_counter()
                evaluation = self._step.evaluate(self._validation.epoch(0))
                self.clock.add("validation", since)
            validation = finite({"loss": evaluation.loss, **evaluation.metrics})
        total = time.perf_counter() - self._round_began
        self._history.append(
            EpochRecord(
                epoch=epoch,
                updates=self._updates,
                steps=self._done,
                train=train,
                validation=validation,
                rows=self._loss_rows,
                rows_per_second=round(self._loss_rows / self._seconds, 1) if self._seconds else None,
                seconds=EpochSeconds(round(self._seconds, 4), round(total, 4)),
            )
        )
        self._loss_sum, self._loss_rows, self._own, self._seconds = 0.0, 0, Entry(), 0.0
        self._hooks.epoch_done(self._history)
        if self._every is None or self._done % self._every == 0:
            self._save()

    def _entries_of_all(self) -> dict[int, Entry]:
        """The ledger's entries of the round's epochs over all nodes, with what was seen before a resume."""
        seen = np.zeros((self._collective.size, 2), np.uint64)
        seen[self._collective.rank] = self._own.rows, self._own.checksum
        entries = {epoch: self._ledger.entries.get(epoch, Entry()) for epoch in self._round}
        for epoch, (rows, checksum) in zip(self._round, self._collective.sum([seen])[0].tolist(), strict=True):
            entries[epoch] += Entry(rows, checksum)
        return entries

    def _save(self) -> None:
        began = time.perf_counter()
        with self._member.phase("checkpoint"):
            self._hooks.save(self._progress())
        self.clock.add("checkpoint", began)

    def _progress(self) -> Progress:
        ledger = Ledger(self._ledger.entries)
        within = (self._done - self._first) % self._steps() != 0
        if within:
            ledger.entries.update(self._entries_of_all())
        return replace(
            self._begun_with,
            update=self._updates,
            step=self._done,
            syncs=self._syncs,
            ledger=ledger.to_json(),
            history=list(self._history),
            loss_sum=self._loss_sum,
            loss_rows=self._loss_rows,
            round_train=self._seconds,
            round_total=time.perf_counter() - self._round_began if within else 0.0,
            seconds=self._seconds_before + time.perf_counter() - self._began,
            sync_bytes=self._begun_with.sync_bytes + self._collective.bytes_sent - self._sent_before,
        )


def evaluate_once(step: Trained, feed: Feed | None) -> Evaluation | None:
    """Loss and metrics over all of `feed`; None where it has no rows."""
    return None if feed is None else step.evaluate(feed.epoch(0))
