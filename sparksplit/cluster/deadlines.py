"""How long a run waits for a node that is alive. Only the driver decides this, from the nodes' heartbeats.

A node waits for its peers and for the driver without a time limit of its own. The driver ends the node if it decides
that one of them hangs. A node ends itself if the driver is gone. docs/reliability.md has all waits and limits in one
table.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from sparksplit.cluster.channel.limits import BEAT
from sparksplit.spark.waiting import QUEUE_SECONDS, START_SECONDS, Patience

if TYPE_CHECKING:
    from sparksplit.cluster.node_record import NodeRecord

SHORTEST_STALL = 60.0
STALL_STEPS = 20
"""The automatic stall_timeout is the larger of SHORTEST_STALL seconds and this many median steps."""
MEASURING = 200.0
"""Limit in seconds while nodes measure for `strategy: auto`, if `phase_timeout` is longer. It is ten times as long as
measuring takes. All nodes train then, so it ends no run."""
FINEST = 2.5 * BEAT
"""Shortest limit in seconds. Heartbeats show progress no finer than this, so a shorter limit would end healthy nodes.
"""


@dataclass(frozen=True)
class Limits:
    """Seconds without any progress that count as a hang. The configuration has keys of the same names.

    stall_timeout: limit between updates. None: the larger of 60 s and 20 median steps.
    start_timeout: limit in the phase `start`, and until the node's processes connect.
    phase_timeout: limit in any other phase, and as long as there is no step to measure by.
    queue_timeout: limit until executors are granted.
    """

    stall_timeout: float | None = None
    start_timeout: float = START_SECONDS
    phase_timeout: float = 1800.0
    queue_timeout: float = QUEUE_SECONDS

    @property
    def patience(self) -> Patience:
        """How long to wait for executors."""
        return Patience(self.queue_timeout, self.start_timeout)


@dataclass(frozen=True)
class Hang:
    """node: the node that hangs. text: what the node does not do, in one line."""

    node: NodeRecord
    text: str


@dataclass(frozen=True)
class _Waited:
    """How long a node has made no progress.

    still: seconds since the node's last progress.
    alone: seconds since the node's last progress, or since it may last have been waiting for another node.
    key: configuration key of the limit, or another name of it.
    limit: the limit in seconds.
    """

    node: NodeRecord
    still: float
    alone: float
    key: str
    limit: float

    @property
    def over(self) -> bool:
        return self.alone > self.limit

    @property
    def close(self) -> bool:
        """Whether the node may be over its limit: heartbeats show progress to within one heartbeat."""
        return self.alone > self.limit - 1.5 * BEAT

    @property
    def waits(self) -> bool:
        """Whether the node waits: for its peers, or for the driver to have it fed."""
        state = self.node.state
        return bool(state.get("waiting")) or state.get("phase") == "feeding"

    @property
    def update(self) -> float:
        return float(self.node.state.get("update") or 0)


def hanging(nodes: Sequence[NodeRecord], now: float, limits: Limits) -> Hang | None:
    """Return the node that hangs; None if no node hangs.

    A node over its limit is excused while it may be waiting for another node that makes progress. The node may be
    waiting if it reports so. It may also be waiting for a node that is no further, because a TensorFlow sum cannot
    report that it waits. That other node will catch up, wait itself, or exceed its own limit. Once the other node has
    arrived, the first node has its own full limit again.

    If all nodes wait, no node will arrive. Once all of them are over their limits, return the node that is furthest
    behind.
    """
    _excuse(nodes)
    alive = [node for node in nodes if node.result is None and node.progressed is not None]
    longest = max((now - _last(node) for node in alive), default=0.0)
    if longest <= FINEST:
        return None  # the usual case
    updating = _update_limit(nodes, limits, longest)
    known = [_waited(node, updating, now, limits) for node in alive]
    working = [each for each in known if not each.waits]
    if working:
        slowest = min((each.update for each in working if not each.over), default=float("inf"))
        over = [each for each in working if each.over and each.update < slowest]
    else:
        over = [each for each in known if each.over] if all(each.over for each in known) else []
    if not over:
        return None
    suspects = [each for each in working if each.close] or over
    worst = min(suspects, key=lambda each: (each.update, -each.still))
    state = worst.node.state
    # `update` of a process with virtual nodes is the sum of their updates.
    reached = state.get("reached") or state.get("update")
    at = "before its first update" if reached is None else f"at update {reached}"
    what = f"in {state['phase']}" if worst.node.in_phase else at
    if worst.waits:
        what += ", where it waits for others"
    seconds = f"{worst.key} is {worst.limit:g} s"
    return Hang(worst.node, f"is alive but has made no progress for {worst.still:.0f} s, {what} ({seconds})")


def _excuse(nodes: Sequence[NodeRecord]) -> None:
    """For each node, note the last progress of any node that it may have been waiting for."""
    came = sorted(
        (float("-inf") if node.result is not None else node.before, node.progressed)
        for node in nodes
        if node.progressed is not None
    )
    latest = list(accumulate((progressed for _, progressed in came), max, initial=float("-inf")))
    for node in nodes:
        update = float("inf") if node.state.get("waiting") else node.state.get("update") or 0
        node.excused = max(node.excused, latest[bisect_right(came, (update, float("inf")))])


def _waited(node: NodeRecord, updating: tuple[str, float], now: float, limits: Limits) -> _Waited:
    assert node.progressed is not None
    key, limit = updating
    if node.in_phase:
        key = "start_timeout" if node.state["phase"] == "start" else "phase_timeout"
        limit = float(getattr(limits, key))
        if node.state["phase"] == "measuring" and node.state.get("measures") and limit > MEASURING:
            key, limit = "the limit of measuring", MEASURING
    return _Waited(node, now - node.progressed, now - _last(node), key, max(limit, FINEST))


def _last(node: NodeRecord) -> float:
    """Return when the node last made progress, or may last have been waiting."""
    assert node.progressed is not None
    return max(node.progressed, node.excused)


def _update_limit(nodes: Sequence[NodeRecord], limits: Limits, longest: float) -> tuple[str, float]:
    """Return the key and the seconds of the limit between updates. longest: the most seconds to be compared with the
    limit."""
    if limits.stall_timeout is not None or longest <= SHORTEST_STALL:
        return "stall_timeout", limits.stall_timeout or SHORTEST_STALL
    steps = [seconds for node in nodes for seconds in node.steps]
    if not steps:
        # A single step may take longer than a minute.
        return "phase_timeout", limits.phase_timeout
    return "stall_timeout", max(SHORTEST_STALL, STALL_STEPS * statistics.median(steps))
