"""The cost model: the parts of a run's training time, and the time on other nodes and networks.

A node's computing time is linear in its rows, its steps, and its exchanges. Nodes that share a host slow each other
down (contention). Contention belongs to computing, not to exchanges.

Nodes with more threads than the host has cores take turns, and nodes that are done wait for the last node. The number
of turns is known before a run. Three nodes of one thread on two cores take two rounds, like four nodes, if the work is
shorter than a core's time slice. Longer work takes one and a half rounds, because the scheduler shares the cores
evenly.

An exchange takes 2 (N - 1) messages and 2 (N - 1) / N times its bytes, as a ring does (Patarasuk and Yuan 2009). The
alpha-beta model gives their time (Hockney 1994). Nodes also wait until all nodes have arrived at the exchange. Spark's
hand-off is no part of training. `calibration` fits the numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from sparksplit.comparison.comparison_record import ComparedRun, HandOff
from sparksplit.comparison.machine import cores_of

ETHERNET_LATENCY = 50e-6
"""Seconds of one message between two hosts over Ethernet, assumed: two to three times half a switched round trip."""
FRAMES = (1538 + 90 / 2) / 1448
"""Bytes on the wire for each byte sent over TCP: a full frame of Ethernet has 1448 of these, 52 bytes of headers of TCP
and IP, and 38 bytes of its own with its preamble and the gap before the next frame. Nodes send and receive at the same
time, so a frame of 90 bytes acknowledges every second frame of the other direction (RFC 1122)."""
TIME_SLICE = 4e-3
"""Seconds for which a core keeps one of several busy processes, assumed: a tick of Linux at 250 Hz."""


@dataclass(frozen=True)
class Crowd:
    """How crowded a host is. nodes: the nodes on the host. at_once: how many of the nodes the cores can run at the same
    time."""

    nodes: int = 1
    at_once: float = 1.0

    @property
    def rounds(self) -> int:
        """The number of rounds until each node has had its cores, if a node keeps its cores until it is done."""
        return math.ceil(self.nodes / math.floor(self.at_once))

    def turns(self, seconds: float) -> float:
        """Return the time of all nodes of the host, divided by the time of one node on cores of its own.

        seconds: the time of one node on cores of its own. If `seconds` is shorter than a time slice, the result is
        `rounds`. The cores share longer work evenly, except for the last time slice.
        """
        even = self.nodes / self.at_once
        return even + (self.rounds - even) * TIME_SLICE / max(seconds, TIME_SLICE)


ALONE = Crowd()
"""One node on a host."""


@dataclass(frozen=True)
class Work:
    """The work of one node in a run. rows: the rows that the node trains on. sent: bytes that the node sends.

    inside: exchanges in the node's graph, at each step. between: exchanges between calls of the graph. An outer
    optimiser counts as `between`, even on one node.
    """

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
    """Seconds of computing per row, per step and per exchange of each kind. A step is a node's own mini-batch, or its
    part of a shared mini-batch.

    contention: the share by which each other node that computes on the host slows a node down.
    """

    per_row: float
    per_step: float
    per_inside: float = 0.0
    per_between: float = 0.0
    contention: float = 0.0

    def seconds(self, work: Work) -> float:
        """Return the seconds of computing for `work`, until all nodes of the host are done."""
        alone = work.rows * self.per_row + work.steps * self.per_step
        alone += work.inside * self.per_inside + work.between * self.per_between
        alone *= self.slower(work.crowd)
        return alone * work.crowd.turns(alone / max(1, work.syncs))

    def slower(self, crowd: Crowd) -> float:
        """Return the slowdown of a node by the nodes that compute on its host at the same time; 1 for a node alone."""
        return 1 + self.contention * (crowd.at_once - 1)


@dataclass(frozen=True)
class Network:
    """The cost of sending. latency: seconds per message. per_byte: seconds per byte. The nodes of a host send their
    bytes one after the other."""

    latency: float
    per_byte: float

    def seconds(self, nodes: int, syncs: int, sent: float, crowd: Crowd = ALONE) -> float:
        """Return the seconds of `syncs` sums over `nodes` nodes. sent: the bytes that each node sends in all sums
        together."""
        if nodes < 2:
            return 0.0
        messages = 2 * (nodes - 1) * syncs
        return crowd.rounds * (messages * self.latency + sent * crowd.nodes * self.per_byte)


@dataclass(frozen=True)
class Meeting:
    """The cost of exchanges in training beyond the sums. per_sync: seconds per exchange. uneven: waiting for slower
    nodes, as a share of a node's computing."""

    per_sync: float = 0.0
    uneven: float = 0.0

    def seconds(self, work: Work, computing: float) -> float:
        """Return the seconds beyond the sums. computing: the result of `Compute.seconds`."""
        if work.nodes < 2:
            return 0.0
        return work.crowd.rounds * work.syncs * self.per_sync + computing * self.uneven


@dataclass(frozen=True)
class Reading:
    """The time that a node waits for rows. begin: seconds for the first rows. per_row: seconds per row."""

    begin: float = 0.0
    per_row: float = 0.0

    def seconds(self, work: Work) -> float:
        return work.crowd.rounds * (self.begin + work.rows * self.per_row)


@dataclass(frozen=True)
class HandingOver:
    """The time until Spark has handed over the rows. Only the executors without a node send rows, to all nodes.

    begin: seconds to begin a hand-off, including Spark's reading of the rows. begin_first: `begin` of the first
    hand-off in a Spark application, whose executors must load their libraries first. per_row: seconds per row that
    Spark sends to a node.

    A value is None if the runs do not determine it. A first hand-off says nothing about later ones, or the reverse.
    Only different numbers of rows separate `begin` from `per_row`.
    """

    begin: float | None
    per_row: float | None
    begin_first: float | None = None

    def seconds(self, handoff: HandOff) -> float | None:
        """Return the seconds of `handoff`; None if they are unknown."""
        begin = self.begin_first if handoff.first else self.begin
        return None if begin is None or self.per_row is None else begin + sum(handoff.rows) * self.per_row


@dataclass(frozen=True)
class Costs:
    """All terms of the cost model."""

    reading: Reading
    compute: Compute
    network: Network
    meeting: Meeting

    def seconds(self, work: Work, network: Network | None = None) -> float:
        """Return the seconds of training, including waiting for rows. network: a network to use instead of the measured
        one."""
        computing = self.compute.seconds(work)
        sums = (network or self.network).seconds(work.nodes, work.syncs, work.sent, work.crowd)
        return self.reading.seconds(work) + computing + sums + self.meeting.seconds(work, computing)


def work_of(record: ComparedRun, apart: bool = False) -> Work:
    """Return the work of one node in the run `record`. With `local`, a node has more steps than shared updates.

    apart: whether each node has a host of its own. Virtual nodes always do.
    """
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
    busy = min(record.place.threads, cores)  # more threads than cores keep only the cores busy, even with one node
    return Crowd(nodes, min(nodes, cores / busy))


def ethernet(gbit_per_s: float) -> Network:
    """Return an Ethernet network with this bandwidth in Gbit/s, of which TCP's data have a part (`FRAMES`)."""
    return Network(ETHERNET_LATENCY, FRAMES * 8e-9 / gbit_per_s)
