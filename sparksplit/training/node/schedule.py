"""Which epochs come when, and by which strategy: pure functions of integers, as rows.order.

A run is a stretch of rounds, or two of them where it goes over to its own strategy after `sync.after` updates made as
`batch` makes them. All nodes begin and end a round together. In it each node runs one epoch, of its own where the
strategy splits the epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparksplit.rows import order
from sparksplit.strategies.splits import BatchSplit, SharedLanes, Split


@dataclass(frozen=True)
class Stretch:
    """Rounds that are trained in one way.

    own: whether that is the run's own strategy; else it is `batch`, on the lanes that the nodes have. begins, until:
    the run's epochs that are over before it, and after it. first: the run's steps before it. steps: of a round, those
    of the node with the most; None where rows are still arriving.
    """

    split: Split
    own: bool
    begins: int
    until: int
    first: int
    steps: int | None


@dataclass(frozen=True)
class Rounds:
    """What is left of a stretch.

    epochs: by rank, those of the rounds that are not finished, as Split.epochs gives them. first, steps: the stretch's.
    whole: (steps, epochs) of the whole run, where another stretch follows; else None.
    """

    epochs: Sequence[range]
    first: int
    steps: int | None
    whole: tuple[int, int] | None = None

    @property
    def passes(self) -> int:
        """Epochs of the run at its end."""
        return self.whole[1] if self.whole else max((own[-1] + 1 for own in self.epochs if own), default=0)


@dataclass(frozen=True)
class Schedule:
    """All rounds of a run on `nodes` nodes.

    split: the strategy's. lanes: of the data set. lane_rows: rows of each lane; None where they are still arriving.
    local_batch_size: rows of mini-batches that are dealt apart, where the user says so. after: `sync.after`.
    """

    split: Split
    nodes: int
    lanes: int
    lane_rows: Sequence[int] | None
    epochs: int
    batch_size: int
    local_batch_size: int | None = None
    after: int = 0

    def stretches(self, done: int = 0) -> list[Stretch]:
        """The stretches that are not over after `done` epochs; the last one in any case."""
        per_epoch = 0 if self.lane_rows is None else order.updates_per_epoch(sum(self.lane_rows), self.batch_size)
        before = min(self.epochs, -(-self.after // per_epoch)) if self.after and per_epoch else 0
        found = []
        if done < before or before == self.epochs:
            # A node that was handed its rows has those of the strategy's own lanes alone.
            split = BatchSplit() if self.split.every_row else SharedLanes(self.split)
            found.append(Stretch(split, False, 0, before, 0, self._steps(split)))
        if before < self.epochs:
            first = before * per_epoch
            found.append(Stretch(self.split, True, before, self.epochs, first, self._steps(self.split)))
        return found

    def rounds(self, stretch: Stretch, done: int) -> Rounds:
        """What is left of `stretch` after `done` epochs of the run."""
        epochs = [stretch.split.epochs(done, stretch.until, rank, self.nodes) for rank in range(self.nodes)]
        return Rounds(epochs, stretch.first, stretch.steps, self._whole(stretch))

    def rows_of_batch(self, split: Split) -> int:
        """Rows of the mini-batches that a node's lanes are dealt into."""
        own = split.batch_size(self.batch_size, self.nodes)
        return (self.local_batch_size or own) if split.dealt_apart else own

    def _steps(self, split: Split) -> int | None:
        if self.lane_rows is None:
            return None
        rows = sum(self.lane_rows)
        if split.dealt_apart:
            owned = (split.lanes(self.lanes, rank, self.nodes) for rank in range(self.nodes))
            rows = max(sum(self.lane_rows[lane] for lane in own) for own in owned)
        return order.updates_per_epoch(rows, self.rows_of_batch(split))

    def _whole(self, stretch: Stretch) -> tuple[int, int] | None:
        if stretch.until == self.epochs:
            return None
        last = self.stretches(stretch.until)[-1]
        epochs = [last.split.epochs(last.begins, last.until, rank, self.nodes) for rank in range(self.nodes)]
        return last.first + len(epochs[0]) * (last.steps or 0), max(own[-1] + 1 for own in epochs)


def step_at(stretch: Stretch, rounds: int, step: int) -> int:
    """The run's steps so far, as a checkpoint says, after `rounds` finished rounds of the run.

    Where mini-batches are dealt apart, a round has as many steps as the node with the most makes: another number with
    another number of nodes than the checkpoint's.
    """
    if not stretch.split.dealt_apart:
        return step
    return stretch.first + (rounds - stretch.begins) * (stretch.steps or 0)


def is_within_round(stretch: Stretch, step: int) -> bool:
    """Whether the run, after `step` steps, is within a round that nodes of another number cannot go on with."""
    return not stretch.split.shared and bool(stretch.steps) and (step - stretch.first) % (stretch.steps or 1) != 0


def next_stop(step: int, base: int, every: int | None, sync_every: int | None) -> int:
    """The step of a round that no chunk goes beyond, seen from its step `step`.

    base: the run's steps before the round. every: the run's steps between checkpoints; sync_every: the round's steps
    between syncs; None for neither within a round.
    """
    ends = [step + (1 << 62)]
    if every:
        ends.append(step + every - (base + step) % every)
    if sync_every:
        ends.append(step + sync_every - step % sync_every)
    return min(ends)


def syncs_left(done: int, steps: int, sync_every: int | None) -> range:
    """The steps of a round after which the nodes still agree, where a node's own rows have ended after `done` steps."""
    return range(sync_every * (done // sync_every + 1), steps, sync_every) if sync_every else range(0)
