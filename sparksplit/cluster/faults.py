"""Who is to blame when a run fails: pure functions of what the driver knows, tested without Spark or processes.

Failures come in crowds: one node dies and all the others fail because of it, some of them before the news of the first
one arrives. Blaming whoever is heard of first blames the wrong one, so evidence is ranked by how likely it is a cause.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from hdfs_io.errors import errno_of, may_pass
from sparksplit.base.errors import Diverged, NodeFailed, PeerLost, SparksplitError, UsageError
from sparksplit.cluster import memory
from sparksplit.cluster.channel.wire import BEAT, DEAD, ORPHAN, ORPHANED, SILENT
from sparksplit.cluster.deadlines import Limits, hanging
from sparksplit.cluster.node_record import NodeRecord

SETTLE = 0.5
"""Seconds between the first evidence and the verdict: the time for better evidence to arrive."""
SETTLE_ECHO = 2.0
"""Seconds from the first evidence to the verdict, while all evidence so far echoes another node's failure."""
REDIALLED = 3.0
"""Seconds within which a process must have called again whose connection ended; more than a beat, with which it notices
at the latest. A node that has really ended is reported by its launcher at once."""
REDIALLED_BOTH = 1.0
"""Seconds within which a node must have called again where both the node and its launcher have gone, as at an
executor's end. Where many were cut off at once, the driver answers one after the other: each call grants the others
this time again, up to DEAD more."""

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
    """A piece of evidence; what `culprit` returns is the verdict. at: monotonic seconds. usage: a user's mistake.
    may_pass: whether another attempt may get further. memory: whether it ran out of memory. diverged: whether its loss
    is no longer finite. place: its executor, and where the log is.
    """

    cause: Cause
    at: float
    rank: int | None
    host: str
    text: str
    usage: bool = False
    may_pass: bool = True
    memory: bool = False
    diverged: bool = False
    place: str = ""

    def error(self) -> SparksplitError:
        """The exception that the driver raises."""
        if self.usage:
            return UsageError(self.text)
        where = f"node {self.rank} on {self.host}: " if self.rank is not None else ""
        text = where + self.text + bracketed(self.place)
        if self.diverged:
            return Diverged(text, self.rank, host=self.host or None)
        return NodeFailed(
            text,
            rank=self.rank,
            host=self.host or None,
            may_pass=self.may_pass,
            memory=self.memory,
            executor_lost=self.cause in (Cause.LAUNCHER_LOST, Cause.JOB),
        )


def bracketed(place: str) -> str:
    """What ends a line about a node: the executor that it was in, and where its log is, if that is known."""
    return f" [{place}]" if place else ""


def kind_and_text(error: BaseException) -> tuple[str, str]:
    """The kind (usage, diverged, own, passing, memory, pipe or echo) and the one-line text of what ended a node's work.

    passing: a full disk, say, which another attempt may not meet. memory: it could not have what it asked for.
    """
    text = " ".join(str(error).split())
    if isinstance(error, UsageError):
        return "usage", text
    if isinstance(error, Diverged):
        return "diverged", text
    link: BaseException | None = error
    kind = "own"
    while link is not None and kind == "own":
        names = {base.__name__ for base in type(link).__mro__}
        if isinstance(link, PeerLost | ConnectionError) or names & _ECHOES:
            # A peer's failure would have other evidence too: a pipe that breaks without it is its own code's.
            kind = "pipe" if isinstance(link, BrokenPipeError) else "echo"
        elif names & memory.ERRORS:
            # TensorFlow calls a full disk so, too.
            kind = "passing" if errno_of(link) == errno.ENOSPC else "memory"
        elif may_pass(link):
            kind = "passing"
        link = link.__cause__
    if len(text) > 500:
        text = text[:497] + "..."
    if kind == "memory":
        return kind, memory.own_error(type(error).__name__, text)
    if isinstance(error, SparksplitError) and text:
        return kind, text
    return kind, f"{type(error).__name__}: {text}" if text else type(error).__name__


def culprit(nodes: Sequence[NodeRecord], now: float, limits: Limits = Limits()) -> Fault | None:  # noqa: B008
    """The fault to name; None while there is no failure, or the evidence is too fresh to judge."""
    links = [link for node in nodes for link in (node.node, node.launcher, node.task) if link]
    called = max((link.again for link in links), default=float("-inf"))
    evidence = [fault for node in nodes if node.result is None for fault in _evidence(node, now, called)]
    quiet = [fault for node in nodes if node.result is None for fault in _silence(node, now)]
    if not evidence:
        dead = [fault for fault in quiet if now - fault.at > DEAD]
        return min(dead, key=_order) if dead else _stalled(nodes, now, limits)
    # A connection that has just ended may be the death of an executor, which is the cause of the rest.
    if min(evidence, key=_order).cause > Cause.LAUNCHER_LOST and any(_may_be_lost(node, now, called) for node in nodes):
        return None
    first = min(fault.at for fault in evidence)
    best = min([*evidence, *(fault for fault in quiet if now - fault.at > SILENT)], key=_order)
    if best.cause < Cause.ABORTED:
        return best if now - first > SETTLE else None
    # An echo has a source: a node that has missed a beat may be it, and will soon be known to be alive or not.
    suspected = any(now - fault.at > 1.5 * BEAT and fault.rank != best.rank for fault in quiet)
    patience = DEAD if suspected else SETTLE_ECHO
    return best if now - first > patience else None


