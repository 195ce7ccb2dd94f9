"""Sums in memory that the nodes of one host share, in NumPy, in the ring's order.

Each node copies into its slots what the others sum of its arrays, sums its own part of everybody's into memory that all
read the results from, and waits until the others have. That is done chunk by chunk: what passes between two nodes stays
in their caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparksplit.base import activity
from sparksplit.base.memory import ALIGNMENT
from sparksplit.collectives.base import Array, NumPyCollective
from sparksplit.collectives.layout import Flat, Piece, flats, sent
from sparksplit.collectives.segment import DONE, PUT, SLOT_BYTES, SLOTS, Segment
from sparksplit.collectives.together import together

if TYPE_CHECKING:
    from sparksplit.cluster import Member

_NOTED = 1 << 20  # bytes of one sum that count as progress; never what nodes tell one another again and again


def join(member: Member) -> Shared:
    """Shared memory between the nodes of `member`'s cluster; tells the driver when a peer keeps this node waiting.

    Raises Apart where they are not all on one host, or something there is in the way.
    """

    def waiting(is_waiting: bool) -> None:
        member.state(waiting=is_waiting)

    return Shared.connect(member.rank, member.size, member.secret, member.gather, waiting)


class Shared(NumPyCollective["_Plan"]):
    """Sums through a segment.

    bytes_sent: what a ring of that many nodes would send, so that it does not depend on where nodes run. Results cannot
    be written to: they are the other nodes' too.
    """

    def __init__(self, segment: Segment) -> None:
        super().__init__(segment.rank, segment.size)
        self._segment = segment
        self._chunks = 0
        self._turn = 0
        self._began = 0.0
        self._moved = 0

    @classmethod
    def connect(
        cls,
        rank: int,
        size: int,
        secret: bytes,
        gather: Callable[[str, Any], list[Any]],
        waiting: Callable[[bool], None] = lambda _: None,
    ) -> Shared:
        """Come together with the other nodes.

        gather(name, value): returns every rank's value, by rank. waiting: called with True when a peer keeps this node
        waiting, with False when it goes on. Raises Apart, on every node or on none.
        """
        return cls(together(rank, size, secret, gather, waiting))

    def _sum(self, arrays: Sequence[Array]) -> list[Array]:
        began = self._began = time.perf_counter()
        self._moved = 0
        plan = self._planned(arrays, lambda: self._plan(arrays))
        flat = [array.reshape(-1) for array in arrays]
        self._turn = 1 - self._turn
        for group in plan.groups:
            self._sum_group(group, flat)
        self.bytes_sent += plan.sent
        self.seconds += time.perf_counter() - began
        return list(plan.results[self._turn])

    def close(self) -> None:
        self._plans.clear()
        self._segment.close()

    def _plan(self, arrays: Sequence[Array]) -> _Plan:
        layouts = flats(arrays, self.size)
        needed = 2 * sum(_padded(flat) for flat in layouts)
        if needed > self._segment.results.size:
            self._plans.clear()  # they refer to the memory before
            self._segment.renew(needed)
        return _Plan(arrays, layouts, self._segment)

    def _sum_group(self, group: _Group, flat: Sequence[Array]) -> None:
        """Sum a group's arrays.

        A slot is used again once all have summed the chunk that lay there. Sums may be written to as soon as all have
        put the first chunk: by then nobody reads the sums that lay there before.
        """
        segment, chunks, first = self._segment, group.chunks, self._chunks
        for place in range(-1, len(chunks)):
            ahead = place + 1
            if ahead < len(chunks):
                if ahead >= SLOTS:
                    segment.wait(DONE, first + ahead - SLOTS + 1)
                chunks[ahead].put(flat, group.slots[(first + ahead) % SLOTS][self.rank])
                segment.tell(PUT, first + ahead + 1)
            if place < 0:
                continue
            chunk = chunks[place]
            if chunk.terms:
                segment.wait(PUT, first + place + 1)
                self._arrived()
                chunk.add(flat, group.slots[(first + place) % SLOTS], group.sums[self._turn], self.rank)
            segment.tell(DONE, first + place + 1)
            self._note(chunk.bytes)
        self._chunks += len(chunks)
        segment.wait(DONE, self._chunks)
        self._arrived()

    def _arrived(self) -> None:
        """The others have come to this sum."""
        if self._began:
            self.waited += time.perf_counter() - self._began
            self._began = 0.0

    def _note(self, count: int) -> None:
        self._moved += count
        if self._moved >= _NOTED:
            self._moved = 0
            activity.note()


class _Plan:
    """What a sum of one signature of arrays needs. groups: one for each dtype. results: two sets of the arrays in which
    sums appear, in turn. sent: bytes."""

    def __init__(self, arrays: Sequence[Array], layouts: Sequence[Flat], segment: Segment) -> None:
        self.sent = sent(layouts, segment.rank)
        self.results = [list(arrays) for _ in range(2)]
        self.groups = []
        room, begin = segment.results.size // 2, 0
        for flat in layouts:
            sums = []
            for turn, results in enumerate(self.results):
                at = turn * room + begin
                buffer = segment.results[at : at + flat.total * flat.dtype.itemsize].view(flat.dtype)
                sums.append(buffer)
                for number, view in flat.views(buffer):
                    view.flags.writeable = False
                    results[number] = view
            begin += _padded(flat)
            self.groups.append(_Group(flat, sums, segment))


class _Group:
    """The arrays of one dtype. sums: the two sets, flat. slots: by chunk in turn and by rank."""

    def __init__(self, flat: Flat, sums: list[Array], segment: Segment) -> None:
        self.sums, self.slots = sums, segment.slots(flat.dtype)
        length = SLOT_BYTES // flat.dtype.itemsize
        self.chunks = [
            _Chunk(flat, low, min(low + length, flat.total), segment.rank) for low in range(0, flat.total, length)
        ]


class _Term(NamedTuple):
    """A piece of what a node sums: at `low` to `high` of the chunk, in the order of ranks `order`."""

    order: Sequence[int]
    low: int
    high: int
    piece: Piece


class _Chunk:
    """Elements `low` to `high` of a group, of which each node sums one part. terms: the pieces of node `rank`'s."""

    def __init__(self, flat: Flat, low: int, high: int, rank: int) -> None:
        self._flat, self._low = flat, low
        self.bytes = (high - low) * flat.dtype.itemsize
        steps = -(-(high - low) // flat.step)
        part = -(-steps // flat.size) * flat.step
        begin, end = min(low + rank * part, high), min(low + (rank + 1) * part, high)
        self._others = [
            (first, last, flat.pieces(first, last, gaps=True))
            for first, last in ((low, begin), (end, high))
            if first < last
        ]
        self.terms: list[_Term] = []
        while begin < end:
            place = begin // flat.share
            last = min(end, (place + 1) * flat.share)
            order = [(place + step) % flat.size for step in range(flat.size)]
            for piece in flat.pieces(begin, last):
                self.terms.append(_Term(order, piece.at - low, piece.at - low + piece.end - piece.begin, piece))
            begin = last

    def put(self, flat: Sequence[Array], slot: Array) -> None:
        """Copy what others sum into this node's slot."""
        for first, last, pieces in self._others:
            self._flat.lay(pieces, flat, slot[first - self._low : last - self._low])

    def add(self, flat: Sequence[Array], slots: Sequence[Array], sums: Array, rank: int) -> None:
        """Sum this node's part."""
        for order, low, high, (number, begin, end, at) in self.terms:
            own, out = flat[number][begin:end], sums[at : at + end - begin]
            first, *others = (own if other == rank else slots[other][low:high] for other in order)
            total = first
            for other in others:
                total = np.add(total, other, out=out)


def _padded(flat: Flat) -> int:
    """Bytes; the next layout begins after them."""
    return -(-flat.total * flat.dtype.itemsize // ALIGNMENT) * ALIGNMENT
