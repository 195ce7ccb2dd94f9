"""The interface of collectives, their errors, and the collective of a single node."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from hdfs_io import activity
from sparksplit.base.errors import PeerLost
from sparksplit.collectives.narrow import narrowed, narrowed_tensors, widened, widened_tensors

if TYPE_CHECKING:
    from sparksplit.collectives.calls import GraphCall

Array = npt.NDArray[Any]
Plan = TypeVar("Plan")

_NOTED = 1 << 20  # bytes of one sum that count as progress; small repeated sums never count
_MOST_PLANS = 16  # last used plans to keep. Each may have buffers; a mini-batch's embedding rows vary in number


class PeerTimeout(PeerLost):
    """Another node could not be reached within the time limit."""


class Collective(ABC):
    """Sums arrays over the nodes in a fixed order, so that every rank gets the same bits.

    bytes_sent: bytes that this node has sent.
    seconds: time spent in sums, in seconds.
    waited: the part of `seconds` before a peer had sent anything.
    same_graphs: all nodes must run the same graphs, and the loops in them equally often.
    in_graphs: `sum_tensors` works inside a tf.function. If not, it is called with eager tensors.
    same_shapes: a `sum_tensors` in a loop must have the same shapes each time. Gradients of large embeddings are then
        sent whole.
    on_device: tensors on a GPU are summed there. If not, they are copied to the host's memory and back.
    name: name in the table of collectives.
    reason: why this collective was chosen, if the configuration leaves the choice open.
    """

    same_graphs = False
    in_graphs = True
    same_shapes = False
    on_device = False
    name = ""
    reason = ""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.bytes_sent = 0
        self.seconds = self.waited = 0.0

    def reset(self) -> None:
        """Reset the counters to zero."""
        self.bytes_sent, self.seconds, self.waited = 0, 0.0, 0.0

    @abstractmethod
    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the element-wise sums over all nodes, with the given shapes and dtypes (floats, 64-bit integers), on
        every rank. float16 and bfloat16 are summed in float32 and rounded once (collectives.narrow).

        Every node must call this with the same shapes, which may change between calls. Do not write to the results;
        they stay valid until the call after next. Raise PeerLost if a node is lost.
        """

    @abstractmethod
    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        """Like `sum`, for tensors, in one exchange. Copy the results that you want to keep."""

    def account(self, calls: int) -> None:
        """Count the traffic of `calls` runs of the traced `sum_tensors`, unless the collective counts it itself."""
        return

    def failure(self) -> BaseException | None:
        """Return the error of the last exchange inside a tf.function, which TensorFlow hides behind its own error."""
        return None

    def cause(self, error: BaseException) -> BaseException | None:
        """Return the exchange's error behind a TensorFlow error. None if no exchange has failed."""
        return self.failure()

    @contextmanager
    def unhidden(self) -> Iterator[None]:
        """Run a graph with exchanges in this block: it raises an exchange's own error instead of TensorFlow's."""
        try:
            yield
        except Exception as error:
            hidden = self.cause(error)
            if hidden is None:
                raise
            raise hidden from None

    def of_fewer(self, nodes: int) -> tuple[float, float]:
        """Return (share of the turns, share of the bytes) of an exchange that are left if only the first `nodes` nodes
        exchange. By default, these are the shares of a ring."""
        return (nodes - 1) / (self.size - 1), (nodes - 1) / nodes / ((self.size - 1) / self.size)

    @abstractmethod
    def close(self) -> None:
        """End the connections. May be called twice."""


class NumPyCollective(Collective, Generic[Plan]):
    """Common parts of collectives that sum with NumPy: calls from graphs, 16-bit floats, and plans by shapes and
    dtypes. A sum also counts its time, its waiting and its progress.
    """

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._began = 0.0
        self._unnoted = 0
        self._failure: BaseException | None = None
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._call: GraphCall | None = None

    def _planned(self, arrays: Sequence[Array], make: Callable[[], Plan]) -> Plan:
        """Return the plan for the shapes and dtypes of `arrays`. Make a new plan if none is kept."""
        signature = tuple((array.shape, array.dtype.str) for array in arrays)
        plan = self._plans.pop(signature, None) or make()
        self._plans[signature] = plan
        if len(self._plans) > _MOST_PLANS:
            del self._plans[next(iter(self._plans))]
        return plan

    def _begin(self) -> float:
        """Begin a sum. Return the time, in seconds of time.perf_counter."""
        self._began = time.perf_counter()
        self._unnoted = 0
        return self._began

    def _arrived(self) -> None:
        """Note that the other nodes have reached this sum."""
        if self._began:
            self.waited += time.perf_counter() - self._began
            self._began = 0.0

    def _moved(self, sent: int, received: int = 0) -> None:
        """Count bytes sent and received as progress."""
        if received:
            self._arrived()
        self._unnoted += sent + received
        if self._unnoted >= _NOTED:
            self._unnoted = 0
            activity.note()

    @abstractmethod
    def _sum(self, arrays: Sequence[Array]) -> list[Array]:
        """`sum` for dtypes that need no conversion."""

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        return narrowed(self._as_they_are(widened(arrays)), arrays)

    def _as_they_are(self, arrays: Sequence[Array]) -> list[Array]:
        # No warnings here: the callers check the sums for infinite values.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._sum(arrays)

    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        if self._call is None:
            from sparksplit.collectives.calls import GraphCall

            self._call = GraphCall(self._sum_kept)
        sums = self._call(widened_tensors(tensors))
        for result, tensor in zip(sums, tensors, strict=True):
            result.set_shape(tensor.shape)
        return narrowed_tensors(sums, tensors)

    def failure(self) -> BaseException | None:
        return self._failure

    def _sum_kept(self, arrays: Sequence[Array]) -> list[Array]:
        """`sum` for arrays without 16-bit floats. Keep the error, for `failure`."""
        try:
            return self._as_they_are(arrays)
        except BaseException as error:
            self._failure = error
            raise


class Alone(Collective):
    """The collective of one node: the sums are the given arrays."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        return [np.asarray(array) for array in arrays]

    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        return list(tensors)

    def close(self) -> None:
        return
