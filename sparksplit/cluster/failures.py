"""The kinds of failures of nodes, and what follows from each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Failure(StrEnum):
    """Why a node failed, or how it ended. The nodes send the values to the driver."""

    KILLED = "killed"
    """A signal ended the node."""
    KILLED_FOR_MEMORY = "killed for memory"
    """The kernel ended the node for lack of memory."""
    EXECUTOR_LOST = "executor lost"
    """The executor ended, or the Python worker that held the node."""
    SILENT = "silent"
    """A process that still has its connection sends no heartbeats."""
    USAGE = "usage"
    """The user's mistake in the configuration."""
    INPUT = "input"
    """A file or a folder that the node reads or writes is missing, damaged, or not what the configuration says."""
    DIVERGED = "diverged"
    """The loss is no longer a finite number."""
    CALLBACK = "callback"
    """A callback of the user raised an error, or changed what it may not change."""
    OWN = "own"
    """An error in the code of the node, or in the user's code."""
    PASSING = "passing"
    """A failure that another attempt may not meet, such as a full disk or an exit without a result."""
    MEMORY = "memory"
    """The node asked for memory, and did not get it."""
    STALLED = "stalled"
    """The node sends heartbeats, and makes no progress."""
    DISCONNECTED = "disconnected"
    """The node closed its connection to the driver."""
    ABORTED = "aborted"
    """SIGABRT: what TensorFlow's coordination service does to healthy nodes when a peer is gone."""
    ECHO = "echo"
    """A consequence of another node's failure, or of the driver's."""
    PIPE = "pipe"
    """A broken pipe. Without evidence of a peer's failure, it is an error in the node's own code."""
    JOB = "job"
    """Spark ended the job that holds the nodes."""

    @classmethod
    def _missing_(cls, value: object) -> Failure:
        # A node with a newer sparksplit may send an unknown kind. Its text must not be lost.
        return cls.PASSING


@dataclass(frozen=True)
class Follows:
    """The consequences of a failure. The exit status follows from the exception (base/errors.py)."""

    order: int
    """The likeliest cause has the lowest number. Of several failures, the error names the failure with the lowest
    number."""
    may_pass: bool = True
    """Whether another attempt may get further, so that the run restarts."""
    memory: bool = False
    """Whether the node ran out of memory. The same run restarts only once from the same checkpoint."""
    executor_lost: bool = False
    """Whether the executor was lost. Spark may know the reason."""


FOLLOWS = {
    Failure.KILLED: Follows(0),
    Failure.KILLED_FOR_MEMORY: Follows(0, memory=True),
    Failure.EXECUTOR_LOST: Follows(1, executor_lost=True),
    Failure.SILENT: Follows(2),
    Failure.USAGE: Follows(3, may_pass=False),
    Failure.INPUT: Follows(3, may_pass=False),  # the bad row comes before the loss that it has spoilt
    Failure.DIVERGED: Follows(4, may_pass=False),
    Failure.CALLBACK: Follows(4, may_pass=False),
    Failure.OWN: Follows(4, may_pass=False),
    Failure.PASSING: Follows(4),
    Failure.MEMORY: Follows(4, memory=True),
    Failure.STALLED: Follows(5),
    Failure.DISCONNECTED: Follows(6),
    Failure.ABORTED: Follows(7),
    Failure.ECHO: Follows(8),
    Failure.PIPE: Follows(8, may_pass=False),
    Failure.JOB: Follows(9, executor_lost=True),
}
