"""Which node is to blame when a run fails: pure functions of what the driver knows, tested without Spark or processes.

Failures come in groups. If one node dies, all other nodes fail too, some of them before the news of the first failure
arrives. So the failure that is reported first may not be the cause. Evidence is ranked by how likely it is to be the
cause.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hdfs_io.errors import errno_of, may_pass
from sparksplit.base.errors import (
    CallbackFailed,
    Diverged,
    InputError,
    NodeFailed,
    PeerLost,
    SparksplitError,
    UsageError,
)
from sparksplit.cluster import memory
from sparksplit.cluster.channel.limits import BEAT, DEAD, ORPHAN, ORPHANED, SILENT
from sparksplit.cluster.deadlines import Limits, hanging
from sparksplit.cluster.failures import FOLLOWS, Failure, Follows
from sparksplit.cluster.node_record import NodeRecord

SETTLE = 0.5
"""Seconds between the first evidence and the verdict. Better evidence can arrive meanwhile."""
SETTLE_ECHO = 2.0
"""Seconds from the first evidence to the verdict, while all evidence so far echoes another node's failure."""
REDIALLED = 3.0
"""Seconds within which a process must connect again after its connection ended. This is longer than a heartbeat, with
which the process notices at the latest. The launcher reports a node that has really ended at once."""
REDIALLED_BOTH = 1.0
"""Seconds within which a node must connect again if both the node and its launcher are gone, as at an executor's end.
If many nodes were cut off at once, the driver answers them one after the other. So each new connection gives the others
this time again, up to DEAD seconds more."""

_ECHOES = {"UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError"}
"""TensorFlow's errors for a collective whose other end is gone. They are listed by name, because nothing here imports
TensorFlow."""


@dataclass(frozen=True)
class Fault:
    """A piece of evidence. The result of `culprit` is the verdict.

    at: monotonic seconds.
    place: the node's executor, and where its log is.
    """

    failure: Failure
    at: float
    rank: int | None
    host: str
    text: str
    place: str = ""

    @property
    def follows(self) -> Follows:
        """The consequences of the failure."""
        return FOLLOWS[self.failure]

    def error(self) -> SparksplitError:
        """Return the exception for the driver to raise."""
        if self.failure in (Failure.USAGE, Failure.INPUT):
            return (InputError if self.failure is Failure.INPUT else UsageError)(self.text)
        where = f"node {self.rank} on {self.host}: " if self.rank is not None else ""
        # The driver has shown the user's traceback already, and the log has nothing else about it.
        text = where + self.text + bracketed("" if self.failure is Failure.CALLBACK else self.place)
        host = self.host or None
        if self.failure is Failure.DIVERGED:
            return Diverged(text, self.rank, host=host)
        return NodeFailed(
            text,
            self.rank,
            host=host,
            may_pass=self.follows.may_pass,
            memory=self.follows.memory,
            executor_lost=self.follows.executor_lost,
            hangs=self.failure is Failure.STALLED,
        )


def bracketed(place: str) -> str:
    """Return the end of a line about a node: its executor, and where its log is, if known."""
    return f" [{place}]" if place else ""


def kind_and_text(error: BaseException) -> tuple[Failure, str]:
    """Return the kind and the one-line text of the error that ended a node's work."""
    text = " ".join(str(error).split())
    if isinstance(error, UsageError):
        return Failure.INPUT if isinstance(error, InputError) else Failure.USAGE, text
    if isinstance(error, CallbackFailed):
        return Failure.CALLBACK, text
    link: BaseException | None = error
    kind = Failure.DIVERGED if isinstance(error, Diverged) else Failure.OWN
    while link is not None and kind is Failure.OWN:
        names = {base.__name__ for base in type(link).__mro__}
        if isinstance(link, PeerLost | ConnectionError) or names & _ECHOES:
            kind = Failure.PIPE if isinstance(link, BrokenPipeError) else Failure.ECHO
        elif names & memory.ERRORS:
            # TensorFlow raises the same error for a full disk.
            kind = Failure.PASSING if errno_of(link) == errno.ENOSPC else Failure.MEMORY
        elif may_pass(link):
            kind = Failure.PASSING
        link = link.__cause__
    if len(text) > 500:
        text = text[:497] + "..."
    if kind is Failure.MEMORY:
        return kind, memory.own_error(type(error).__name__, text)
    if isinstance(error, SparksplitError) and text:
        return kind, text
    return kind, f"{type(error).__name__}: {text}" if text else type(error).__name__


def before_start(error: Exception) -> tuple[Failure, str]:
    """Return the kind and the text of the error that kept a launcher from starting its node."""
    kind, text = kind_and_text(error)
    if kind in (Failure.USAGE, Failure.INPUT):
        return kind, text
    return kind if kind in (Failure.PASSING, Failure.MEMORY) else Failure.OWN, f"before its start: {text}"


