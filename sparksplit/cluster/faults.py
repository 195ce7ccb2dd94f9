"""Who is to blame when a run fails: pure functions of what the driver knows, tested without Spark or processes.

Failures come in crowds: one node dies and all the others fail because of it, some of them sooner than the news of the
first arrives. First come, first named blames the wrong one; so evidence is ranked by how likely it is a cause.
"""

from __future__ import annotations

import signal
import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from sparksplit.base.errors import NodeFailed, PeerLost, SparksplitError, UsageError
from sparksplit.cluster.wire import BEAT, DEAD, ORPHANED, SILENT

SETTLE = 0.5
"""Seconds between the first evidence and the verdict: the time for better evidence to arrive."""
SETTLE_ECHO = 2.0
"""The same, where all evidence so far echoes another node's failure."""
LOST_NODE = 2.0
"""Seconds after which a node whose connection ended must have been reported by its launcher."""
SHORTEST_STALL = 60.0
STALL_STEPS = 20
"""The automatic stall_timeout: the larger of so many seconds and so many median steps."""

_ECHOES = {"UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError"}
"""TensorFlow's errors for a collective whose other end has gone; by name, since nothing here imports TensorFlow."""


class Cause(IntEnum):
    """Kinds of evidence, the likeliest cause first."""

    SIGNAL = 0
    LAUNCHER_LOST = 1
    SILENT = 2
    OWN_ERROR = 3
    STALLED = 4
    DISCONNECTED = 5
    ABORTED = 6
    """SIGABRT: what TensorFlow's coordination service does to healthy nodes when a peer is gone."""
    ECHO = 7
    JOB = 8


@dataclass(frozen=True)
class Fault:
    """A piece of evidence, and after `culprit` the verdict. at: monotonic seconds. usage: the user's own mistake."""

    cause: Cause
    at: float
    rank: int | None
    host: str
    text: str
    usage: bool = False

    def error(self) -> SparksplitError:
        """The exception that the driver raises."""
        if self.usage:
            return UsageError(self.text)
        where = f"node {self.rank} on {self.host}: " if self.rank is not None else ""
        return NodeFailed(where + self.text, rank=self.rank)


@dataclass
class Link:
    """One connection to the driver. heard, gone: monotonic seconds of the last message and of the end."""

    host: str
    pid: int
    heard: float
    gone: float | None = None


@dataclass
class NodeRecord:
    """All that the driver knows of one rank."""

    rank: int
    host: str = "unknown host"
    launcher: Link | None = None
    node: Link | None = None
    state: dict[str, Any] = field(default_factory=dict)
    states: int = 0
    progressed: float | None = None
    """Monotonic seconds of the last change that counts as progress."""
    steps: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    """Seconds per update, as far as beats show them."""
    result: dict[str, Any] | None = None
    error: tuple[float, str, str] | None = None
    """When, kind (usage, own, echo), text: the first that was reported."""
    ended: tuple[float, int] | None = None
    """When, and the exit status or minus the signal's number."""
    output: list[str] = field(default_factory=list)

    @property
    def in_phase(self) -> bool:
        return self.state.get("phase") is not None

    def observe(self, state: dict[str, Any], now: float) -> None:
        """Take in the state that came with a beat."""
        old, self.state = self.state, state
        self.states += 1
        marks = [(s.get("update"), s.get("phase"), s.get("phases", 0)) for s in (old, state)]
        if self.progressed is None or marks[0] == marks[1]:
            self.progressed = now if self.progressed is None else self.progressed
            return
        before, after = marks[0][0], marks[1][0]
        if marks[0][1:] == marks[1][1:] and not self.in_phase and before is not None and after is not None:
            self.steps.append((now - self.progressed) / max(1, after - before))
        self.progressed = now


def kind_and_text(error: BaseException) -> tuple[str, str]:
    """The kind (usage, own or echo) and the one-line text of an exception that ended a node's work."""
    text = " ".join(str(error).split())
    if isinstance(error, UsageError):
        return "usage", text
    link: BaseException | None = error
    kind = "own"
    while link is not None and kind == "own":
        names = {base.__name__ for base in type(link).__mro__}
        if isinstance(link, PeerLost | ConnectionError) or names & _ECHOES:
            kind = "echo"
        link = link.__cause__
    if len(text) > 500:
        text = text[:497] + "..."
    if isinstance(error, SparksplitError) and text:
        return kind, text
    return kind, f"{type(error).__name__}: {text}" if text else type(error).__name__


