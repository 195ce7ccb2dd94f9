"""The collective's interface, its errors, and the collective of a node on its own."""

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

_NOTED = 1 << 20  # bytes of one sum that count as progress; never what nodes tell one another again and again
_MOST_PLANS = 16  # kept: the last ones used. Each may have buffers; what a mini-batch uses of embeddings varies


class PeerTimeout(PeerLost):
    """Another node could not be reached within the time limit."""


class Collective(ABC):
    """Sums arrays over the nodes in a fixed order, so that every rank gets the same bits.

    bytes_sent: bytes that this node has sent. seconds: time spent in sums; waited: the part of it before a peer had
    sent anything.
    same_graphs: whether all nodes must run the same graphs, and the loops in them equally often. in_graphs: whether
    `sum_tensors` works inside a tf.function; if not, it is called with eager tensors. same_shapes: whether a
    `sum_tensors` in a loop must have the same shapes each time; if so, large embeddings' gradients travel whole.
    on_device: whether tensors on a GPU are summed there; if not, they are copied to the host's memory and back.
    name: its name in the table of collectives. reason: why it was chosen, where the configuration leaves that open.
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
        """Count from zero."""
        self.bytes_sent, self.seconds, self.waited = 0, 0.0, 0.0

    @abstractmethod
    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        """The element-wise sums over all nodes; shapes and dtypes (floats, 64-bit integers) as given, on every rank.
        Those of float16 and bfloat16 are made in float32, and rounded once (collectives.narrow).

        Every node must call it with the same shapes, which may be others each time. Results stay valid until the call
        after next, and are not to be written to. Raises PeerLost.
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

    @contextmanager
    def unhidden(self) -> Iterator[None]:
        """Around a graph with exchanges in it: raises an exchange's error, and not what TensorFlow makes of it."""
        try:
            yield
        except Exception as error:
            hidden = self.cause(error)
            if hidden is None:
                raise
            raise hidden from None

    @abstractmethod
    def close(self) -> None:
        """End the connections; may be called twice."""


class NumPyCollective(Collective, Generic[Plan]):
    """What the collectives whose sums are written in NumPy have in common: how graphs call them, floats of 16 bits,
    plans of how arrays of certain shapes and dtypes are summed, and what a sum counts: time, waiting, progress."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._began = 0.0
        self._unnoted = 0
        self._failure: BaseException | None = None
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._call: GraphCall | None = None

    def _planned(self, arrays: Sequence[Array], make: Callable[[], Plan]) -> Plan:
        """The plan for arrays like these; made where it is not among those that are kept."""
        signature = tuple((array.shape, array.dtype.str) for array in arrays)
        plan = self._plans.pop(signature, None) or make()
        self._plans[signature] = plan
        if len(self._plans) > _MOST_PLANS:
            del self._plans[next(iter(self._plans))]
        return plan

    def _begin(self) -> float:
        """A sum begins; when that is, in seconds of time.perf_counter."""
        self._began = time.perf_counter()
        self._unnoted = 0
        return self._began

    def _arrived(self) -> None:
        """The others have come to this sum."""
        if self._began:
            self.waited += time.perf_counter() - self._began
            self._began = 0.0

    def _moved(self, sent: int, received: int = 0) -> None:
        """So many bytes have gone on."""
        if received:
            self._arrived()
        self._unnoted += sent + received
        if self._unnoted >= _NOTED:
            self._unnoted = 0
            activity.note()

    @abstractmethod
    def _sum(self, arrays: Sequence[Array]) -> list[Array]:
        """`sum`, of dtypes that are added as they are."""

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        return narrowed(self._as_they_are(widened(arrays)), arrays)

    def _as_they_are(self, arrays: Sequence[Array]) -> list[Array]:
        # What is infinite is noticed in the sums, by whoever knows what it means.
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
        """`sum` of arrays of which none has 16 bits; keeps its error."""
        try:
            return self._as_they_are(arrays)
        except BaseException as error:
            self._failure = error
            raise


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
