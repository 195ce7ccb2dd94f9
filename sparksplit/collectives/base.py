"""The collective's interface, its errors, and the collective of a node on its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sparksplit.base.errors import PeerLost

Array = npt.NDArray[Any]


class PeerTimeout(PeerLost):
    """Another node could not be reached within the time limit."""


class Collective(ABC):
    """Sums arrays over the nodes in a fixed order, so that every rank gets the same bits.

    bytes_sent: bytes that this node has sent. seconds: time spent in sums; waited: the part of it before a peer had
    sent anything.
    same_graphs: whether all nodes must run the same graphs, and the loops in them equally often. in_graphs: whether
    `sum_tensors` works inside a tf.function; if not, it is called with eager tensors. same_shapes: whether a
    `sum_tensors` in a loop must have the same shapes each time; if so, large embeddings' gradients travel whole.
    """

    same_graphs = False
    in_graphs = True
    same_shapes = False

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.bytes_sent = 0
        self.seconds = self.waited = 0.0

    def reset(self) -> None:
        """Count from zero."""
        self.bytes_sent, self.seconds, self.waited = 0, 0.0, 0.0

    @abstractmethod
    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """The element-wise sums over all nodes; shapes and dtypes (floats, 64-bit integers) as given, on every rank.

        Every node must call it with the same shapes, which may be others each time. Results stay valid until the call
        after next. Raises PeerLost.
        """

    @abstractmethod
    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        """Like `sum`, for tensors, in one exchange. Copy what you want to keep."""

    def account(self, calls: int) -> None:
        """Add the traffic of `calls` runs of the traced `sum_tensors`, unless it is counted as it happens."""
        return

    def failure(self) -> BaseException | None:
        """The error of the last exchange inside a tf.function, which TensorFlow hides behind its own."""
        return None

    def cause(self, error: BaseException) -> BaseException | None:
        """What a TensorFlow error stands for if an exchange has failed; None if it is what it says."""
        return self.failure()

    @abstractmethod
    def close(self) -> None:
        """End the connections; may be called twice."""


class Alone(Collective):
    """The collective of one node: its sums are what it was given."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.asarray(array) for array in arrays]

    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        return list(tensors)

    def close(self) -> None:
        return