def culprit(nodes: Sequence[NodeRecord], now: float, stall_timeout: float | None = None) -> Fault | None:
    """The one to name, or None while there is no failure or the evidence is too fresh to judge.

    stall_timeout: seconds without progress that are a hang; None for the automatic limit.
    """
    evidence = [fault for node in nodes if node.result is None for fault in _evidence(node, now)]
    quiet = [fault for node in nodes if node.result is None for fault in _silence(node, now)]
    if not evidence:
        dead = [fault for fault in quiet if now - fault.at > DEAD]
        return min(dead, key=_order) if dead else _stalled(nodes, now, stall_timeout)
    first = min(fault.at for fault in evidence)
    best = min([*evidence, *(fault for fault in quiet if now - fault.at > SILENT)], key=_order)
    if best.cause < Cause.ABORTED:
        return best if now - first > SETTLE else None
    # An echo has a source: a node that has missed a beat may be it, and is soon known to live or not.
    suspected = any(now - fault.at > 1.5 * BEAT and fault.rank != best.rank for fault in quiet)
    patience = DEAD if suspected else SETTLE_ECHO
    return best if now - first > patience else None


def _order(fault: Fault) -> tuple[int, float]:
    return fault.cause, fault.at


def _evidence(node: NodeRecord, now: float) -> Iterator[Fault]:
    def fault(cause: Cause, at: float, text: str, usage: bool = False) -> Fault:
        return Fault(cause, at, node.rank, node.host, text, usage)

    if node.error:
        at, kind, text = node.error
        yield fault(Cause.ECHO if kind == "echo" else Cause.OWN_ERROR, at, text, kind == "usage")
    if node.ended:
        at, status = node.ended
        if status == -signal.SIGHUP:
            # Spark's Python daemon hangs up on its whole group when its executor has gone.
            yield fault(Cause.LAUNCHER_LOST, at, "its executor was lost")
        elif status < 0:
            yield fault(Cause.ABORTED if status == -signal.SIGABRT else Cause.SIGNAL, at, _signal_text(-status))
        elif status == ORPHANED:
            yield fault(Cause.ECHO, at, "ended itself because it had lost the driver")
        elif not node.error:
            yield fault(Cause.OWN_ERROR, at, f"ended with exit status {status} and without a result")
    elif node.launcher and node.launcher.gone is not None:
        text = "lost with the Python worker that held it (its executor was lost, or the worker was killed)"
        yield fault(Cause.LAUNCHER_LOST, node.launcher.gone, text)
    elif node.node and node.node.gone is not None and not node.error and now - node.node.gone > LOST_NODE:
        yield fault(Cause.DISCONNECTED, node.node.gone, "closed its connection to the driver")


def _silence(node: NodeRecord, now: float) -> Iterator[Fault]:
    if node.ended or node.error:
        return
    for what, link in (("", node.node), ("the Python worker that holds it ", node.launcher)):
        if link and link.gone is None:
            text = f"{what}has been silent for {now - link.heard:.0f} s (stopped, hanging, or its host is unreachable)"
            yield Fault(Cause.SILENT, link.heard, node.rank, node.host, text)


def _signal_text(number: int) -> str:
    hint = " (from outside, or by the kernel for lack of memory)" if number == signal.SIGKILL else ""
    return f"was ended by {signal.Signals(number).name}{hint}"


def _stalled(nodes: Sequence[NodeRecord], now: float, stall_timeout: float | None) -> Fault | None:
    """The hanging node among those without progress.

    The others wait for it, so they stand still for as long: the one that does not wait, or is furthest behind, it is.
    """
    limit = stall_timeout
    if limit is None:
        steps = [seconds for node in nodes for seconds in node.steps]
        limit = max(SHORTEST_STALL, STALL_STEPS * statistics.median(steps)) if steps else SHORTEST_STALL
    found = []
    for node in nodes:
        if node.result is not None or node.progressed is None:
            continue
        if stall_timeout is None and node.state.get("update") is None and not node.in_phase:
            # A work function that reports no updates at all has no step to compare with.
            continue
        busy = any(other.in_phase and not other.state.get("waiting") for other in nodes if other is not node)
        if node.state.get("waiting") and busy:
            continue
        allowed = node.state.get("phase_limit") if node.in_phase else limit
        if allowed is not None:
            found.append((now - node.progressed, allowed, node))
    if not any(still > allowed for still, allowed, _ in found):
        return None
    # Beats show progress to within one beat: whoever is that close to its limit is as suspect.
    close = [(still, node) for still, allowed, node in found if still > allowed - 1.5 * BEAT]
    still, worst = min(close, key=lambda it: (bool(it[1].state.get("waiting")), it[1].state.get("update") or 0, -it[0]))
    what = f"in {worst.state['phase']}" if worst.in_phase else f"at update {worst.state.get('update')}"
    text = f"beats but has made no progress for {still:.0f} s, {what} (stall_timeout is {limit:g} s)"
    return Fault(Cause.STALLED, now, worst.rank, worst.host, text)
