"""Virtual nodes: one process plays several nodes in turn, each from one exchange to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from sparksplit.base.errors import PeerLost
from sparksplit.collectives.base import Array, Collective
from sparksplit.collectives.layout import flats
from sparksplit.collectives.narrow import narrowed, widened

Result = TypeVar("Result")
Total = TypeVar("Total")


class Stage:
    """Where the nodes of one process take turns: rank 0 runs until it exchanges, then rank 1, and so on."""

    def __init__(self, size: int) -> None:
        self.size = size
        # One per node: waking all of them at each turn would cost more than a small model's step.
        self._turns = [threading.Semaphore(int(rank == 0)) for rank in range(size)]
        self._failure: BaseException | None = None
        self._total: Any = None
        self._result: Any = None

    def set(self, variables: Sequence[Any]) -> None:
        """Give each node its own copy of these variables: weights, the optimizer's state, everything that training
        changes.

        All begin with the current values, and each finds its own again whenever it is its turn.
        """
        import tensorflow as tf

        def swap(*entering: Any) -> list[Any]:
            leaving = [tf.identity(variable) for variable in variables]
            for variable, value in zip(variables, entering, strict=True):
                variable.assign(value)
            return leaving

        self._swap = tf.function(swap, autograph=False)
        beginning = [tf.identity(variable) for variable in variables]
        self._kept: list[list[Any]] = [beginning for _ in range(self.size)]

    def play(self, node: Callable[[int], Result]) -> list[Result]:
        """What `node(rank)` returns for every rank; raises what the first one to fail raised."""
        results: list[Any] = [None] * self.size

        def run(rank: int) -> None:
            try:
                self._await(rank)
                results[rank] = node(rank)
                self._pass_on(rank)
            except BaseException as error:
                self._failure = self._failure or error
                for turn in self._turns:
                    turn.release()

        threads = [threading.Thread(target=run, args=(rank,), name=f"virtual node {rank}") for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
        return results

    def exchange(self, rank: int, add: Callable[[Total | None], Total]) -> Total:
        """What all nodes' `add` calls make, in the order of ranks: each gets the previous result, the first None."""
        self._total = add(None if rank == 0 else self._total)
        if rank == self.size - 1:
            self._result, self._total = self._total, None
        self._pass_on(rank)
        self._await(rank)
        result: Total = self._result
        return result

    def _pass_on(self, rank: int) -> None:
        following = (rank + 1) % self.size
        if following != rank:
            self._kept[rank] = self._swap(*self._kept[following])
        self._turns[following].release()

    def _await(self, rank: int) -> None:
        self._turns[rank].acquire()
        if self._failure is not None:
            raise PeerLost("another virtual node failed")


class VirtualCollective(Collective):
    """Sums over the nodes of a stage. bytes_sent: what a ring of that many nodes would send; seconds stay 0."""

    in_graphs = False
    name = "virtual"

    def __init__(self, rank: int, stage: Stage) -> None:
        super().__init__(rank, stage.size)
        self._stage = stage

    def sum(self, arrays: Sequence[Array]) -> list[Array]:
        given = [np.asarray(array) for array in arrays]
        wide = widened(given)

        def add(running: _Running | None) -> _Running:
            running = running or _Running(wide, self.size)
            running.add(self.rank, [array.reshape(-1) for array in wide])
            return running

        self.bytes_sent += 2 * (self.size - 1) * sum(array.nbytes for array in wide) // self.size
        # As in the ring, what is infinite is noticed in the sums.
        with np.errstate(over="ignore", invalid="ignore"):
            running = self._stage.exchange(self.rank, add)
        return narrowed(running.sums, given)

    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        return [tf.constant(array) for array in self.sum([tensor.numpy() for tensor in tensors])]

    def close(self) -> None:
        return


class _Running:
    """Sums to which nodes add one after the other; each slice gets its terms in the order that a ring adds them in.

    sums: once all have added. Node j < i comes before slice i has begun: its part of that slice is kept until the end.
    """

    def __init__(self, arrays: Sequence[Array], size: int) -> None:
        self._flats = flats(arrays, size)
        self._size = size
        self._buffers = [np.zeros(flat.total, flat.dtype) for flat in self._flats]
        self._kept: list[list[Array]] = [[] for _ in self._flats]
        self.sums: list[Array] = list(arrays)
        for flat, buffer in zip(self._flats, self._buffers, strict=True):
            for number, view in flat.views(buffer):
                self.sums[number] = view

    def add(self, rank: int, given: Sequence[Array]) -> None:
        """Add the arrays of node `rank`, one-dimensional; the ranks' turns are in order."""
        for flat, total, kept in zip(self._flats, self._buffers, self._kept, strict=True):
            own = np.empty_like(total)
            if flat.total:
                flat.lay(flat.pieces(0, flat.total, gaps=True), given, own)
            begun, begins = rank * flat.share, (rank + 1) * flat.share
            total[:begun] += own[:begun]
            total[begun:begins] = own[begun:begins]
            kept.append(own[begins:].copy())
            if rank == self._size - 1:
                for node, late in enumerate(kept):
                    total[(node + 1) * flat.share :] += late
