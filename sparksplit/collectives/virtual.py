"""Virtual nodes: one process plays several nodes in turn. Each node runs from one exchange to the next."""

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
    """Gives turns to the nodes of one process: rank 0 runs until it exchanges, then rank 1, and so on."""

    def __init__(self, size: int) -> None:
        self.size = size
        # One semaphore per node: waking all nodes at each turn would cost more than a small model's step.
        self._turns = [threading.Semaphore(int(rank == 0)) for rank in range(size)]
        self._failure: BaseException | None = None
        self._total: Any = None
        self._result: Any = None

    def set(self, variables: Sequence[Any]) -> None:
        """Give each node its own copy of these variables: weights, optimizer state, everything that training changes.

        All copies begin with the current values. Each node finds its own values again at its turn.
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
        """Run `node(rank)` for every rank and return the results. Raise the error of the first node that fails."""
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
        """Return the combined result of all nodes' `add` calls, in rank order. Each call gets the previous result, the
        first gets None.
        """
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
    """Sums over the nodes of a stage. bytes_sent: about what a ring of as many nodes would send. `seconds` stays 0."""

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
        # As in the ring, the callers check the sums for infinite values.
        with np.errstate(over="ignore", invalid="ignore"):
            running = self._stage.exchange(self.rank, add)
        return narrowed(running.sums, given)

    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        return [tf.constant(array) for array in self.sum([tensor.numpy() for tensor in tensors])]

    def close(self) -> None:
        return


class _Running:
    """Sums to which the nodes add in turn. Each slice adds the ranks in the order of a ring.

    sums: valid after all nodes have added. Node j < i adds before slice i has begun, so its part of that slice is kept
    until the end.
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
        """Add the one-dimensional arrays of node `rank`. Ranks must be added in order."""
        for flat, total, kept in zip(self._flats, self._buffers, self._kept, strict=True):
            laid = np.empty_like(total)
            if flat.total:
                flat.lay(flat.pieces(0, flat.total, gaps=True), given, laid)
            begun, begins = rank * flat.share, (rank + 1) * flat.share
            total[:begun] += laid[:begun]
            total[begun:begins] = laid[begun:begins]
            kept.append(laid[begins:].copy())
            if rank == self._size - 1:
                for node, late in enumerate(kept):
                    total[(node + 1) * flat.share :] += late
