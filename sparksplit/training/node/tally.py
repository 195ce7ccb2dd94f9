"""What a node counts while it trains: updates, steps, exchanges, losses, the rows it has seen, and seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from sparksplit.collectives import Collective
from sparksplit.rows.chunks import Chunk
from sparksplit.rows.ledger import Entry, Ledger
from sparksplit.training.record import EpochRecord, Progress


class Clock:
    """Seconds by what they were spent on: feed (waiting for rows), warmup (making graphs), train (updates, including
    exchanges), sync (the part of it in exchanges), waiting (the part of that spent waiting for peers), validation,
    checkpoint.

    progress: what the run goes on from. began: when the process began (time.perf_counter). before: the run's until
    then.
    """

    def __init__(self, progress: Progress, began: float, before: float) -> None:
        self.seconds: dict[str, float] = {}
        self.round_train = progress.round_train
        """The round's seconds so far in updates, exchanges, and waiting for rows."""
        self._round_before, self._round_began = progress.round_total, 0.0
        self._began, self._before = began, before

    def begin_round(self) -> None:
        """Begin a round, or what is left of the one that the run goes on in."""
        self._round_began, self._round_before = time.perf_counter() - self._round_before, 0.0

    def end_round(self) -> None:
        """End a round, once everything about it has been told."""
        self.round_train = 0.0

    @property
    def round_total(self) -> float:
        """The round's seconds so far, in all."""
        return time.perf_counter() - self._round_began

    @property
    def run_total(self) -> float:
        """The run's seconds so far, in all."""
        return self._before + time.perf_counter() - self._began

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were spent on `name`."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def add_feed(self, began: float) -> None:
        """Add the seconds since `began` (time.perf_counter), spent waiting for rows."""
        waited = time.perf_counter() - began
        self.add("feed", waited)
        self.round_train += waited

    @contextmanager
    def spent_on(self, name: str) -> Iterator[None]:
        """Count the time of the block, if it ends well, as spent on `name`."""
        began = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - began)

    @contextmanager
    def training(self, step: Any, collective: Collective) -> Iterator[None]:
        """Count the time of the block as spent on updates and exchanges, except making graphs. step: has `warmup`."""
        began, warmup, sync, waited = time.perf_counter(), step.warmup, collective.seconds, collective.waited
        yield
        warmup = step.warmup - warmup
        trained = time.perf_counter() - began - warmup
        self.round_train += trained
        self.add("train", trained)
        self.add("warmup", warmup)
        self.add("sync", collective.seconds - sync)
        self.add("waiting", collective.waited - waited)


class Tally:
    """Counts of a run, starting from `progress`.

    step, updates, syncs, history, watched: as in Progress. own_rows: how many rows this node has trained on.
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
        """This node begins an epoch, or what is left of it."""
        self._own = Entry()

    def add(self, chunk: Chunk, losses: Any) -> None:
        """This node has trained on `chunk`. losses: the mean loss of each of its mini-batches."""
        # One by one: how chunks are cut depends on the clock, and the sum's bits must not.
        for loss in (losses.astype(np.float64) * chunk.rows).tolist():
            self._loss_sum += loss
        self._loss_rows += int(chunk.rows.sum())
        self._own += chunk.seen
        self._since += chunk.seen.rows
        self.own_rows += chunk.seen.rows

    def take_rows(self) -> int:
        """How many rows this node has trained on since the last call."""
        rows, self._since = self._since, 0
        return rows

    def shared(self, times: int) -> None:
        """The weights that all nodes share have changed this many times."""
        self.updates += times
        if self._collective.size > 1:
            self.syncs += times

    def finish_round(self, epochs: Sequence[int], apart: bool) -> tuple[float, int]:
        """(mean training loss, rows) of a round over all nodes; the counts then start again. Every node must call it.

        epochs: the round's, by rank. apart: whether each node's losses are of its own rows only.
        """
        self._ledger.entries.update(self._entries_of_all(epochs))
        if apart:
            sums = self._collective.sum([np.array(self._loss_sum), np.array(self._loss_rows, np.int64)])
            self._loss_sum, self._loss_rows = float(sums[0]), int(sums[1])
        loss, rows = self._loss_sum / max(1, self._loss_rows), self._loss_rows
        self._loss_sum, self._loss_rows, self._own = 0.0, 0, Entry()
        return loss, rows

    def progress(self, clock: Clock, within: Sequence[int] = (), apart: bool = False) -> Progress:
        """How far the run is. within: the unfinished round's epochs, by rank; if given, every node must call it. apart:
        as for `finish_round`."""
        sent = self._collective.bytes_sent  # how many checkpoints there are may depend on the clock
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
            round_train=clock.round_train,
            round_total=clock.round_total if within else 0.0,
            seconds=clock.run_total,
            sync_bytes=self._begun_with.sync_bytes + sent - self._sent_before,
        )

    def _losses_of_all(self) -> list[tuple[float, int]]:
        """Each node's own (loss sum, rows) of the round so far."""
        size, rank = self._collective.size, self._collective.rank
        sums, rows = np.zeros(size), np.zeros(size, np.int64)
        sums[rank], rows[rank] = self._loss_sum, self._loss_rows
        sums, rows = self._collective.sum([sums, rows])
        return list(zip(sums.tolist(), rows.tolist(), strict=True))

    def _entries_of_all(self, epochs: Sequence[int]) -> dict[int, Entry]:
        """The ledger's entries for `epochs` over all nodes, including what was seen before the run was resumed."""
        seen = np.zeros((self._collective.size, 2), np.uint64)
        seen[self._collective.rank] = self._own.rows, self._own.checksum
        entries = {epoch: self._ledger.entries.get(epoch, Entry()) for epoch in epochs}
        for epoch, (rows, checksum) in zip(epochs, self._collective.sum([seen])[0].tolist(), strict=True):
            entries[epoch] += Entry(rows, checksum)
        return entries