def culprit(nodes: Sequence[NodeRecord], now: float, limits: Limits = Limits()) -> Fault | None:  # noqa: B008
    """Return the fault to name; None if there is no failure, or if the evidence is too fresh to judge."""
    links = [link for node in nodes for link in (node.node, node.launcher, node.task) if link]
    called = max((link.again for link in links), default=float("-inf"))
    evidence = [fault for node in nodes if node.result is None for fault in _evidence(node, now, called)]
    quiet = [fault for node in nodes if node.result is None for fault in _silence(node, now)]
    if not evidence:
        dead = [fault for fault in quiet if now - fault.at > DEAD]
        return min(dead, key=_order) if dead else _stalled(nodes, now, limits)
    # A connection that has just ended may mean a lost executor, which would be the cause of the other failures.
    lost = FOLLOWS[Failure.EXECUTOR_LOST].order
    if min(map(_order, evidence))[0] > lost and any(_may_be_lost(node, now, called) for node in nodes):
        return None
    first = min(fault.at for fault in evidence)
    best = min([*evidence, *(fault for fault in quiet if now - fault.at > SILENT)], key=_order)
    if best.follows.order < FOLLOWS[Failure.ABORTED].order:
        return best if now - first > SETTLE else None
    # An echo has a cause, perhaps a node that has missed a heartbeat. Wait until that node is known to be alive or
    # dead.
    suspected = any(now - fault.at > 1.5 * BEAT and fault.rank != best.rank for fault in quiet)
    patience = DEAD if suspected else SETTLE_ECHO
    return best if now - first > patience else None


def driver_at_fault(fault: Fault, until: float, seconds: float) -> Fault:
    """Return `fault`, or a fault of the driver if the driver stood still just before and nodes have ended themselves.

    Nothing else may be known about these nodes.
    until: end of the standstill, in monotonic seconds.
    seconds: length of the standstill.
    """
    # The last message that a node had got may have been as old as a heartbeat.
    if fault.follows.order < FOLLOWS[Failure.ECHO].order or seconds < ORPHAN - BEAT or fault.at > until + DEAD:
        return fault
    text = (
        f"the driver stood still for {seconds:.0f} s (it was stopped, or its machine was suspended); "
        f"nodes end after {ORPHAN:g} s without it"
    )
    return Fault(Failure.JOB, fault.at, None, "", text)


def _order(fault: Fault) -> tuple[int, float]:
    return fault.follows.order, fault.at


def _evidence(node: NodeRecord, now: float, called: float) -> Iterator[Fault]:
    def fault(failure: Failure, at: float, text: str) -> Fault:
        return Fault(failure, at, node.rank, node.host, text, node.place)

    if node.error:
        at, failure, text = node.error
        yield fault(failure, at, text)
    if node.ended:
        at, status = node.ended
        if status == -signal.SIGHUP:
            # Spark's Python daemon sends SIGHUP to its whole group when its executor is gone.
            yield fault(Failure.EXECUTOR_LOST, at, "its executor was lost")
        elif status < 0:
            for_memory = status == -signal.SIGKILL and node.killed_for_memory
            killed = Failure.KILLED_FOR_MEMORY if for_memory else Failure.KILLED
            text = memory.signal_text(-status, node.killed_for_memory)
            yield fault(Failure.ABORTED if status == -signal.SIGABRT else killed, at, text)
        elif status == ORPHANED:
            yield fault(Failure.ECHO, at, "ended itself because it had lost the driver")
        elif not node.error:
            yield fault(Failure.PASSING, at, f"ended with exit status {status} and without a result")
    elif (since := _lost_since(node)) is not None and now - _counted(since, called) > _grace(node):
        text = "lost with the Python worker that held it (its executor was lost, or the worker was killed)"
        yield fault(Failure.EXECUTOR_LOST, since, text)
    elif node.error or node.node is None or (cut := node.node.gone) is None:
        return
    elif now - _counted(cut, called) > REDIALLED:
        yield fault(Failure.DISCONNECTED, cut, "closed its connection to the driver")


def _lost_since(node: NodeRecord) -> float | None:
    """Return when the connection of the node's holder ended; None if the holder is connected, or the node's end is
    known."""
    return node.holder.gone if node.holder and not node.ended else None


def _counted(since: float, called: float) -> float:
    """Return the time from which the wait for a process counts. since: when its connection ended. called: when any
    process last connected again."""
    return min(max(since, called), since + DEAD)


def _may_be_lost(node: NodeRecord, now: float, called: float) -> bool:
    """Return whether the connection of the node's holder ended so recently that the holder may still connect again."""
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
            yield Fault(Failure.SILENT, link.heard, node.rank, node.host, text, place=node.place)
    if node.node is None and node.stopped is not None:  # after it has connected, its own silence shows this
        text = f"its process has been stopped for {now - node.stopped:.0f} s, before it had called the driver"
        yield Fault(Failure.SILENT, node.stopped, node.rank, node.host, text, place=node.place)


def _stalled(nodes: Sequence[NodeRecord], now: float, limits: Limits) -> Fault | None:
    stalled = hanging(nodes, now, limits)
    if stalled is None:
        return None
    return Fault(Failure.STALLED, now, stalled.node.rank, stalled.node.host, stalled.text, place=stalled.node.place)
