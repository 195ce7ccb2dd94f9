"""The order of rows: which row of which lane comes when, and which mini-batch it belongs to.

Pure functions of integers, the same for every number of nodes; invariants 1, 2 and 4 rest on them. Lanes have fixed
lengths; a lane's rows lie in blocks of equal size, the last one perhaps shorter. In an epoch the full blocks of a lane
are permuted, and the rows are permuted within each window of consecutive (permuted) blocks; the short block stays
last, so that a window covers the same depths in every lane. Mini-batch k is the next B rows dealt round-robin over the
lanes that still have rows.

depth: how many rows of its own lane come before a row in the epoch's order. position: how many rows of the whole set
do.
Permutations sort by a hash of the index instead of drawing from a generator: the same bits in every NumPy version.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparksplit.dataset.row_ids import mix64, mix64_int

Ints = npt.NDArray[np.int64]


def owned_lanes(lanes: int, rank: int, nodes: int) -> Ints:
    """The lanes of node `rank`: those with lane mod nodes = rank, ascending, int64 [n]."""
    return np.arange(rank, lanes, nodes, dtype=np.int64)


def updates_per_epoch(rows: int, batch_size: int) -> int:
    """Mini-batches in one pass over `rows` rows: ceil(rows / batch_size)."""
    return -(-rows // batch_size)


def batch_rows(rows: int, batch_size: int, first: int, last: int) -> Ints:
    """The rows of each of the mini-batches first..last-1 of a pass over `rows` rows, int64 [last - first]."""
    return np.minimum(batch_size, rows - np.arange(first, last, dtype=np.int64) * batch_size)


def key(*numbers: int) -> np.uint64:
    """One 64-bit key from several integers (a seed, an epoch, a lane, ...); their order matters."""
    state = 0
    for number in numbers:
        state = mix64_int(state ^ number % 2**64)
    return np.uint64(state)


def permutation(length: int, with_key: np.uint64) -> Ints:
    """A permutation of 0..length-1 drawn by `with_key`, int64 [length]."""
    return np.argsort(mix64(np.arange(length, dtype=np.uint64) ^ with_key), kind="stable")


@dataclass(frozen=True)
class Shuffle:
    """How an epoch permutes a lane.

    seed, epoch: what the permutation depends on, besides the lane.
    block_rows: rows in a full block. window: how many blocks have their rows permuted together.
    """

    seed: int
    epoch: int
    block_rows: int
    window: int

    @property
    def window_rows(self) -> int:
        """Depths that one window covers."""
        return self.block_rows * self.window

    def blocks(self, lane: int, lane_rows: int) -> Ints:
        """The stored numbers of the lane's blocks in this epoch's order, int64 [ceil(lane_rows / block_rows)]."""
        full = lane_rows // self.block_rows
        order = permutation(full, key(self.seed, self.epoch, lane)) if full > 1 else np.arange(full, dtype=np.int64)
        return order if full * self.block_rows == lane_rows else np.append(order, full)

    def rows(self, lane: int, window: int, rows: int) -> Ints:
        """The order of the `rows` rows of the lane's `window`, as indices into its blocks laid end to end."""
        return permutation(rows, key(self.seed, self.epoch, lane, window + 1))


def rows_above(lane_rows: Ints, depths: Ints) -> Ints:
    """For each depth, how many rows of the whole set lie above it: the sum over lanes of min(length, depth).

    lane_rows: int64 [lanes]; depths: int64 [n]; result: int64 [n], the position of the first row at that depth.
    """
    if len(depths) == 1:  # as is asked for each window
        return np.array([np.minimum(lane_rows, depths).sum()])
    lengths = np.sort(lane_rows)
    ended = np.searchsorted(lengths, depths, side="right")
    sums = np.concatenate(([0], np.cumsum(lengths)))
    result: Ints = sums[ended] + (len(lengths) - ended) * depths
    return result


def depth_of(lane_rows: Ints, position: int) -> int:
    """The depth of the row at `position`; if `position` is the number of all rows, the longest lane's length."""
    low, high = 0, int(lane_rows.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        if rows_above(lane_rows, np.array([middle]))[0] <= position:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True)
class Deal:
    """A node's rows at some depths, in the order of their positions; all int64 [n].

    lane: index into the node's own lanes. depth: within the lane. position: within the whole set.
    """

    lane: Ints
    depth: Ints
    position: Ints


def deal(lane_rows: Ints, own: Ints, first: int, last: int) -> Deal:
    """Deal the rows at depths first..last-1 round-robin over the lanes; keep those of the lanes `own`.

    Takes time and memory for the own rows, and for each depth the lanes that end between the two; of the others it only
    counts how many there are.

    lane_rows: int64 [lanes]; own: int64 [n], ascending.
    """
    depths = np.arange(first, last, dtype=np.int64)
    whole = lane_rows >= last
    ending = np.flatnonzero((lane_rows > first) & ~whole)
    # At each depth, how many of the ending lanes before each of them, and before the end of all, still have a row.
    before = np.zeros((len(depths), len(ending) + 1), np.int32)
    np.cumsum(lane_rows[ending] > depths[:, None], axis=1, out=before[:, 1:])
    at_depth = np.count_nonzero(whole) + before[:, -1].astype(np.int64)
    above = int(np.minimum(lane_rows, first).sum()) + np.cumsum(at_depth) - at_depth
    depth, lane = np.nonzero(lane_rows[own] > depths[:, None])
    within = (np.cumsum(whole) - whole)[own][lane] + before[depth, np.searchsorted(ending, own)[lane]]
    return Deal(lane, depth + first, above[depth] + within)


def batch_offsets(positions: Ints, batch_size: int, first: int, last: int) -> Ints:
    """Where each of the mini-batches first..last-1 begins among sorted `positions`: int64 [last - first + 1].

    The share of mini-batch first + i is positions[result[i]:result[i + 1]]; it may be empty.
    """
    edges = np.arange(first, last + 1, dtype=np.int64) * batch_size
    return np.searchsorted(positions, edges).astype(np.int64)


def even_share(lane_rows: Ints, own: Ints, batch_size: int) -> tuple[int, int | None]:
    """(updates, share): how many of a pass's first mini-batches have `share` rows each on the lanes `own`.

    While no lane has ended, positions go round the lanes, so the shares repeat; where they differ it is (0, None).
    lane_rows: int64 [lanes]; own: int64 [n], ascending.
    """
    lanes = len(lane_rows)
    updates = int(lane_rows.min()) * lanes // batch_size
    turn = np.zeros(lanes, np.int64)
    turn[own] = 1
    before = np.concatenate(([0], np.cumsum(turn)))
    edges = np.arange(lanes + 1, dtype=np.int64) * batch_size
    shares = np.diff(edges // lanes * len(own) + before[edges % lanes])
    if updates == 0 or shares[0] == 0 or (shares != shares[0]).any():
        return 0, None
    return updates, int(shares[0])
