"""Splits: which rows a node trains on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sparksplit.rows import order


class Split(Protocol):
    """Which lanes, which epochs and which mini-batch size a node has; pure functions of integers.

    shared: whether the nodes share each mini-batch; if not, each has its own mini-batches at the same time.
    dealt_apart: whether mini-batches are dealt from the node's own lanes alone, instead of from all lanes.
    every_row: whether each node reads all rows, in its own epochs.
    """

    shared: bool
    dealt_apart: bool
    every_row: bool

    def lanes(self, lanes: int, rank: int, nodes: int) -> npt.NDArray[np.int64]:
        """The lanes that node `rank` reads, ascending."""

    def epochs(self, done: int, epochs: int, rank: int, nodes: int) -> range:
        """The epoch numbers that node `rank` still has to run, in order, when those below `done` have been run.

        As many on every node: the n-th ones together are a round, which all nodes begin and end together.
        """

    def batch_size(self, batch_size: int, nodes: int) -> int:
        """Rows of the mini-batches that the node's lanes are dealt into."""


def owned_by_rank(split: Split, lanes: int, nodes: int) -> list[list[int]]:
    """For each rank, the lanes that the node reads.

    Raises ValueError, saying what a split must do, where rows would be left out or read twice.
    """
    owned = [split.lanes(lanes, rank, nodes).tolist() for rank in range(nodes)]
    for rank, own in enumerate(owned):
        if own != sorted(set(own)) or (own and not 0 <= own[0] <= own[-1] < lanes):
            raise ValueError(
                f"lanes({lanes}, {rank}, {nodes}) must be ascending lanes from 0 to {lanes - 1} (is {own})"
            )
    times = [sum(lane in own for own in map(set, owned)) for lane in range(lanes)]
    must = nodes if split.every_row else 1
    for lane, found in enumerate(times):
        if found != must:
            every = "every_row" if split.every_row else "not every_row"
            raise ValueError(f"{every}, so {must} of {nodes} nodes must own each lane (lane {lane} has {found})")
    return owned


def owned_together(splits: Iterable[Split], lanes: int, nodes: int) -> list[list[int]]:
    """For each rank, the lanes that the node reads with any of `splits`. Raises ValueError like `owned_by_rank`."""
    each = [owned_by_rank(split, lanes, nodes) for split in splits]
    return [sorted(set().union(*(owned[rank] for owned in each))) for rank in range(nodes)]


def check_epochs(split: Split, epochs: int, nodes: int) -> None:
    """Raise ValueError, saying what a split must do, where some of a run's epochs would be left out or run twice."""
    by_rank = [list(split.epochs(0, epochs, rank, nodes)) for rank in range(nodes)]
    for rank, own in enumerate(by_rank):
        if len(own) != len(by_rank[0]):
            raise ValueError(
                f"epochs(0, {epochs}, {rank}, {nodes}) must be as many epochs as those of rank 0, since all nodes run "
                f"each round together (are {len(own)}, rank 0 has {len(by_rank[0])})"
            )
    # Nodes that read all rows each run their own epochs; nodes that share an epoch's rows all run it.
    found = sorted(epoch for own in by_rank for epoch in own) if split.every_row else by_rank[0]
    wanted = list(range(max(epochs, len(found))))
    for rank, own in enumerate([found] if split.every_row else by_rank):
        if own != wanted:
            every, whose = ("every_row", "all nodes") if split.every_row else ("not every_row", f"rank {rank}")
            shown = ", ".join(map(str, own[:9])) + (", ..." if len(own) > 9 else "")
            raise ValueError(
                f"{every}, so the epochs(0, {epochs}, rank, {nodes}) of {whose} must be 0 to {len(wanted) - 1}, each "
                f"once (are {shown})"
            )


def check_rounds(split: Split, epochs: int, nodes: int) -> None:
    """Raise ValueError where a run that ends after one of its rounds would not have run the epochs from 0 up.

    The split is one that `check_epochs` accepts.
    """
    by_rank = [split.epochs(0, epochs, rank, nodes) for rank in range(nodes)]
    found = [epoch for round_ in zip(*by_rank, strict=True) for epoch in sorted(set(round_))]
    if found != sorted(found):
        shown = ", ".join(map(str, found[:9])) + (", ..." if len(found) > 9 else "")
        raise ValueError(f"with early_stop, the epochs of a round must follow those of the round before (are {shown})")


class BatchSplit:
    """The nodes share every mini-batch: each owns lanes, runs all epochs, and contributes its rows of each."""

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
    """Shares every mini-batch as BatchSplit does, between nodes that own the lanes another split gives them."""

    def __init__(self, other: Split) -> None:
        self._other = other

    def lanes(self, lanes: int, rank: int, nodes: int) -> npt.NDArray[np.int64]:
        return self._other.lanes(lanes, rank, nodes)


class EpochSplit:
    """The nodes share the epochs: node r runs the epochs r, r + N, r + 2N, ... over all rows, each in its own order.

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
    """Each node owns lanes and runs all epochs over them on its own, in mini-batches of max(1, B div N) rows."""

    shared = False
    dealt_apart = True

    def batch_size(self, batch_size: int, nodes: int) -> int:
        return max(1, batch_size // nodes)