def driver_at_fault(fault: Fault, until: float, seconds: float) -> Fault:
    """`fault`; or that the driver stood still for so many seconds, `until` then, where that was just before and nodes
    have ended themselves, of which nothing else may be known."""
    # The last thing that a node had heard may have been as old as a beat.
    if fault.cause not in (Cause.ECHO, Cause.JOB) or seconds < ORPHAN - BEAT or fault.at > until + DEAD:
        return fault
    text = (
        f"the driver stood still for {seconds:.0f} s (it was stopped, or its machine was suspended); "
        f"nodes end after {ORPHAN:g} s without it"
    )
    return Fault(Cause.JOB, fault.at, None, "", text)


def _order(fault: Fault) -> tuple[int, bool, float]:
    # A row that is no number, say, before the loss that others have found to be none because of it.
    return fault.cause, not fault.usage, fault.at


def _evidence(node: NodeRecord, now: float, called: float) -> Iterator[Fault]:
    def fault(cause: Cause, at: float, text: str, kind: str = "") -> Fault:
        usage, may_pass = kind == "usage", kind not in ("usage", "diverged", "own", "pipe")
        memory, diverged = kind == "memory", kind == "diverged"
        return Fault(cause, at, node.rank, node.host, text, usage, may_pass, memory, diverged, node.place)

    if node.error:
        at, kind, text = node.error
        yield fault(Cause.ECHO if kind in ("echo", "pipe") else Cause.OWN_ERROR, at, text, kind)
    if node.ended:
        at, status = node.ended
        if status == -signal.SIGHUP:
            # Spark's Python daemon sends SIGHUP to its whole group when its executor has gone.
            yield fault(Cause.LAUNCHER_LOST, at, "its executor was lost")
        elif status < 0:
            for_memory = status == -signal.SIGKILL and node.killed_for_memory
            text = memory.signal_text(-status, node.killed_for_memory)
            cause = Cause.ABORTED if status == -signal.SIGABRT else Cause.SIGNAL
            yield fault(cause, at, text, "memory" if for_memory else "")
        elif status == ORPHANED:
            yield fault(Cause.ECHO, at, "ended itself because it had lost the driver")
        elif not node.error:
            yield fault(Cause.OWN_ERROR, at, f"ended with exit status {status} and without a result")
    elif (since := _lost_since(node)) is not None and now - _counted(since, called) > _grace(node):
        text = "lost with the Python worker that held it (its executor was lost, or the worker was killed)"
        yield fault(Cause.LAUNCHER_LOST, since, text)
    elif node.error or node.node is None or (cut := node.node.gone) is None:
        return
    elif now - _counted(cut, called) > REDIALLED:
        yield fault(Cause.DISCONNECTED, cut, "closed its connection to the driver")


def _lost_since(node: NodeRecord) -> float | None:
    """When the connection of the process that holds it ended that has not called again."""
    return node.holder.gone if node.holder and not node.ended else None


def _counted(since: float, called: float) -> float:
    """From when on it is waited for a process whose connection ended at `since`. called: when one has called again."""
    return min(max(since, called), since + DEAD)


def _may_be_lost(node: NodeRecord, now: float, called: float) -> bool:
    """Whether its holder's connection has ended so lately that it may call again, or not."""
    since = _lost_since(node) if node.result is None else None
    return since is not None and now - _counted(since, called) <= _grace(node)


def _grace(node: NodeRecord) -> float:
    return REDIALLED_BOTH if node.node and node.node.gone is not None else REDIALLED


def _silence(node: NodeRecord, now: float) -> Iterator[Fault]:
    if node.ended or node.error:
        return
    for what, link in (("", node.node), ("the Python worker that holds it ", node.holder)):
        if link and link.gone is None:
            silent = f"{what}has been silent for {now - link.heard:.0f} s"
            text = f"{silent} (stopped, hanging, or its host is too busy or unreachable)"
            yield Fault(Cause.SILENT, link.heard, node.rank, node.host, text, place=node.place)
    if node.node is None and node.stopped is not None:  # afterwards, its own silence tells
        text = f"its process has been stopped for {now - node.stopped:.0f} s, before it had called the driver"
        yield Fault(Cause.SILENT, node.stopped, node.rank, node.host, text, place=node.place)


def _stalled(nodes: Sequence[NodeRecord], now: float, limits: Limits) -> Fault | None:
    stalled = hanging(nodes, now, limits)
    if stalled is None:
        return None
    return Fault(Cause.STALLED, now, stalled.node.rank, stalled.node.host, stalled.text, place=stalled.node.place)
