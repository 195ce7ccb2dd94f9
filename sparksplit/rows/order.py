"""The order of rows: when each row of each lane comes, and to which mini-batch it belongs.

All functions are pure functions of integers, the same for every number of nodes. Invariants 1, 2 and 4 depend on them.

Lanes have fixed lengths. A lane's rows lie in blocks of equal size; the last block may be shorter. In an epoch, the
full blocks of a lane are permuted. Then the rows are permuted within each window of consecutive (permuted) blocks. The
short block stays last, so that a window covers the same depths in every lane. Mini-batch k is the next B rows, dealt
round-robin over the lanes that still have rows.

In a data set with `order: given`, nothing is permuted. Row i is row i div L of lane i mod L, so the deal gives the rows
back as they were given: mini-batch k is the rows kB to (k+1)B - 1.

depth: number of rows of the same lane that come before a row in the epoch's order.
position: number of rows of the whole set that come before a row in the epoch's order.

Permutations sort by a hash of the index instead of using a random generator. So all versions of NumPy give the same
bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparksplit.dataset.row_ids import mix64, mix64_int

Ints = npt.NDArray[np.int64]


def owned_lanes(lanes: int, rank: int, nodes: int) -> Ints:
    """Return the lanes of node `rank`: the lanes with lane mod nodes = rank, ascending, int64 [n]."""
    return np.arange(rank, lanes, nodes, dtype=np.int64)


def updates_per_epoch(rows: int, batch_size: int) -> int:
    """Mini-batches in one pass over `rows` rows: ceil(rows / batch_size)."""
    return -(-rows // batch_size)


def batch_rows(rows: int, batch_size: int, first: int, last: int) -> Ints:
    """Return the rows in each of the mini-batches first..last-1 of a pass over `rows` rows, int64 [last - first]."""
    return np.minimum(batch_size, rows - np.arange(first, last, dtype=np.int64) * batch_size)


def key(*numbers: int) -> np.uint64:
    """Return one 64-bit key from several integers (a seed, an epoch, a lane, ...). Their order matters."""
    state = 0
    for number in numbers:
        state = mix64_int(state ^ number % 2**64)
    return np.uint64(state)


def permutation(length: int, with_key: np.uint64) -> Ints:
    """A permutation of 0..length-1 drawn by `with_key`, int64 [length]."""
    return np.argsort(mix64(np.arange(length, dtype=np.uint64) ^ with_key), kind="stable")


@dataclass(frozen=True)
class AsStored:
    """An epoch that permutes nothing: validation, test, and `order: given`.

    block_rows: rows in a full block.
    window: number of blocks that are read together.
    """

    block_rows: int
    window: int

    @property
    def window_rows(self) -> int:
        """Number of depths that one window covers."""
        return self.block_rows * self.window

    def blocks(self, lane: int, lane_rows: int) -> Ints:
        """The stored numbers of the lane's blocks in this epoch's order, int64 [ceil(lane_rows / block_rows)]."""
        return np.arange(-(-lane_rows // self.block_rows), dtype=np.int64)

    def rows(self, lane: int, window: int, rows: int) -> Ints:
        """The order of the `rows` rows of the lane's `window`, as indices into its blocks laid end to end."""
        return np.arange(rows, dtype=np.int64)


@dataclass(frozen=True)
class Shuffle(AsStored):
    """An epoch that permutes a lane's blocks, and the rows of each window.

    seed, epoch: the permutation depends on these and on the lane.
    """

    seed: int
    epoch: int

    def blocks(self, lane: int, lane_rows: int) -> Ints:
        full = lane_rows // self.block_rows
        order = permutation(full, key(self.seed, self.epoch, lane)) if full > 1 else np.arange(full, dtype=np.int64)
        return order if full * self.block_rows == lane_rows else np.append(order, full)

    def rows(self, lane: int, window: int, rows: int) -> Ints:
        return permutation(rows, key(self.seed, self.epoch, lane, window + 1))


def rows_above(lane_rows: Ints, depths: Ints) -> Ints:
    """For each depth, return the number of rows of the whole set above it: the sum over lanes of min(length, depth).

    lane_rows: int64 [lanes].
    depths: int64 [n].
    The result, int64 [n], is the position of the first row at each depth.
    """
    if len(depths) == 1:  # the usual case: one depth per window
        return np.array([np.minimum(lane_rows, depths).sum()])
    lengths = np.sort(lane_rows)
    ended = np.searchsorted(lengths, depths, side="right")
    sums = np.concatenate(([0], np.cumsum(lengths)))
    result: Ints = sums[ended] + (len(lengths) - ended) * depths
    return result


def depth_of(lane_rows: Ints, position: int) -> int:
    """Return the depth of the row at `position`. If `position` is the number of all rows, return the longest lane's
    length."""
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
    """A node's rows at some depths, in the order of their positions.

    present: which of the node's own lanes have a row at each depth, bool [depths, own lanes]. The rows are its true
        elements, depth by depth.
    position: of each row, within the whole set, int64 [n].
    """

    present: npt.NDArray[np.bool_]
    position: Ints


def deal(lane_rows: Ints, own: Ints, first: int, last: int) -> Deal:
    """Deal the rows at depths first..last-1 round-robin over the lanes, and keep the rows of the lanes `own`.

    lane_rows: int64 [lanes].
    own: int64 [n], ascending.

    Time and memory grow with the own rows. The other lanes are only counted. Narrow rows may take less memory than
    64-bit numbers for each of them, so only the positions have 64 bits.
    """
    # within[d, i]: at depth first + d, how many lanes before own[i] still have a row.
    within = np.empty((last - first, len(own)), np.int32)
    count, begin = np.zeros(last - first, np.int64), 0
    for place, lane in enumerate(own.tolist()):
        count += _lanes_with_rows(lane_rows[begin:lane], first, last)
        within[:, place] = count
        begin = lane
    at_depth = count + _lanes_with_rows(lane_rows[begin:], first, last)
    above = int(np.minimum(lane_rows, first).sum()) + np.cumsum(at_depth) - at_depth
    present = lane_rows[own] > np.arange(first, last, dtype=np.int64)[:, None]
    position = np.repeat(above, np.count_nonzero(present, axis=1))
    position += within[present]
    return Deal(present, position)


def _lanes_with_rows(lane_rows: Ints, first: int, last: int) -> Ints:
    """Return how many of the lanes have a row at each of the depths first..last-1, int64 [last - first]."""
    depths = last - first
    ended = np.cumsum(np.bincount(np.clip(lane_rows - first, 0, depths), minlength=depths + 1))
    return len(lane_rows) - ended[:depths]


def batch_offsets(positions: Ints, batch_size: int, first: int, last: int) -> Ints:
    """Return where each of the mini-batches first..last-1 begins among sorted `positions`: int64 [last - first + 1].

    The share of mini-batch first + i is positions[result[i]:result[i + 1]]; it may be empty.
    """
    edges = np.arange(first, last + 1, dtype=np.int64) * batch_size
    return np.searchsorted(positions, edges).astype(np.int64)


def even_share(lane_rows: Ints, own: Ints, batch_size: int) -> tuple[int, int | None]:
    """Return (updates, share): each of a pass's first `updates` mini-batches has `share` rows in all on lanes `own`.

    Mini-batches take one row from each lane in turn until a lane ends, so the shares are periodic. Return (0, None) if
    the shares differ or are 0, or if a lane ends before the first mini-batch is full.
    lane_rows: int64 [lanes].
    own: int64 [n], ascending.
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
