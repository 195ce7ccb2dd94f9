"""Sums through memory that the nodes of one host share, in NumPy, in the ring's order.

Each node copies into its slots the parts of its arrays that other nodes sum. It sums its own part of all arrays into
the shared results, and waits for the other nodes. This happens chunk by chunk, so that data between two nodes stays in
their caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from sparksplit.base.memory import ALIGNMENT
from sparksplit.collectives.base import Array, NumPyCollective
from sparksplit.collectives.layout import Flat, Piece, flats, sent
from sparksplit.collectives.segment import DONE, PUT, SLOT_BYTES, SLOTS, Segment
from sparksplit.collectives.together import Apart, Meeting, meeting

if TYPE_CHECKING:
    from sparksplit.cluster import Member

_CHUNK_BYTES = SLOT_BYTES // 4
"""Bytes that a node puts at once, while the others read. Whole slots were up to three times as slow for sums of 400 KB
and 1.7 MB with their data in the caches, without a pattern. An eighth of a slot was slower too.
"""


class Part(Protocol):
    """A node's work for one chunk of a sum. bytes: size of the chunk. summing: whether this node sums a part of the
    chunk.
    """

    bytes: int
    summing: bool

    def put(self, flat: Sequence[Array], slot: Array) -> None:
        """Copy the parts of the one-dimensional arrays `flat` that other nodes need into this node's slot."""

    def add(self, flat: Sequence[Array], slots: Sequence[Array], turn: int) -> None:
        """Compute this node's part of the sums, in the set `turn`. slots: of the nodes that share memory, by rank."""


@dataclass(frozen=True)
class Plan:
    """Everything that a sum of arrays with certain shapes and dtypes needs.

    sent: bytes.
    results: two sets of result arrays, used in turn.
    groups: for each dtype, its chunks and their slots, by chunk in turn and by rank.
    """

    sent: int
    results: Sequence[Sequence[Array]]
    groups: Sequence[tuple[Sequence[Part], Sequence[Sequence[Array]]]]


def join(member: Member) -> Shared:
    """Join the nodes of `member`'s cluster by shared memory. Tell the driver when a peer makes this node wait.

    Raise Apart if the nodes are not all on one host, or if the host does not allow sharing memory.
    """
    with meeting(member.gather) as met:
        return joined(member, met)


def joined(member: Member, met: Meeting) -> Shared:
    """Like `join`, for nodes that have met."""

    def waiting(is_waiting: bool) -> None:
        member.state(waiting=is_waiting)

    return Shared.of(met, member.rank, member.secret, member.gather, waiting)


