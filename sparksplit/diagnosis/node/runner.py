"""Measure blocks on all nodes at the same time, from one barrier to the next."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hdfs_io import activity
from sparksplit.base.errors import Passing, RunError
from sparksplit.collectives import Collective
from sparksplit.diagnosis.messages import Effort
from sparksplit.diagnosis.node.blocks import (
    CALL_SECONDS,
    CALLS,
    Extent,
    extent_of,
    next_call,
    syncs,
    whole_calls,
)
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.samples import Rows

if TYPE_CHECKING:
    from sparksplit.cluster import Member

_FEW = 4
_TRIES = 12
"""More tries than it takes to find the updates per second."""


@dataclass
class Variant:
    """A variant to measure. train: is called with each chunk. begin: is called before a block.

    agree: makes the nodes agree, given the rows since the last sync; None if nothing happens between the steps.
    interval: steps between two syncs. steps: the steps of a round, on the node with the most. epoch: the epoch of a
    round, on this node. reads: whether rows are really read. Then a block is whole rounds, or `window` steps. readers:
    readers that take chunks ahead.

    transforms: whether the user's function is called for each chunk. A call may have its own cost, so chunks are then
    as long as in training. extent: the extent of a block. per_call: the updates of a call into TensorFlow.
    rows_of_step: the rows of a step over all nodes. These three are set once they are known.
    """

    rows: Rows
    train: Callable[[Chunk], Any]
    steps: int
    epoch: Callable[[int], int]
    begin: Callable[[], None] = lambda: None
    agree: Callable[[int], None] | None = None
    interval: int = 1
    reads: bool = False
    window: int | None = None
    readers: int = 0
    transforms: bool = False
    extent: Extent | None = None
    per_call: int = 1
    rows_of_step: float = 1.0

    @property
    def together(self) -> int:
        """The updates that readers have ready at about the same time."""
        return max(1, self.readers) * self.per_call

    @property
    def syncs(self) -> int:
        """The interval. Without syncs, a number that is never reached."""
        return self.interval if self.agree is not None else 1 << 62


@dataclass(frozen=True)
class Block:
    """A measured block. seconds: of the slowest node. rows: over all nodes. steps: of each node. longest: the updates
    of the longest chunk."""

    seconds: float
    rows: int
    steps: int
    longest: int

    @property
    def per_row(self) -> float:
        """Seconds per row."""
        return self.seconds / max(1, self.rows)


class Runner:
    """Measure variants on `member`, together with all other nodes. Every node must call each method alike."""

    def __init__(self, member: Member, collective: Collective, effort: Effort) -> None:
        self._member, self._collective, self.effort = member, collective, effort
        self._began = time.perf_counter()
        self._blocks = self._round = self._longest = 0

    def table(self, *values: float) -> np.ndarray:
        """Return these values of every node, [nodes, values]."""
        table = np.zeros((self._collective.size, len(values)))
        table[self._collective.rank] = values
        return np.array(self._collective.sum([table])[0])

    def most(self, value: float) -> float:
        """Return the largest of all nodes' values."""
        return float(self.table(value).max())

    def clock(self) -> float:
        """Return the seconds since the beginning, equal on all nodes."""
        return float(self.table(time.perf_counter() - self._began)[0, 0])

    def phase(self) -> AbstractContextManager[None]:
        """Return the phase of the measurements."""
        return self._member.phase("measuring")

    def calibrate(self, variant: Variant) -> Block:
        """Find the extent of a block of `variant`, and set it. Return the last block that was measured."""
        if variant.reads:
            return self._calibrate_reading(variant)
        block = self.effort.block
        call = CALL_SECONDS if variant.transforms else block / CALLS
        self._first(variant)
        for _ in range(_TRIES):
            last, before = self.measure(variant), variant.per_call
            pace = last.seconds / max(1, last.steps)
            variant.per_call = next_call(before, pace, call)
            if last.longest < before:  # chunks hold no more updates
                variant.per_call = min(variant.per_call, last.longest)
            grows = variant.per_call > before and before < variant.steps
            if not grows and (variant.extent != Extent(0, 1) or variant.per_call == 1):
                break
            variant.extent = whole_calls(variant.steps, variant.per_call, variant.together)
        variant.extent = extent_of(variant.steps, pace, max(block, CALLS * variant.per_call * pace), variant.together)
        return last

    def alike(self, variant: Variant, other: Variant) -> None:
        """Give `variant` blocks and calls with as many rows as the blocks and calls of `other`.

        With fewer readers, a block has fewer rows, but as many calls for each reader. The calls may take longer in
        proportion.
        """
        if variant.reads and (variant.window, variant.steps) == (other.window, other.steps):
            variant.extent, variant.per_call = other.extent, other.per_call
            return
        if variant.reads or other.reads:
            self.calibrate(variant)
            return
        self._first(variant)
        times = other.rows_of_step / variant.rows_of_step
        variant.per_call = max(1, round(other.per_call * times))
        extent = other.extent or Extent(1)
        fewer = min(1.0, max(1, variant.readers) / max(1, other.readers))
        updates = max(CALLS * variant.per_call, round(extent.updates * times * fewer))
        variant.extent = extent if extent.rounds else whole_calls(variant.steps, updates, variant.together)

    def _first(self, variant: Variant) -> None:
        """Make the graphs of `variant`, and count a step's rows."""
        variant.per_call, variant.extent = 1, Extent(0, 1) if variant.steps > 2 else Extent(1)
        self.measure(variant)

    def _calibrate_reading(self, variant: Variant) -> Block:
        variant.per_call = _FEW
        variant.extent = Extent(1) if variant.window is None else Extent(0, variant.window)
        for _ in range(2):
            block = self.measure(variant)
            pace = block.seconds / max(1, block.steps)
            variant.per_call = max(1, int(self.effort.block / CALLS / max(pace, 1e-9)))
        if variant.window is None:
            variant.extent = Extent(max(1, round(self.effort.reading / max(block.seconds, 1e-9))))
        return block

    def measure(self, variant: Variant) -> Block:
        """Measure one block of `variant`."""
        self.heed()
        variant.begin()
        variant.rows.max_updates = variant.per_call
        extent = variant.extent or Extent(1)
        self._longest = 0
        if extent.rounds:
            seconds, rows, since = self._rounds(variant, extent.rounds)
        else:
            seconds, rows, since = self._stretch(variant, extent.updates)
        steps = extent.steps(variant.steps)
        if variant.agree is not None and (left := steps % variant.interval):
            # The next sync is due after the block. Its share counts.
            self.table(0.0)
            began = time.perf_counter()
            variant.agree(since)
            seconds += left / variant.interval * (time.perf_counter() - began)
        self._blocks += 1
        self._round += max(1, extent.rounds)
        self._member.state(update=self._blocks)
        by_node = self.table(seconds, rows, self._longest)
        variant.rows_of_step = max(1.0, float(by_node[:, 1].sum()) / max(1, steps))
        return Block(float(by_node[:, 0].max()), int(by_node[:, 1].sum()), steps, int(by_node[:, 2].max()))

    def _rounds(self, variant: Variant, rounds: int) -> tuple[float, int, int]:
        """Measure whole rounds. Return (seconds, rows, rows since the last sync)."""
        every, rows, since = variant.syncs, 0, 0
        self.table(0.0)
        began = time.perf_counter()
        for number in range(rounds):
            base, done = number * variant.steps, 0
            stops = _stops(every, base)
            for chunk in variant.rows.epoch(variant.epoch(self._round + number), stops=stops):
                rows, since = self._train(variant, chunk, rows, since)
                done += chunk.updates
                since = _agree(variant, syncs(base + done - chunk.updates, base + done, every), since)
            # Nodes without further rows have no weight, but still take part.
            since = _agree(variant, syncs(base + done, base + variant.steps, every), since)
        return time.perf_counter() - began, rows, since

    def _stretch(self, variant: Variant, count: int) -> tuple[float, int, int]:
        """Measure the first `count` mini-batches of a round. Return (seconds, rows, rows since the last sync)."""
        every, rows, since, done = variant.syncs, 0, 0, 0
        stop = _stops(every)
        stops = lambda step: min(stop(step), count) if step < count else stop(step)  # noqa: E731
        chunks = variant.rows.epoch(variant.epoch(self._round), stops=stops)
        chunk = next(chunks, None)
        self.table(0.0)
        began = time.perf_counter()
        while chunk is not None and done < count:
            rows, since = self._train(variant, chunk, rows, since)
            done += chunk.updates
            since = _agree(variant, syncs(done - chunk.updates, done, every), since)
            chunk = next(chunks, None)
        since = _agree(variant, syncs(done, count, every), since)
        seconds = time.perf_counter() - began
        chunks.close()  # type: ignore[attr-defined]  # a generator
        variant.rows.rest()
        return seconds, rows, since

    def _train(self, variant: Variant, chunk: Chunk, rows: int, since: int) -> tuple[int, int]:
        variant.train(chunk)
        self._longest = max(self._longest, chunk.updates)
        activity.note()
        count = int(chunk.offsets[-1])
        return rows + count, since + count

    def heed(self) -> None:
        """Raise RunError if the driver stops this node, and Passing if the node is leaving."""
        if self._member.stopping.is_set():
            raise RunError("stopped by the driver")
        if self._member.leaving.is_set():
            raise Passing(self._member.leaving.reason)


def _agree(variant: Variant, times: int, rows: int) -> int:
    """Make the nodes agree `times` times. Return the rows since the last sync."""
    for _ in range(times):
        assert variant.agree is not None
        variant.agree(rows)
        rows = 0
    return rows


def _stops(every: int, base: int = 0) -> Callable[[int], int]:
    """Return a function from a step to the next step after which the nodes agree. base: the steps before this round."""
    return lambda step: step + every - (base + step) % every
