"""How long a run waits for a node that is alive: decided here alone, by the driver, from what the nodes' beats say.

A node waits for its peers and for the driver without a limit of its own: it is ended where the driver decides that one
of them hangs, and ends itself where the driver is gone. docs/reliability.md has all waits and limits in one table.
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
"""For the automatic stall_timeout: the larger of SHORTEST_STALL seconds and this many median steps."""
FINEST = 2.5 * BEAT
"""Beats show progress no finer than this: a shorter limit would end healthy nodes."""


@dataclass(frozen=True)
class Limits:
    """Seconds without any progress that count as a hang; configuration keys of the same names.

    stall_timeout: between updates; None: the larger of 60 s and 20 median steps. start_timeout: in the phase `start`,
    and until its processes call. phase_timeout: in any other phase, and while there is no step yet to measure by.
    queue_timeout: until executors are granted.
    """

    stall_timeout: float | None = None
    start_timeout: float = START_SECONDS
    phase_timeout: float = 1800.0
    queue_timeout: float = QUEUE_SECONDS

    @property
    def patience(self) -> Patience:
        """How long executors are waited for."""
        return Patience(self.queue_timeout, self.start_timeout)


@dataclass(frozen=True)
class Hang:
    """node: the one that hangs. text: what it does not do, in one line."""

    node: NodeRecord
    text: str


@dataclass(frozen=True)
class _Waited:
    """still: seconds since the node's last progress. alone: since then, and since it may have been waiting for another
    one's. key: the limit that this is measured by. limit: its seconds."""

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
        """Whether it may be over: beats show progress to within one beat."""
        return self.alone > self.limit - 1.5 * BEAT

    @property
    def waits(self) -> bool:
        """Whether it waits for others: for peers, or for the driver to have it fed."""
        state = self.node.state
        return bool(state.get("waiting")) or state.get("phase") == "feeding"

    @property
    def update(self) -> float:
        return float(self.node.state.get("update") or 0)


def hanging(nodes: Sequence[NodeRecord], now: float, limits: Limits) -> Hang | None:
    """The node that hangs; None while none does.

    A node over its limit is excused while another one gets on for which it may be waiting: where it says that it waits,
    and where the other is no further (a sum of TensorFlow's cannot say that it waits). That one will catch up, wait
    itself, or be over its limit too; once it has come, this one has its own limit to get on. Where all wait, nobody
    will come: the one that is furthest behind is named once all are over their limits.
    """
    _excuse(nodes)
    alive = [node for node in nodes if node.result is None and node.progressed is not None]
    longest = max((now - _last(node) for node in alive), default=0.0)
    if longest <= FINEST:
        return None  # as nearly always
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
    at = "before its first update" if state.get("update") is None else f"at update {state['update']}"
    what = f"in {state['phase']}" if worst.node.in_phase else at
    if worst.waits:
        what += ", where it waits for others"
    seconds = f"{worst.key} is {worst.limit:g} s"
    return Hang(worst.node, f"is alive but has made no progress for {worst.still:.0f} s, {what} ({seconds})")


def _excuse(nodes: Sequence[NodeRecord]) -> None:
    """Note when each node may have been waiting last: with its progress another one may have come to where it waits."""
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
    return _Waited(node, now - node.progressed, now - _last(node), key, max(limit, FINEST))


def _last(node: NodeRecord) -> float:
    """When it got on last, or may have been waiting."""
    assert node.progressed is not None
    return max(node.progressed, node.excused)


def _update_limit(nodes: Sequence[NodeRecord], limits: Limits, longest: float) -> tuple[str, float]:
    """The key and the seconds of the limit between updates. longest: the most seconds to be compared with it."""
    if limits.stall_timeout is not None or longest <= SHORTEST_STALL:
        return "stall_timeout", limits.stall_timeout or SHORTEST_STALL
    steps = [seconds for node in nodes for seconds in node.steps]
    if not steps:
        # A single one may take longer than a minute.
        return "phase_timeout", limits.phase_timeout
    return "stall_timeout", max(SHORTEST_STALL, STALL_STEPS * statistics.median(steps))
