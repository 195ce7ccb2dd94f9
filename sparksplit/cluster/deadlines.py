"""How long a run waits for a node that is alive: decided here alone, by the driver, from what the nodes' beats say.

A node waits for its peers and for the driver without a limit of its own: it is ended where the driver decides that one
of them hangs, and ends itself where the driver is gone. docs/reliability.md has all waits and limits in one table.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparksplit.cluster.wire import BEAT

if TYPE_CHECKING:
    from sparksplit.cluster.faults import NodeRecord

SHORTEST_STALL = 60.0
STALL_STEPS = 20
"""For the automatic stall_timeout: the larger of SHORTEST_STALL seconds and this many median steps."""
FINEST = 2.5 * BEAT
"""Beats show progress no finer than this: a shorter limit would end healthy nodes."""


@dataclass(frozen=True)
class Limits:
    """Seconds without any progress that count as a hang; configuration keys of the same names.

    stall_timeout: between updates; None: the larger of 60 s and 20 median steps, for nodes that report
    updates. start_timeout: in the phase `start`. phase_timeout: in any other phase.
    """

    stall_timeout: float | None = None
    start_timeout: float = 120.0
    phase_timeout: float = 1800.0


@dataclass(frozen=True)
class Hang:
    """node: the one that hangs. text: what it does not do, in one line."""

    node: NodeRecord
    text: str


@dataclass(frozen=True)
class _Waited:
    """still: seconds since the node's last progress. key: the limit that it is measured by. limit: its seconds; None
    while nothing is known to measure it by."""

    node: NodeRecord
    still: float
    key: str
    limit: float | None

    @property
    def over(self) -> bool:
        return self.limit is not None and self.still > self.limit

    @property
    def close(self) -> bool:
        """Whether it may be over: beats show progress to within one beat."""
        return self.limit is not None and self.still > self.limit - 1.5 * BEAT

    @property
    def waits(self) -> bool:
        return _waits(self.node)

    @property
    def update(self) -> float:
        return float(self.node.state.get("update") or 0)


def hanging(nodes: Sequence[NodeRecord], now: float, limits: Limits) -> Hang | None:
    """The node that hangs; None while none does.

    A node over its limit is excused while another one gets on for which it may be waiting: where it says that it waits,
    and where the other is no further (a sum of TensorFlow's cannot say that it waits). That one will catch up, wait
    itself, or be over its limit too. Where all wait, nobody will come: the one that is furthest behind is named once
    all are over their limits.
    """
    alive = [(node, now - node.progressed) for node in nodes if node.result is None and node.progressed is not None]
    if all(still <= FINEST for _, still in alive):
        return None  # as nearly always
    # Of who waits, only a look at all of them can tell something.
    asked = [(node, still) for node, still in alive if not _waits(node)] or alive
    stall = limits.stall_timeout or _automatic(nodes, max(still for _, still in asked))
    known = [_waited(node, still, stall, limits) for node, still in asked]
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
    what = f"in {state['phase']}" if worst.node.in_phase else f"at update {state.get('update')}"
    if worst.waits:
        what += ", where it waits for others"
    seconds = f"{worst.key} is {worst.limit:g} s"
    return Hang(worst.node, f"beats but has made no progress for {worst.still:.0f} s, {what} ({seconds})")


def _waits(node: NodeRecord) -> bool:
    """Whether it waits for others: for peers, or for the driver to have it fed."""
    return bool(node.state.get("waiting")) or node.state.get("phase") == "feeding"


def _automatic(nodes: Sequence[NodeRecord], longest: float) -> float:
    """What stall_timeout comes to by itself. longest: a node's seconds without progress, which it is compared with."""
    if longest <= SHORTEST_STALL:
        return SHORTEST_STALL
    steps = [seconds for node in nodes for seconds in node.steps]
    return max(SHORTEST_STALL, STALL_STEPS * statistics.median(steps) if steps else 0.0)


def _waited(node: NodeRecord, still: float, stall: float, limits: Limits) -> _Waited:
    """stall: what stall_timeout comes to."""
    if not node.in_phase:
        # A work function that reports no updates at all has no steps to compare with.
        nothing = limits.stall_timeout is None and node.state.get("update") is None
        return _Waited(node, still, "stall_timeout", None if nothing else max(stall, FINEST))
    key = "start_timeout" if node.state["phase"] == "start" else "phase_timeout"
    return _Waited(node, still, key, max(float(getattr(limits, key)), FINEST))
