"""Splits: which rows a node trains on."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from training import order


class Split(Protocol):
    """Which lanes, which epochs and which mini-batch size a node has; pure functions of integers."""

    def lanes(self, lanes: int, rank: int, nodes: int) -> npt.NDArray[np.int64]:
        """The lanes that node `rank` reads, ascending."""

    def epochs(self, epochs: int, rank: int, nodes: int) -> range:
        """The epoch numbers that node `rank` runs, in order."""

    def batch_size(self, batch_size: int, nodes: int) -> int:
        """Rows of the mini-batches that the node's lanes are dealt into."""


class BatchSplit:
    """The nodes share every mini-batch: each owns lanes, runs all epochs, and contributes its rows of each."""

    def lanes(self, lanes: int, rank: int, nodes: int) -> npt.NDArray[np.int64]:
        return order.owned_lanes(lanes, rank, nodes)

    def epochs(self, epochs: int, rank: int, nodes: int) -> range:
        return range(epochs)

    def batch_size(self, batch_size: int, nodes: int) -> int:
        return batch_size
