"""Splits: which rows a node trains on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sparksplit.rows import order


class Split(Protocol):
    """The lanes, the epochs and the mini-batch size of a node: pure functions of integers.

    shared: whether the nodes share each mini-batch. If not, each node has its own mini-batches at the same time.
    dealt_apart: whether mini-batches are dealt from the node's own lanes only, instead of from all lanes.
    every_row: whether each node reads all rows, in its own epochs.
    """

    shared: bool
    dealt_apart: bool
    every_row: bool

    def lanes(self, lanes: int, rank: int, nodes: int) -> npt.NDArray[np.int64]:
        """The lanes that node `rank` reads, ascending."""

    def epochs(self, done: int, epochs: int, rank: int, nodes: int) -> range:
        """Return the epochs that node `rank` still has to run, in order, after the epochs below `done`.

        All nodes get the same number of epochs. The n-th epochs of all nodes form a round, which all nodes begin and
        end together.
        """

    def batch_size(self, batch_size: int, nodes: int) -> int:
        """Return the number of rows in one mini-batch that the node works on: its own, or one that nodes share."""


def owned_by_rank(split: Split, lanes: int, nodes: int) -> list[list[int]]:
    """Return, for each rank, the lanes that the node reads.

    Raise ValueError, with the rule that the split breaks, if rows would be left out or read twice.
    """
    owned = [split.lanes(lanes, rank, nodes).tolist() for rank in range(nodes)]
    for rank, own_lanes in enumerate(owned):
        if own_lanes != sorted(set(own_lanes)) or (own_lanes and not 0 <= own_lanes[0] <= own_lanes[-1] < lanes):
            raise ValueError(
                f"lanes({lanes}, {rank}, {nodes}) must be ascending lanes from 0 to {lanes - 1} (is {own_lanes})"
            )
    times = np.bincount(np.array([lane for own_lanes in owned for lane in own_lanes], np.int64), minlength=lanes)
    must = nodes if split.every_row else 1
    for lane, owners in enumerate(times):
        if owners != must:
            every = "every_row" if split.every_row else "not every_row"
            raise ValueError(f"{every}, so {must} of {nodes} nodes must own each lane (lane {lane} has {owners})")
    return owned


def owned_together(splits: Iterable[Split], lanes: int, nodes: int) -> list[list[int]]:
    """For each rank, return the lanes that the node reads with any of `splits`. Raise ValueError as `owned_by_rank`
    does."""
    each = [owned_by_rank(split, lanes, nodes) for split in splits]
    return [sorted(set().union(*(owned[rank] for owned in each))) for rank in range(nodes)]


def check_epochs(split: Split, epochs: int, nodes: int) -> None:
    """Raise ValueError, with the rule that the split breaks, if a run would leave out an epoch or run one twice."""
    by_rank = [list(split.epochs(0, epochs, rank, nodes)) for rank in range(nodes)]
    for rank, of_rank in enumerate(by_rank):
        if len(of_rank) != len(by_rank[0]):
            raise ValueError(
                f"split.epochs(0, {epochs}, {rank}, {nodes}) gives {len(of_rank)} epochs, and rank 0 gets "
                f"{len(by_rank[0])}: all ranks must get the same number, because the nodes run them side by side"
            )
    # Nodes that read all rows run different epochs. Nodes that share the rows all run the same epochs.
    covered = sorted(epoch for of_rank in by_rank for epoch in of_rank) if split.every_row else by_rank[0]
    wanted = list(range(max(epochs, len(covered))))
    for rank, listed in enumerate([covered] if split.every_row else by_rank):
        if listed != wanted:
            every, whose = ("every_row", "all nodes") if split.every_row else ("not every_row", f"rank {rank}")
            shown = ", ".join(map(str, listed[:9])) + (", ..." if len(listed) > 9 else "")
            raise ValueError(
                f"{every}, so the epochs(0, {epochs}, rank, {nodes}) of {whose} must be 0 to {len(wanted) - 1}, each "
                f"once (are {shown})"
            )


def check_rounds(split: Split, epochs: int, nodes: int) -> None:
    """Raise ValueError if a run that ends after one of its rounds could leave out an earlier epoch.

    split: a split that `check_epochs` accepts.
    """
    by_rank = [split.epochs(0, epochs, rank, nodes) for rank in range(nodes)]
    by_round = [epoch for round_ in zip(*by_rank, strict=True) for epoch in sorted(set(round_))]
    if by_round != sorted(by_round):
        shown = ", ".join(map(str, by_round[:9])) + (", ..." if len(by_round) > 9 else "")
        raise ValueError(
            "with early_stop or callbacks that change training, the epochs of a round must follow those of the round "
            f"before (are {shown})"
        )


class BatchSplit:
    """The nodes share every mini-batch. Each node owns lanes, runs all epochs, and contributes its rows of each
    mini-batch."""

    shared = True
    dealt_apart = False
    every_row = False

    def lanes(self, lanes: int, rank: int, nodes: int) -> npt.NDArray[np.int64]:
        return order.owned_lanes(lanes, rank, nodes)

    def epochs(self, done: int, epochs: int, rank: int, nodes: int) -> range:
        return range(done, epochs)

    def batch_size(self, batch_size: int, nodes: int) -> int:
        return batch_size


class SharedLanes(BatchSplit):
    """The nodes share every mini-batch, as in BatchSplit. Each node owns the lanes that another split gives it."""

    def __init__(self, other: Split) -> None:
        self._other = other

    def lanes(self, lanes: int, rank: int, nodes: int) -> npt.NDArray[np.int64]:
        return self._other.lanes(lanes, rank, nodes)


class EpochSplit:
    """The nodes share the epochs. Node r runs the epochs r, r + N, r + 2N, ... over all rows, each epoch in its own
    order.

    Every round has N epochs, so E epochs are N * ceil(E / N) passes.
    """

    shared = False
    dealt_apart = False
    every_row = True

    def lanes(self, lanes: int, rank: int, nodes: int) -> npt.NDArray[np.int64]:
        return np.arange(lanes, dtype=np.int64)

    def epochs(self, done: int, epochs: int, rank: int, nodes: int) -> range:
        rounds = -(-max(0, epochs - done) // nodes)
        return range(done + rank, done + rank + rounds * nodes, nodes)

    def batch_size(self, batch_size: int, nodes: int) -> int:
        return batch_size


class LaneSplit(BatchSplit):
    """Each node owns lanes and runs all epochs over these lanes alone, in mini-batches of max(1, B div N) rows."""

    shared = False
    dealt_apart = True

    def batch_size(self, batch_size: int, nodes: int) -> int:
        return max(1, batch_size // nodes)
