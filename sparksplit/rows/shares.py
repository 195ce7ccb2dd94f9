"""How many rows each node has in the mini-batches that nodes share.

Pure functions of integers, like rows.order. Lanes end at different depths. Between two such depths, the same lanes take
turns, so the shares are periodic, and one period is counted for all. So the time hardly grows with the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparksplit.rows.order import Ints

_CELLS = 1 << 21
"""About as many numbers are computed at once."""


def largest_share(lane_rows: Ints, owner: Ints, batch_size: int) -> float:
    """Return the rows of the node with the most rows in a mini-batch, as the mean over a pass.

    All nodes wait for this node. lane_rows: int64 [lanes], with a row at least. owner: the node of each lane, int64
    [lanes].
    """
    if batch_size == 1:
        return 1.0
    rows = updates = 0
    for shares, times in _Dealing(lane_rows, owner, batch_size).counted():
        rows += int(shares.max(axis=1) @ times)
        updates += int(times.sum())
    return rows / updates


def typical_shares(lane_rows: Ints, owner: Ints, nodes: int, batch_size: int) -> Ints:
    """Return the rows of each node in a full mini-batch, int64 [nodes]: the one whose largest share is the nearest to
    `largest_share`.

    The arguments are those of `largest_share`. A pass with fewer rows than a mini-batch has one mini-batch.
    """
    mean, rows = largest_share(lane_rows, owner, batch_size), min(batch_size, int(lane_rows.sum()))
    nearest, found = np.inf, np.zeros(nodes, np.int64)
    for shares, _ in _Dealing(lane_rows, owner, batch_size).counted():
        distance = np.where(shares.sum(axis=1) == rows, np.abs(shares.max(axis=1) - mean), np.inf)
        if distance.min() < nearest:
            nearest, best = distance.min(), shares[distance.argmin()]
            found[: len(best)] = best
    return found


class _Dealing:
    """The mini-batches of a pass. A stretch is the depths between two at which lanes end."""

    def __init__(self, lane_rows: Ints, owner: Ints, batch_size: int) -> None:
        filled = lane_rows > 0
        self._lane_rows, self._owner, self._batch_size = lane_rows[filled], owner[filled], batch_size
        self._nodes = int(self._owner.max()) + 1
        self._ends = np.unique(self._lane_rows)
        last = np.searchsorted(self._ends, self._lane_rows)  # the last stretch of each lane
        size = len(self._ends) * self._nodes
        ended = np.bincount(last * self._nodes + self._owner, minlength=size).reshape(-1, self._nodes)
        # In each stretch: lanes with rows, of each node and of all. Before each stretch, and at the end: rows.
        self._own_lanes = np.cumsum(ended[::-1], axis=0)[::-1]
        self._lanes = self._own_lanes.sum(axis=1)
        depths = np.diff(self._ends, prepend=0)
        rows = np.cumsum(self._own_lanes * depths[:, None], axis=0)
        self._own_before = np.concatenate((np.zeros((1, self._nodes), np.int64), rows))
        self._before = self._own_before.sum(axis=1)

    def counted(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield (shares, times): the rows of each node in some mini-batches, int64 [n, nodes], and how many
        mini-batches of the pass have these shares, int64 [n]."""
        numbers, times = self._numbers()
        size = max(1, _CELLS // max(self._nodes, 2 * len(self._owner)))
        for at in range(0, len(numbers), size):
            begins = numbers[at : at + size] * self._batch_size
            ends = np.minimum(begins + self._batch_size, self._before[-1])
            edges, where = np.unique(np.concatenate((begins, ends)), return_inverse=True)
            before = self._rows_before(edges)[where]
            yield before[len(begins) :] - before[: len(begins)], times[at : at + size]

    def _numbers(self) -> tuple[Ints, Ints]:
        """Return the numbers of the mini-batches to count, and how many mini-batches each stands for."""
        size, before = self._batch_size, self._before
        first, until = -(-before[:-1] // size), before[1:] // size
        inside = np.maximum(until - first, 0)
        period = self._lanes // np.gcd(self._lanes, size)
        kept = np.minimum(inside, period)
        place = np.arange(kept.sum()) - np.repeat(np.cumsum(kept) - kept, kept)
        times = -(-(np.repeat(inside, kept) - place) // np.repeat(period, kept))
        across = np.unique(before[1:][before[1:] % size > 0] // size)  # in several stretches, or the last one
        numbers = np.concatenate((np.repeat(first, kept) + place, across))
        return numbers, np.concatenate((times, np.ones_like(across)))

    def _rows_before(self, positions: Ints) -> Ints:
        """Return how many rows of each node come before `positions` (int64 [n]), int64 [n, nodes]."""
        last = len(self._lanes) - 1
        stretch = np.minimum(np.searchsorted(self._before, positions, side="right") - 1, last)
        turns, further = np.divmod(positions - self._before[stretch], self._lanes[stretch])
        found: Ints = self._own_before[stretch] + turns[:, None] * self._own_lanes[stretch]
        found += self._first_lanes(stretch, further)
        return found

    def _first_lanes(self, stretch: Ints, count: Ints) -> Ints:
        """Return how many of the first `count` lanes with rows in `stretch` (both int64 [n]) each node has, int64
        [n, nodes]."""
        stretches, place = np.unique(stretch, return_inverse=True)
        present = self._lane_rows >= self._ends[stretches][:, None]
        lanes = np.flatnonzero(present) % len(self._lane_rows)  # of one stretch after the other
        begins = np.cumsum(self._lanes[stretches]) - self._lanes[stretches]
        points, where = np.unique(np.concatenate((begins, begins[place] + count)), return_inverse=True)
        part = np.repeat(np.arange(len(points) + 1), np.diff(points, prepend=0, append=len(lanes)))
        size = (len(points) + 1) * self._nodes
        of_part = np.bincount(part * self._nodes + self._owner[lanes], minlength=size).reshape(-1, self._nodes)
        before = np.cumsum(of_part, axis=0)
        found: Ints = before[where[len(stretches) :]] - before[where[: len(stretches)]][place]
        return found
