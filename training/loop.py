"""The loop on a node: epochs of updates, checkpoints, validation, and what is reported about them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sparksplit.errors import RunError
from training.checkpoints import Progress
from training.chunks import Chunk
from training.feed import Feed
from training.ledger import Entry, Ledger
from training.step import Evaluation, Step
from training.transport import Transport

if TYPE_CHECKING:
    from training.handoff.arrival import ArrivingFeed

_CHUNK_SECONDS = 0.25
"""Aimed duration of one call into TensorFlow: short enough for progress, long enough to be free."""


class Reporter(Protocol):
    """What the loop tells the cluster, and hears from it; `training.cluster.Member` is one.

    stopping: set when the run is to end.
    """

    stopping: threading.Event

    def state(self, **fields: Any) -> None:
        """What the next heartbeat carries."""

    def phase(self, name: str) -> Any:
        """A context in which no update is to be expected."""


@dataclass
class Clock:
    """Seconds by what they were spent on: feed (waiting for rows), train (updates, exchanges included), sync
    (exchanges, waiting for peers included), validation, checkpoint."""

    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, began: float) -> None:
        """Add the time since `began` (time.perf_counter)."""
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


@dataclass(frozen=True)
class Hooks:
    """What happens around updates. save: writes a checkpoint. epoch_done: publishes the history (rank 0)."""

    save: Callable[[Progress], None]
    epoch_done: Callable[[list[dict[str, Any]]], None]


class Loop:
    """Runs `epochs` from where `progress` is.

    every: updates between checkpoints, None for one at each epoch's end. validation: None without validation rows.
    """

    def __init__(
        self,
        step: Step,
        feed: Feed | ArrivingFeed,
        validation: Feed | None,
        transport: Transport,
        reporter: Reporter,
        hooks: Hooks,
        *,
        epochs: range,
        every: int | None,
        progress: Progress,
    ) -> None:
        self._step, self._feed, self._validation = step, feed, validation
        self._transport, self._reporter, self._hooks = transport, reporter, hooks
        self._epochs, self._every = epochs, every
        self._begun_with = progress
        self._ledger = Ledger.from_json(progress.ledger)
        self._history = list(progress.history)
        self._update = progress.update
        self._loss_sum, self._loss_rows = progress.loss_sum, progress.loss_rows
        self._own = Entry()
        self.own_rows = 0
        self.clock = Clock()

    def run(self) -> Progress:
        """Train to the end. Raises RunError where the loss is no longer finite."""
        self._reporter.state(update=self._update, epochs=len(self._epochs))
        self._report_length()
        for number, epoch in enumerate(self._epochs):
            # A feed of rows that arrive knows its length only when its first epoch has ended.
            base = number * self._feed.updates if number or self._feed.exact else 0
            if self._update and number < self._update // self._feed.updates:
                continue
            began = time.perf_counter()
            trained = self._train_epoch(epoch, base)
            self._report_length()
            self._finish_epoch(epoch, trained, began)
        return self._progress()

    def _report_length(self) -> None:
        if self._feed.exact:
            self._reporter.state(updates=len(self._epochs) * self._feed.updates)

    def _train_epoch(self, epoch: int, base: int) -> float:
        """The rest of one epoch; the seconds it took, without its first chunk, checkpoints and waiting to begin."""
        self._own = Entry()
        seconds = 0.0

        def stops(update: int) -> int:
            return update + (self._every - (base + update) % self._every if self._every else 1 << 62)

        waited = time.perf_counter()
        for chunk in self._feed.epoch(epoch, self._update - base, stops=stops):
            self.clock.add("feed", waited)
            began = time.perf_counter()
            losses = self._step.train(chunk)
            self.clock.add("train", began)
            self._account(epoch, base, chunk, losses)
            if self._reporter.stopping.is_set():
                raise RunError("stopped by the driver")
            spent = time.perf_counter() - began
            seconds += time.perf_counter() - waited
            self._feed.max_updates = max(1, min(4 * chunk.updates, int(_CHUNK_SECONDS * chunk.updates / spent)))
            if self._every and self._update % self._every == 0 and self._feed.exact:
                self._save()
            waited = time.perf_counter()
        return seconds

    def _account(self, epoch: int, base: int, chunk: Chunk, losses: Any) -> None:
        if not np.isfinite(losses).all():
            bad = int(np.argmin(np.isfinite(losses)))
            raise RunError(
                f"epoch {epoch + 1}, update {base + chunk.first + bad + 1}: the loss is {losses[bad]}; "
                f"a smaller optimizer.learning_rate may help"
            )
        # One by one: chunks depend on the clock, and the sum's bits must not.
        for loss in (losses.astype(np.float64) * chunk.rows).tolist():
            self._loss_sum += loss
        self._loss_rows += int(chunk.rows.sum())
        self._own += chunk.seen
        self.own_rows += chunk.seen.rows
        self._update = base + chunk.first + chunk.updates
        self._reporter.state(
            update=self._update,
            epoch=epoch,
            loss=float(losses[-1]),
            rows=self.own_rows,
            sync_seconds=self._transport.seconds,
        )

    def _finish_epoch(self, epoch: int, seconds: float, began: float) -> None:
        self._ledger.entries[epoch] = self._agreed(epoch)
        record: dict[str, Any] = {"epoch": epoch + 1, "updates": self._update}
        record["train"] = {"loss": self._loss_sum / max(1, self._loss_rows), **self._step.metric_results()}
        if self._validation is not None:
            with self._reporter.phase("validation"):
                since = time.perf_counter()
                evaluation = self._step.evaluate(self._validation.epoch(0))
                self.clock.add("validation", since)
            record["validation"] = {"loss": evaluation.loss, **evaluation.metrics}
        record["rows"] = self._loss_rows
        record["rows_per_second"] = round(self._loss_rows / seconds, 1) if seconds else None
        record["seconds"] = {"train": round(seconds, 4), "total": round(time.perf_counter() - began, 4)}
        self._history.append(record)
        self._loss_sum, self._loss_rows, self._own = 0.0, 0, Entry()
        self._hooks.epoch_done(self._history)
        if self._every is None:
            self._save()

    def _agreed(self, epoch: int) -> Entry:
        """The ledger's entry of `epoch` over all nodes, with what was seen before a resume."""
        mine = np.array([self._own.rows, self._own.checksum], np.uint64)
        rows, checksum = (int(value) for value in self._transport.sum([mine])[0])
        return self._ledger.entries.get(epoch, Entry()) + Entry(rows, checksum)

    def _save(self) -> None:
        began = time.perf_counter()
        with self._reporter.phase("checkpoint"):
            self._hooks.save(self._progress())
        self.clock.add("checkpoint", began)

    def _progress(self) -> Progress:
        ledger = Ledger(self._ledger.entries)
        per_epoch = self._feed.updates
        if self._update % per_epoch:
            epoch = self._epochs[self._update // per_epoch]
            ledger.entries[epoch] = self._agreed(epoch)
        return replace(
            self._begun_with,
            update=self._update,
            ledger=ledger.to_json(),
            history=list(self._history),
            loss_sum=self._loss_sum,
            loss_rows=self._loss_rows,
            train_seconds=self._begun_with.train_seconds + self.clock.seconds.get("train", 0.0),
            sync_bytes=self._begun_with.sync_bytes + self._transport.bytes_sent,
        )


def evaluate_once(step: Step, feed: Feed | None) -> Evaluation | None:
    """Loss and metrics over all of `feed`; None where it has no rows."""
    return None if feed is None else step.evaluate(feed.epoch(0))
