"""The driver's record of each rank: its processes, its progress, and how it ended."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sparksplit.cluster.failures import Failure

_MARKS = ("update", "phase", "phases", "done")
"""Keys of a node's state whose change shows progress."""


@dataclass
class Link:
    """A process that has connected to the driver.

    heard: monotonic seconds of its last message.
    gone: monotonic seconds of its connection's end; None while it is connected.
    again: monotonic seconds of its last new connection after an end.
    """

    host: str
    pid: int
    heard: float
    gone: float | None = None
    again: float = float("-inf")


@dataclass
class NodeRecord:
    """All that the driver knows about one rank."""

    rank: int
    host: str = "unknown host"
    place: str = ""
    """The node's executor, and where its log is (place.py)."""
    task: Link | None = None
    """Spark's Python worker, until it becomes the node's launcher."""
    launcher: Link | None = None
    node: Link | None = None
    stopped: float | None = None
    """Since when the launcher's heartbeats report the node's process as stopped, in monotonic seconds; None if it is
    not."""
    state: dict[str, Any] = field(default_factory=dict)
    states: int = 0
    progressed: float | None = None
    """Monotonic seconds of the last change that counts as progress."""
    updated: float | None = None
    """Monotonic seconds of the last update."""
    steps: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    """Seconds per update, as far as beats show it."""
    before: float = 0.0
    """The update before the last progress."""
    excused: float = float("-inf")
    """Monotonic seconds of the last progress of a node that this node may have been waiting for (deadlines.py)."""
    reservation: dict[str, Any] | None = None
    """The reservation that the node's task has made for TensorFlowOnSpark."""
    result: dict[str, Any] | None = None
    error: tuple[float, Failure, str] | None = None
    """Monotonic seconds, kind and text of the first reported error."""
    ended: tuple[float, int] | None = None
    """Monotonic seconds of the node's end, and the exit status or minus the signal's number."""
    output: list[str] = field(default_factory=list)
    killed_for_memory: bool | None = None
    """Whether the kernel counted a kill for lack of memory while the node ran; None if this is not known."""

    @property
    def holder(self) -> Link | None:
        """The Python worker that holds the node, or will hold it."""
        return self.launcher or self.task

    @property
    def in_phase(self) -> bool:
        return self.state.get("phase") is not None

    def beaten(self, kind: str, state: dict[str, Any], now: float) -> None:
        """Take in the state of a heartbeat. kind: the kind of process that sent it."""
        if kind == "node":
            self.observe(state, now)
        elif kind == "launcher":
            self.stopped = (self.stopped or now) if state.get("stopped") else None

    def observe(self, state: dict[str, Any], now: float) -> None:
        """Take in the state of a heartbeat of the node."""
        old, self.state = self.state, state
        self.states += 1
        before, after = old.get("update"), state.get("update")
        updates = after - before if before is not None and after is not None else 0
        same_phase = all(old.get(mark) == state.get(mark) for mark in ("phase", "phases"))
        if before != after or not same_phase:
            begun, self.updated = self.updated, now
            if begun is not None and updates > 0 and same_phase and not self.in_phase:
                self.steps.append((now - begun) / updates)
            if updates < 0:  # another run, whose updates may take longer
                self.steps.clear()
        # While a node waits for rows, the end of another wait is no progress.
        waited = old.get("waiting") and not state.get("waiting") and state.get("phase") != "feeding"
        if self.progressed is None or waited or any(old.get(mark) != state.get(mark) for mark in _MARKS):
            self.progressed, self.before = now, float(before or 0)
