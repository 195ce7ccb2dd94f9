"""The cost model: what the seconds of a run's training are made of, and what they would be elsewhere.

A node's computing is linear in its rows, its steps and the exchanges for which it leaves and enters its graph. Nodes
that share a host slow each other down (contention), which is no cost of an exchange. Where they have more threads than
the host has cores, they take turns, and those that are done wait for the last. How many turns that is follows from what
is known before a run: three nodes of one thread on two cores take two rounds, as four do, for what is shorter than a
core's time slice, and one and a half for more, of which the scheduler gives each its share.

An exchange takes 2 (N - 1) messages and 2 (N - 1) / N times its bytes, as a ring does (Patarasuk and Yuan 2009; the
alpha-beta model of Hockney 1994), and the wait until all nodes have come to it. Spark's hand-off is no part of
training. `calibration` finds the numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from sparksplit.comparison.machine import cores_of
from sparksplit.comparison.record import ComparedRun, HandOff

ETHERNET_LATENCY = 50e-6
"""Seconds of one message between two hosts over Ethernet, assumed: two to three times half a switched round trip."""
TIME_SLICE = 4e-3
"""Seconds for which a core keeps one of several busy processes, assumed: a tick of Linux at 250 Hz."""


@dataclass(frozen=True)
class Crowd:
    """How crowded a host is. nodes: those on it. at_once: how many of them its cores let compute at the same moment."""

    nodes: int = 1
    at_once: float = 1.0

    @property
    def rounds(self) -> int:
        """How many it takes until each node has had its cores, if each keeps them until it is done."""
        return math.ceil(self.nodes / math.floor(self.at_once))

    def turns(self, seconds: float) -> float:
        """How many times as long it takes until all nodes have computed what takes one of them so many seconds on cores
        of its own: as many as there are rounds if that is shorter than a time slice. For more the cores are shared
        evenly, up to the last slice."""
        even = self.nodes / self.at_once
        return even + (self.rounds - even) * TIME_SLICE / max(seconds, TIME_SLICE)


ALONE = Crowd()
"""One node on a host."""


@dataclass(frozen=True)
class Work:
    """What one node of a run does: rows that it trains on, steps, and exchanges of two kinds: `inside` its graph, at
    each step, and `between` the calls of it, where an outer optimiser counts even if the node is alone. sent: bytes."""

    nodes: int
    rows: float
    steps: int
    inside: int
    between: int
    sent: float
    crowd: Crowd

    @property
    def syncs(self) -> int:
        """Exchanges with other nodes."""
        return self.inside + self.between if self.nodes > 1 else 0


@dataclass(frozen=True)
class Compute:
    """Seconds per row, per step (a node's own mini-batch, or its part of a shared one), and per exchange of each kind.

    contention: the share by which each other node that computes on the host makes one slower.
    """

    per_row: float
    per_step: float
    per_inside: float = 0.0
    per_between: float = 0.0
    contention: float = 0.0

    def seconds(self, work: Work) -> float:
        """Of a node that does this work, until all of its host have done theirs."""
        alone = work.rows * self.per_row + work.steps * self.per_step
        alone += work.inside * self.per_inside + work.between * self.per_between
        alone *= self.slower(work.crowd)
        return alone * work.crowd.turns(alone / max(1, work.syncs))

    def slower(self, crowd: Crowd) -> float:
        """How many times as long a node takes beside those that compute at the same moment as on a host of its own."""
        return 1 + self.contention * (crowd.at_once - 1)


@dataclass(frozen=True)
class Network:
    """latency: seconds per message. per_byte: seconds per byte, which the nodes of a host send one after the other."""

    latency: float
    per_byte: float

    def seconds(self, nodes: int, syncs: int, sent: float, crowd: Crowd = ALONE) -> float:
        """The seconds of `syncs` sums over `nodes` nodes, in which each node sends `sent` bytes in all."""
        if nodes < 2:
            return 0.0
        messages = 2 * (nodes - 1) * syncs
        return crowd.rounds * (messages * self.latency + sent * crowd.nodes * self.per_byte)


@dataclass(frozen=True)
class Meeting:
    """What an exchange within training costs beyond the sum itself. per_sync: seconds; uneven: the share of its
    computing for which a node waits for slower ones."""

    per_sync: float = 0.0
    uneven: float = 0.0

    def seconds(self, work: Work, computing: float) -> float:
        """computing: what `Compute` says."""
        if work.nodes < 2:
            return 0.0
        return work.crowd.rounds * work.syncs * self.per_sync + computing * self.uneven


@dataclass(frozen=True)
class Reading:
    """Seconds for which a node waits for rows: as it begins, and per row."""

    begin: float = 0.0
    per_row: float = 0.0

    def seconds(self, work: Work) -> float:
        return work.crowd.rounds * (self.begin + work.rows * self.per_row)


@dataclass(frozen=True)
class HandingOver:
    """Seconds until Spark has handed over the rows: as it begins, in which it also reads them, and per row that it
    sends to a node. Its executors beyond the nodes' send all rows of all nodes. begin_first: as the first one of an
    application begins, for which executors must load what it takes; begin: as later ones do. None where runs do not
    tell it: each kind tells only of itself, and begin and per row can be told apart only by different numbers of rows.
    """

    begin: float | None
    per_row: float | None
    begin_first: float | None = None

    def seconds(self, handoff: HandOff) -> float | None:
        """Of such a hand-off; None where that cannot be told."""
        begin = self.begin_first if handoff.first else self.begin
        return None if begin is None or self.per_row is None else begin + sum(handoff.rows) * self.per_row


@dataclass(frozen=True)
class Costs:
    """All terms together."""

    reading: Reading
    compute: Compute
    network: Network
    meeting: Meeting

    def seconds(self, work: Work, network: Network | None = None) -> float:
        """Seconds of training, with waiting for rows. network: another one than was measured."""
        computing = self.compute.seconds(work)
        sums = (network or self.network).seconds(work.nodes, work.syncs, work.sent, work.crowd)
        return self.reading.seconds(work) + computing + sums + self.meeting.seconds(work, computing)


def work_of(record: ComparedRun, apart: bool = False) -> Work:
    """What one node of the run did; `local` has more steps than updates that the nodes share. apart: with a host for
    each node, as virtual ones always have."""
    syncs = record.syncs
    if record.nodes == 1 and record.sync.outer is not None and isinstance(record.sync.every, int):
        passes = max(1, record.passes)
        syncs = passes * math.ceil(record.steps / passes / record.sync.every)
    at_steps = record.sync.every == "step"
    return Work(
        nodes=record.nodes,
        rows=record.passes * record.rows / record.nodes,
        steps=record.steps,
        inside=syncs if at_steps else 0,
        between=0 if at_steps else syncs,
        sent=record.sync_bytes_per_node,
        crowd=ALONE if apart or record.virtual else crowd_of(record),
    )


def crowd_of(record: ComparedRun) -> Crowd:
    """How crowded the fullest host of a run was."""
    nodes = max(Counter(record.hosts).values(), default=1)
    known = [cores for kind in record.place.hosts if (cores := cores_of(kind))] if record.place else []
    if nodes == 1 or record.place is None or not known:
        return Crowd(nodes, nodes)
    cores = min(known)
    busy = min(record.place.threads, cores)  # more threads keep no more cores busy, on a host of its own either
    return Crowd(nodes, min(nodes, cores / busy))


def ethernet(gbit_per_s: float) -> Network:
    """A network with that rate."""
    return Network(ETHERNET_LATENCY, 8e-9 / gbit_per_s)
