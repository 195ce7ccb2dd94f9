"""Sums through shared memory between nodes of one host, and over TCP between hosts, in the ring's order.

A run is a group of consecutive ranks on one host; the runs form a ring. Slices of the sums go round the ring. Each run
adds the arrays of all its nodes, in rank order, before it passes a slice on. When a slice is back at its first run, the
run adds the arrays of its ranks before the slice's own rank. Then the sums go round.

So every slice is summed in the order of a ring of all nodes, whatever their hosts. K runs of N nodes exchange 2 K - 1
times instead of 2 N - 2.

Within a run, the columns of all slices are divided among its nodes. Each node sums its own columns and has its own
connections. So there are as many parallel rings between the hosts as the shortest run has nodes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparksplit.collectives.base import Array
from sparksplit.collectives.layout import Flat
from sparksplit.collectives.links import CONNECT_SECONDS, Links, bytes_of, linked
from sparksplit.collectives.segment import SLOT_BYTES, Segment
from sparksplit.collectives.shared import Part, Shared
from sparksplit.collectives.together import Meeting, meeting, runs_of, spread
from sparksplit.network.keys import derived
from sparksplit.network.listening import ANY, Network

if TYPE_CHECKING:
    from sparksplit.cluster import Member

log = logging.getLogger(__name__)

Exchange = Callable[[list[memoryview], list[memoryview]], None]
"""Sends the first argument to the next run while receiving the second from the previous run."""


def join(member: Member) -> Mixed:
    """Join the nodes of `member`'s cluster by shared memory and TCP. Tell the driver when a peer makes this node wait.

    Raise Apart if nodes of one host cannot share memory.
    """
    with meeting(member.gather) as met:
        made = joined(member, met)
    if member.rank == 0:
        log.info("collective: mixed: %s", spread(met.places))
    return made


def joined(member: Member, met: Meeting) -> Mixed:
    """Like `join`, for nodes that have met."""

    def waiting(is_waiting: bool) -> None:
        member.state(waiting=is_waiting)

    return Mixed.across(met, member.rank, member.host, member.secret, member.gather, waiting, member.network)


class Mixed(Shared):
    """Sums through one memory segment per run, and through links between runs. A run is consecutive ranks of one host.

    runs: the ranks of each run. links: connections to this node's counterparts in the next and the previous run. None:
    this node has no counterparts.
    """

    def __init__(self, rank: int, runs: Sequence[range], segment: Segment, links: Links | None) -> None:
        super().__init__(rank, runs[-1].stop, segment)
        self._runs, self._links = runs, links

    @classmethod
    def across(
        cls,
        met: Meeting,
        rank: int,
        host: str,
        secret: bytes,
        gather: Callable[[str, Any], list[Any]],
        waiting: Callable[[bool], None] = lambda _: None,
        network: Network = ANY,
        timeout: float = CONNECT_SECONDS,
    ) -> Mixed:
        """Connect the nodes that have met. The other arguments are those of `links.linked`.

        Raise Apart, on every node or on none. Raise PeerLost if a neighbour cannot be reached.
        """
        runs = runs_of(met.places)
        segment = met.segment(rank, runs, secret, gather, waiting)
        try:
            key = derived(secret, "ring")
            links = linked(rank, counterparts(runs, rank), host, key, gather, timeout, waiting, network)
        except BaseException:
            segment.close()
            raise
        return cls(rank, runs, segment, links)

    def of_fewer(self, nodes: int) -> tuple[float, float]:
        runs, left = len(self._runs), sum(run.start < nodes for run in self._runs)
        if left == 1:  # no host is left to exchange with, so the shares of a ring of nodes are more than enough
            return super().of_fewer(nodes)
        return (2 * left - 1) / (2 * runs - 1), (left - 1) / left / ((runs - 1) / runs)

    def close(self) -> None:
        super().close()
        if self._links is not None:
            self._links.close()

    def _parts(self, flat: Flat, sums: Sequence[Array]) -> Sequence[Part]:
        # A chunk has as many columns of all slices as fit into a slot.
        columns = max(1, SLOT_BYTES // flat.dtype.itemsize // self.size)
        room = max(map(len, self._runs)) * min(columns, flat.share)
        spare = np.zeros(room, flat.dtype), np.zeros(room, flat.dtype)
        return [
            _Chunk(flat, low, min(low + columns, flat.share), self._runs, self.rank, sums, spare, self._exchange)
            for low in range(0, flat.share, columns)
        ]

    def _exchange(self, outgoing: list[memoryview], incoming: list[memoryview]) -> None:
        assert self._links is not None
        self._links.exchange(outgoing, incoming, self._moved)


def counterparts(runs: Sequence[range], rank: int) -> tuple[int, int] | None:
    """Return the ranks with which node `rank` exchanges, in the next and the previous run. None if it has none."""
    number = next(number for number, run in enumerate(runs) if rank in run)
    place = rank - runs[number].start
    if len(runs) == 1 or place >= min(map(len, runs)):
        return None
    return runs[(number + 1) % len(runs)][place], runs[number - 1][place]


class _Chunk:
    """Columns `low` to `high` of all slices. Row i of a slot has the columns of slice i. Each node with counterparts
    sums a part of the columns.

    sums: two sets, flat. spare: two buffers for partial sums. exchange: exchanges with the counterparts.
    """

    def __init__(
        self,
        flat: Flat,
        low: int,
        high: int,
        runs: Sequence[range],
        rank: int,
        sums: Sequence[Array],
        spare: tuple[Array, Array],
        exchange: Exchange,
    ) -> None:
        self._flat, self._runs, self._exchange = flat, runs, exchange
        self._width = width = high - low
        self._own = next(number for number, run in enumerate(runs) if rank in run)
        self.bytes = flat.size * width * flat.dtype.itemsize
        whole = width == flat.share  # then the slices lie end to end, as in the sums
        begins = [0] if whole else [place * flat.share + low for place in range(flat.size)]
        length = flat.share * flat.size if whole else width
        self._laid = [
            (place * length, place * length + max(0, end - begin), (place + 1) * length, flat.pieces(begin, end, True))
            for place, begin in enumerate(begins)
            for end in (min(begin + length, flat.total),)
        ]
        parts, place = min(map(len, runs)), rank - runs[self._own].start
        begin, end = (width * min(number, parts) // parts for number in (place, place + 1))
        self.summing = begin < end
        self._columns = slice(begin, end)
        if not self.summing:
            return
        room = max(map(len, runs)) * (end - begin)
        self._partial = [each[:room].reshape(-1, end - begin) for each in spare]
        self._sums = [each.reshape(flat.size, flat.share)[:, low + begin : low + end] for each in sums]
        # By set and run.
        self._bytes = [[[bytes_of(row) for row in each[run.start : run.stop]] for run in runs] for each in self._sums]

    def put(self, flat: Sequence[Array], slot: Array) -> None:
        for begin, end, until, pieces in self._laid:
            if begin < end:
                self._flat.lay(pieces, flat, slot[begin:end])
            slot[end:until] = 0  # pad shorter slices

    def add(self, flat: Sequence[Array], slots: Sequence[Array], turn: int) -> None:
        runs, own_run = self._runs, self._own
        given = [
            slot[: self._flat.size * self._width].reshape(self._flat.size, self._width)[:, self._columns]
            for slot in slots
        ]
        # The runs whose slices pass this node, its own run first.
        rows = [runs[(own_run - step) % len(runs)] for step in range(len(runs))]
        partial, spare = self._partial
        _begin(partial, [each[rows[0].start : rows[0].stop] for each in given])
        for sent, received in zip(rows, rows[1:] + rows[:1], strict=True):
            if len(runs) > 1:
                self._exchange([bytes_of(partial[: len(sent)])], [bytes_of(spare[: len(received)])])
                partial, spare = spare, partial
            if received != rows[0]:
                for each in given:
                    np.add(partial[: len(received)], each[received.start : received.stop], out=partial[: len(received)])
        _end(partial, [each[rows[0].start : rows[0].stop] for each in given])
        self._sums[turn][rows[0].start : rows[0].stop] = partial[: len(rows[0])]
        views = self._bytes[turn]
        for step in range(len(runs) - 1):
            self._exchange(views[(own_run - step) % len(runs)], views[(own_run - step - 1) % len(runs)])


def _begin(partial: Array, given: Sequence[Array]) -> None:
    """Make row i of `partial` the sum of the rows i of given[i], given[i + 1], ..., in that order.

    given: for each node of a run, [row, column] of the slices of the run's nodes.
    """
    for place, rows in enumerate(given):
        np.add(partial[:place], rows[:place], out=partial[:place])
        partial[place] = rows[place]


def _end(partial: Array, given: Sequence[Array]) -> None:
    """Add to row i of `partial` the rows i of given[0], ..., given[i - 1]."""
    for place, rows in enumerate(given):
        np.add(partial[place + 1 : len(given)], rows[place + 1 :], out=partial[place + 1 : len(given)])
