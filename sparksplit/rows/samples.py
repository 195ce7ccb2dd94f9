"""Rows to measure with: a sample of the training rows, or one repeated mini-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any, Protocol

import numpy as np

from sparksplit.base.memory import aligned
from sparksplit.dataset.prepared import Block
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.feed import AtHand, LanesOf, RowReader, RowSource, Stops, never

MOST_BYTES = 4 << 20
"""The most bytes of a repeated mini-batch's copies, as of a feed's chunk."""
_MOST_PARTS = 8


class Rows(Protocol):
    """The rows of a block: a feed, or one repeated mini-batch."""

    max_updates: int

    def epoch(self, epoch: int, first: int = 0, last: int | None = None, stops: Stops = never) -> Iterator[Chunk]:
        """Yield the chunks with the mini-batches from `first` on."""

    def rest(self) -> None:
        """Wait until nothing is read any more."""

    def close(self) -> None:
        """End reading."""


class Sample(LanesOf):
    """The first `blocks` blocks of the lanes `lanes` of a source, as if it had no other rows."""

    def __init__(self, source: RowSource, lanes: Sequence[int], blocks: int, at_hand: AtHand | None = None) -> None:
        super().__init__(source, lanes, at_hand)
        self.lane_rows = [min(rows, blocks * source.block_rows) for rows in self.lane_rows]
        self._source = source

    def held(self, at_hand: AtHand) -> Sample:
        """This sample, with its rows in memory. at_hand: where they are."""
        other = Sample(self._source, (), 0, at_hand)
        other.lane_rows = self.lane_rows
        return other


class Unread(Sample):
    """A sample whose blocks are replaced each time that they are read, by blocks of the lane that were not read before.

    So no page cache holds them. They come from the end of the lane. After its last block that was not read, a lane
    begins again.
    """

    def __init__(self, source: RowSource, lanes: Sequence[int], blocks: int) -> None:
        super().__init__(source, lanes, blocks)
        # Only blocks of the same size replace each other. A lane with a single, shorter block has no other.
        full = [rows // source.block_rows for rows in source.lane_rows]
        most = [count * source.block_rows or rows for count, rows in zip(full, source.lane_rows, strict=True)]
        self.lane_rows = [min(pair) for pair in zip(self.lane_rows, most, strict=True)]
        numbers = [cycle(range(max(1, count))[::-1]) for count in full]
        self.reader = lambda: _Replacing(source.reader(), numbers)


class _Replacing:
    """Reads the next of `numbers` instead of the block that is asked for. A RowReader."""

    def __init__(self, reader: RowReader, numbers: Sequence[Iterator[int]]) -> None:
        self._numbers, self._reader, self.close = numbers, reader, reader.close

    def read(self, lane: int, block: int) -> Block:
        """Return another block of `lane`."""
        return self._reader.read(lane, next(self._numbers[lane]))


class Again:
    """One mini-batch of `chunk`, repeated without end. A chunk has enough copies for a call into TensorFlow.

    placed: a function that is applied to each copy's tensors, such as putting them on a device.
    """

    def __init__(self, chunk: Chunk, placed: Callable[[Any], Any] = lambda tensor: tensor) -> None:
        one = part(chunk, 1)
        size = sum(tensor.nbytes for tensor in one.tensors) or 1
        self.max_updates = self._most = max(1, min(1024, MOST_BYTES // size))
        self._chunk, self._placed = one, placed
        self._parts: dict[int, Chunk] = {}

    def epoch(self, epoch: int, first: int = 0, last: int | None = None, stops: Stops = never) -> Iterator[Chunk]:
        """Yield chunks up to `last`; without end if `last` is None."""
        done = first
        while last is None or done < last:
            until = min(done + min(self.max_updates, self._most), stops(done))
            updates = (until if last is None else min(until, last)) - done
            yield replace(self._copies(updates), first=done)
            done += updates

    def rest(self) -> None:
        """Nothing is read."""

    def close(self) -> None:
        """Release the copies."""
        self._parts.clear()

    def _copies(self, updates: int) -> Chunk:
        if updates not in self._parts:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            chunk, rows = self._chunk, int(self._chunk.offsets[-1])
            columns = [*chunk.tensors, *([] if chunk.label is None else [chunk.label])]
            copied = [self._placed(_copies(column, updates)) for column in columns]
            tensors, label = copied[: len(chunk.tensors)], None if chunk.label is None else copied[-1]
            offsets = np.arange(updates + 1, dtype=np.int64) * rows
            self._parts[updates] = replace(
                chunk, tensors=tensors, label=label, offsets=offsets, rows=np.repeat(chunk.rows, updates)
            )
        return self._parts[updates]


def part(chunk: Chunk, updates: int) -> Chunk:
    """Return the first `updates` updates of `chunk`."""
    rows = int(chunk.offsets[updates])
    label = None if chunk.label is None else chunk.label[:rows]
    offsets = chunk.offsets[: updates + 1]
    return replace(
        chunk, tensors=[column[:rows] for column in chunk.tensors], label=label, offsets=offsets,
        rows=chunk.rows[:updates],
    )  # fmt: skip


def share_of(chunk: Chunk, begin: int, rows: int, total: int) -> Chunk:
    """Return a node's share of a mini-batch: `rows` rows of `chunk`. total: the rows of the mini-batch, over all
    nodes."""
    end = begin + rows
    label = None if chunk.label is None else chunk.label[begin:end]
    offsets, totals = np.array([0, rows], np.int64), np.array([total], np.int64)
    tensors = [tensor[begin:end] for tensor in chunk.tensors]
    return replace(chunk, tensors=tensors, label=label, offsets=offsets, rows=totals, share=None)


def _copies(column: np.ndarray, count: int) -> np.ndarray:
    target = aligned((len(column) * count, *column.shape[1:]), column.dtype)
    for number in range(count):
        target[number * len(column) : (number + 1) * len(column)] = column
    return target
