"""Which epochs run when, and by which strategy: pure functions of integers, like rows.order.

A run is one stretch of rounds. It is two stretches if it changes from `batch` to its own strategy after `sync.after`
updates. All nodes begin and end a round together. In a round each node runs one epoch, which is its own epoch if the
strategy splits the epochs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparksplit.rows import order
from sparksplit.strategies.splits import BatchSplit, SharedLanes, Split


@dataclass(frozen=True)
class Stretch:
    """Rounds that are trained with one strategy.

    own: whether the strategy is the run's own. If not, it is `batch`, on the lanes that the nodes have.
    begins, until: number of the run's epochs that are over before the stretch, and after it.
    first: the run's steps before the stretch.
    steps: steps of a round, on the node with the most steps.
    """

    split: Split
    own: bool
    begins: int
    until: int
    first: int
    steps: int


@dataclass(frozen=True)
class Rounds:
    """The unfinished rounds of a stretch.

    epochs: by rank, the epochs of these rounds, as Split.epochs gives them.
    first, steps: as in Stretch.
    whole: (steps, epochs) of the whole run if another stretch follows; otherwise None.
    """

    epochs: Sequence[range]
    first: int
    steps: int
    whole: tuple[int, int] | None = None

    @property
    def passes(self) -> int:
        """Number of the run's epochs that are over at the end of these rounds or, if another stretch follows, of the
        run."""
        return self.whole[1] if self.whole else max((epochs[-1] + 1 for epochs in self.epochs if epochs), default=0)


@dataclass(frozen=True)
class Schedule:
    """All rounds of a run on `nodes` nodes.

    split: the strategy's split.
    lanes: number of lanes of the data set.
    lane_rows: rows of each lane.
    local_batch_size: rows of mini-batches that are dealt apart, if the user sets it.
    after: `sync.after`.
    """

    split: Split
    nodes: int
    lanes: int
    lane_rows: Sequence[int]
    epochs: int
    batch_size: int
    local_batch_size: int | None = None
    after: int = 0

    def stretches(self, done: int = 0) -> list[Stretch]:
        """Return the stretches that are not over after `done` epochs; always at least the last stretch."""
        per_epoch = order.updates_per_epoch(sum(self.lane_rows), self.batch_size)
        before = min(self.epochs, -(-self.after // per_epoch)) if self.after and per_epoch else 0
        stretches = []
        if done < before or before == self.epochs:
            # A node that was handed its rows has only rows of the strategy's own lanes.
            split = BatchSplit() if self.split.every_row else SharedLanes(self.split)
            stretches.append(Stretch(split, False, 0, before, 0, self._steps(split)))
        if before < self.epochs:
            first = before * per_epoch
            stretches.append(Stretch(self.split, True, before, self.epochs, first, self._steps(self.split)))
        return stretches

    def rounds(self, stretch: Stretch, done: int) -> Rounds:
        """Return the rounds of `stretch` that are left after `done` epochs of the run."""
        epochs = [stretch.split.epochs(done, stretch.until, rank, self.nodes) for rank in range(self.nodes)]
        return Rounds(epochs, stretch.first, stretch.steps, self._whole(stretch))

    def rows_of_batch(self, split: Split) -> int:
        """Return the number of rows in the mini-batches that a node's lanes are dealt into."""
        batch_size = split.batch_size(self.batch_size, self.nodes)
        return (self.local_batch_size or batch_size) if split.dealt_apart else batch_size

    def _steps(self, split: Split) -> int:
        rows = sum(self.lane_rows)
        if split.dealt_apart:
            owned = (split.lanes(self.lanes, rank, self.nodes) for rank in range(self.nodes))
            rows = max(sum(self.lane_rows[lane] for lane in lanes) for lanes in owned)
        return order.updates_per_epoch(rows, self.rows_of_batch(split))

    def _whole(self, stretch: Stretch) -> tuple[int, int] | None:
        if stretch.until == self.epochs:
            return None
        last = self.stretches(stretch.until)[-1]
        epochs = [last.split.epochs(last.begins, last.until, rank, self.nodes) for rank in range(self.nodes)]
        return last.first + len(epochs[0]) * last.steps, max(of_rank[-1] + 1 for of_rank in epochs)


def step_at(stretch: Stretch, rounds: int, step: int) -> int:
    """Return the run's steps after `rounds` finished rounds of the run, as a checkpoint counts them.

    If mini-batches are dealt apart, a round has as many steps as the node with the most steps. With another number of
    nodes, the number may differ from the checkpoint's `step`.
    """
    if not stretch.split.dealt_apart:
        return step
    return stretch.first + (rounds - stretch.begins) * stretch.steps


def is_within_round(stretch: Stretch, step: int) -> bool:
    """Return whether the run, after `step` steps, is within a round that another number of nodes cannot continue."""
    return not stretch.split.shared and stretch.steps > 0 and (step - stretch.first) % stretch.steps != 0


def own_steps(stretch: Stretch, step: int, per_round: int) -> int:
    """Return how many of the run's `step` steps a node has made itself, at the end of a round of `stretch`.

    per_round: the node's own steps in a round of `stretch`. In earlier rounds, all nodes have equally many steps.
    """
    return stretch.first + (step - stretch.first) // stretch.steps * per_round


def next_stop(step: int, base: int, every: int | None, sync_every: int | None) -> int:
    """Return the step that no chunk may go beyond, seen from `step`. Both count within the round.

    base: the run's steps before the round.
    every: the run's steps between checkpoints. None: no checkpoints within a round.
    sync_every: the round's steps between syncs. None: no syncs within a round.
    """
    ends = [step + (1 << 62)]
    if every:
        ends.append(step + every - (base + step) % every)
    if sync_every:
        ends.append(step + sync_every - step % sync_every)
    return min(ends)


def syncs_left(done: int, steps: int, sync_every: int | None) -> range:
    """Return the steps of a round after which the nodes still agree, for a node whose own rows ended after `done`
    steps."""
    return range(sync_every * (done // sync_every + 1), steps, sync_every) if sync_every else range(0)
