"""The counts of a node while it trains: updates, steps, exchanges, losses, the rows that it has seen, and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from sparksplit.collectives import Collective
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.ledger import Entry, Ledger
from sparksplit.training.progress_record import EpochRecord, Progress
from sparksplit.training.spent import Spent, gone_on, total


class Clock:
    """Where a node's seconds go, by the names of training.spent.

    The clock always runs for one name only, so that the seconds add up to the time that has passed.
    began: when the process began (time.perf_counter).
    """

    def __init__(self, began: float) -> None:
        self._spent: Spent = {}
        self._round_from: Spent = {}
        self._name = "start"
        self._since = began

    def go_on(self, earlier: Spent, before: Spent) -> None:
        """Add the run's seconds so far, as in `spent.gone_on`."""
        for name, seconds in gone_on(earlier, before).items():
            self._add(name, seconds)

    def begin_training(self, since_round: Spent) -> None:
        """Begin the rounds. since_round: seconds that the first round has already taken."""
        self._run_for("other")
        self._round_from = {name: seconds - since_round.get(name, 0.0) for name, seconds in self._spent.items()}

    def end_round(self) -> Spent:
        """Return the round's seconds, and begin the next round."""
        seconds = self.since_round
        self._round_from = dict(self._spent)
        return seconds

    @property
    def spent(self) -> Spent:
        """The run's seconds so far."""
        self._run_for(self._name)
        return dict(self._spent)

    @property
    def since_round(self) -> Spent:
        """The seconds since the last round ended."""
        return {name: seconds - self._round_from.get(name, 0.0) for name, seconds in self.spent.items()}

    @contextmanager
    def spent_on(self, name: str) -> Iterator[None]:
        """Count the time of the block under `name`, except the time of nested blocks of the clock."""
        outer = self._name
        self._run_for(name)
        try:
            yield
        finally:
            self._run_for(outer)

    def fed(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Yield `chunks`, and count the time of waiting for them under `feed`."""
        while True:
            with self.spent_on("feed"):
                chunk = next(chunks, None)
            if chunk is None:
                return
            yield chunk

    @contextmanager
    def training(self, step: Any, collective: Collective) -> Iterator[None]:
        """Count the time of the block under `compute`, without the time that has a name of its own.

        `step` spends this time on making graphs (`warmup`) and on copying, `collective` on exchanges.
        """
        copying, warmup, sync, waited = step.copying, step.warmup, collective.seconds, collective.waited
        with self.spent_on("compute"):
            yield
        for name, seconds in (
            ("copy", step.copying - copying),
            ("warmup", step.warmup - warmup),
            ("sync", collective.seconds - sync),
        ):
            self._add(name, seconds)
            self._add("compute", -seconds)
        self._add("waiting", collective.waited - waited)

    @contextmanager
    def validating(self, step: Any, name: str = "validation") -> Iterator[None]:
        """Count the time of the block under `name`, without the time that `step` spends on making graphs."""
        warmup = step.warmup
        with self.spent_on(name):
            yield
        self._add("warmup", step.warmup - warmup)
        self._add(name, warmup - step.warmup)

    def _run_for(self, name: str) -> None:
        now = time.perf_counter()
        self._add(self._name, now - self._since)
        self._name, self._since = name, now

    def _add(self, name: str, seconds: float) -> None:
        self._spent[name] = self._spent.get(name, 0.0) + seconds


class Tally:
    """Counts of a run, starting from `progress`.

    step, updates, syncs, history, watched: as in Progress.
    own_rows: rows that this node has trained on.
    """

    def __init__(self, progress: Progress, collective: Collective) -> None:
        self._begun_with, self._collective = progress, collective
        self._sent_before = collective.bytes_sent
        self._ledger = Ledger.from_json(progress.ledger)
        self.history: list[EpochRecord] = list(progress.history)
        self.step, self.updates, self.syncs = progress.step, progress.update, progress.syncs
        self.watched = progress.watched
        self._loss_sum, self._loss_rows = progress.loss_sum, progress.loss_rows
        if len(progress.losses) == collective.size:
            self._loss_sum, self._loss_rows = progress.losses[collective.rank]
        self._own = Entry()
        self._since = 0
        self.own_rows = 0

    def begin_epoch(self) -> None:
        """Note that this node begins an epoch, or the rest of an epoch."""
        self._own = Entry()

    def add(self, chunk: Chunk, losses: Any) -> None:
        """Count `chunk`, which this node has trained on. losses: the mean loss of each of its mini-batches."""
        # Added one by one, because the clock decides how chunks are cut, and the sum's bits must not depend on the
        # clock.
        for loss in (losses.astype(np.float64) * chunk.rows).tolist():
            self._loss_sum += loss
        self._loss_rows += int(chunk.rows.sum())
        self._own += chunk.seen
        self._since += chunk.seen.rows
        self.own_rows += chunk.seen.rows

    def take_rows(self) -> int:
        """Return how many rows this node has trained on since the last call."""
        rows, self._since = self._since, 0
        return rows

    def shared(self, times: int) -> None:
        """Note that the weights that all nodes share have changed `times` times."""
        self.updates += times
        if self._collective.size > 1:
            self.syncs += times

    def finish_round(self, epochs: Sequence[int], apart: bool) -> tuple[float, int]:
        """Return (mean training loss, rows) of a round over all nodes, and reset the counts. Every node must call this.

        epochs: the round's epochs, by rank.
        apart: whether each node's losses are of its own rows only.
        """
        self._ledger.entries.update(self._entries_of_all(epochs))
        if apart:
            sums = self._collective.sum([np.array(self._loss_sum), np.array(self._loss_rows, np.int64)])
            self._loss_sum, self._loss_rows = float(sums[0]), int(sums[1])
        loss, rows = self._loss_sum / max(1, self._loss_rows), self._loss_rows
        self._loss_sum, self._loss_rows, self._own = 0.0, 0, Entry()
        return loss, rows

    def progress(self, clock: Clock, within: Sequence[int] = (), apart: bool = False) -> Progress:
        """Return how far the run is.

        within: the unfinished round's epochs, by rank. If given, every node must call this.
        apart: as for `finish_round`.
        """
        sent = self._collective.bytes_sent  # not counted, because the clock may decide the number of checkpoints
        spent = clock.spent
        ledger = Ledger(self._ledger.entries)
        losses: list[tuple[float, int]] = []
        if within:
            ledger.entries.update(self._entries_of_all(within))
            losses = self._losses_of_all() if apart else []
        return replace(
            self._begun_with,
            update=self.updates,
            step=self.step,
            syncs=self.syncs,
            ledger=ledger.to_json(),
            history=list(self.history),
            watched=self.watched,
            loss_sum=self._loss_sum,
            loss_rows=self._loss_rows,
            losses=losses,
            seconds=total(spent),
            spent=spent,
            since_round=clock.since_round,
            sync_bytes=self._begun_with.sync_bytes + sent - self._sent_before,
        )

    def _losses_of_all(self) -> list[tuple[float, int]]:
        """Return each node's own (loss sum, rows) of the round so far."""
        size, rank = self._collective.size, self._collective.rank
        sums, rows = np.zeros(size), np.zeros(size, np.int64)
        sums[rank], rows[rank] = self._loss_sum, self._loss_rows
        sums, rows = self._collective.sum([sums, rows])
        return list(zip(sums.tolist(), rows.tolist(), strict=True))

    def _entries_of_all(self, epochs: Sequence[int]) -> dict[int, Entry]:
        """Return the ledger's entries for `epochs` over all nodes, with the rows that were seen before the run was
        resumed."""
        seen = np.zeros((self._collective.size, 2), np.uint64)
        seen[self._collective.rank] = self._own.rows, self._own.checksum
        entries = {epoch: self._ledger.entries.get(epoch, Entry()) for epoch in epochs}
        for epoch, (rows, checksum) in zip(epochs, self._collective.sum([seen])[0].tolist(), strict=True):
            entries[epoch] += Entry(rows, checksum)
        return entries