class Shared(NumPyCollective[Plan]):
    """Sums through a memory segment.

    bytes_sent: the bytes that a ring of as many nodes would send, so that the count does not depend on the nodes'
    hosts. Results are read-only, because the nodes share them.
    """

    def __init__(self, rank: int, size: int, segment: Segment) -> None:
        super().__init__(rank, size)
        self._segment = segment
        self._chunks = 0
        self._turn = 0

    @classmethod
    def connect(
        cls,
        rank: int,
        size: int,
        secret: bytes,
        gather: Callable[[str, Any], list[Any]],
        waiting: Callable[[bool], None] = lambda _: None,
    ) -> Shared:
        """Connect with the other nodes.

        gather(name, value): returns every rank's value, by rank. waiting: called with True when a peer makes this node
        wait, and with False when the work goes on. Raise Apart, on every node or on none.
        """
        with meeting(gather) as met:
            assert size == len(met.places)
            return cls.of(met, rank, secret, gather, waiting)

    @classmethod
    def of(
        cls,
        met: Meeting,
        rank: int,
        secret: bytes,
        gather: Callable[[str, Any], list[Any]],
        waiting: Callable[[bool], None] = lambda _: None,
    ) -> Shared:
        """`connect` for nodes that have met."""
        if problem := met.problem or met.apart:
            raise Apart(problem)
        size = len(met.places)
        return cls(rank, size, met.segment(rank, [range(size)], secret, gather, waiting))

    def _sum(self, arrays: Sequence[Array]) -> list[Array]:
        began = self._begin()
        plan = self._planned(arrays, lambda: self._plan(arrays))
        flat = [array.reshape(-1) for array in arrays]
        self._turn = 1 - self._turn
        for chunks, slots in plan.groups:
            self._sum_chunks(chunks, slots, flat)
        self.bytes_sent += plan.sent
        self.seconds += time.perf_counter() - began
        return list(plan.results[self._turn])

    def close(self) -> None:
        self._plans.clear()
        self._segment.close()

    def _plan(self, arrays: Sequence[Array]) -> Plan:
        layouts = flats(arrays, self.size)
        places, room = [], 0
        for flat in layouts:
            places.append(room)
            room += _padded(flat.share * flat.size * flat.dtype.itemsize)
        if 2 * room > self._segment.results.size:
            self._plans.clear()  # they refer to the old memory
            self._segment.renew(2 * room)
        results, groups = [list(arrays) for _ in range(2)], []
        for flat, place in zip(layouts, places, strict=True):
            sums = []
            for turn in range(2):
                begin = turn * (self._segment.results.size // 2) + place
                bytes_ = self._segment.results[begin : begin + flat.share * flat.size * flat.dtype.itemsize]
                sums.append(bytes_.view(flat.dtype))
                for number, view in flat.views(sums[turn]):
                    view.flags.writeable = False
                    results[turn][number] = view
            groups.append((self._parts(flat, sums), self._segment.slots(flat.dtype)))
        return Plan(sent(layouts, self.rank), results, groups)

    def _parts(self, flat: Flat, sums: Sequence[Array]) -> Sequence[Part]:
        """Return this node's work for each chunk of the arrays of one dtype. sums: two sets, of `share * size`
        elements.
        """
        length = _CHUNK_BYTES // flat.dtype.itemsize
        return [
            _Chunk(flat, low, min(low + length, flat.total), self.rank, sums) for low in range(0, flat.total, length)
        ]

    def _sum_chunks(self, chunks: Sequence[Part], slots: Sequence[Sequence[Array]], flat: Sequence[Array]) -> None:
        """Sum the arrays of one dtype.

        A slot is used again after all nodes have summed its chunk. Sums may be written after all nodes have put the
        first chunk: nobody then reads the sums that lay there before.
        """
        segment, first = self._segment, self._chunks
        for place in range(-1, len(chunks)):
            ahead = place + 1
            if ahead < len(chunks):
                if ahead >= SLOTS:
                    segment.wait(DONE, first + ahead - SLOTS + 1)
                chunks[ahead].put(flat, slots[(first + ahead) % SLOTS][segment.rank])
                segment.tell(PUT, first + ahead + 1)
            if place < 0:
                continue
            chunk = chunks[place]
            if chunk.summing:
                segment.wait(PUT, first + place + 1)
                if segment.size == self.size:  # otherwise some nodes are on other hosts
                    self._arrived()
                chunk.add(flat, slots[(first + place) % SLOTS], self._turn)
            segment.tell(DONE, first + place + 1)
            if place == 0 and not chunk.summing:
                segment.wait(DONE, first + 1)
                self._arrived()
            self._moved(chunk.bytes)
        self._chunks += len(chunks)
        segment.wait(DONE, self._chunks)
        self._arrived()


class _Term(NamedTuple):
    """A part of a node's work: elements `low` to `high` of the chunk, summed in the rank order `order`."""

    order: Sequence[int]
    low: int
    high: int
    piece: Piece


class _Chunk:
    """Elements `low` to `high` of a group. Each node sums one part of them. terms: the pieces that node `rank` sums."""

    def __init__(self, flat: Flat, low: int, high: int, rank: int, sums: Sequence[Array]) -> None:
        self._flat, self._low, self._rank, self._sums = flat, low, rank, sums
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
        self.summing = bool(self.terms)

    def put(self, flat: Sequence[Array], slot: Array) -> None:
        for first, last, pieces in self._others:
            self._flat.lay(pieces, flat, slot[first - self._low : last - self._low])

    def add(self, flat: Sequence[Array], slots: Sequence[Array], turn: int) -> None:
        sums, rank = self._sums[turn], self._rank
        for order, low, high, (number, begin, end, at) in self.terms:
            own_part, out = flat[number][begin:end], sums[at : at + end - begin]
            first, *others = (own_part if other == rank else slots[other][low:high] for other in order)
            total = first
            for other in others:
                total = np.add(total, other, out=out)


def _padded(count: int) -> int:
    """Round `count` bytes up to the alignment, where the next data begins."""
    return -(-count // ALIGNMENT) * ALIGNMENT
