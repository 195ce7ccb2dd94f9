"""The exceptions that a command turns into one line and an exit status.

SparksplitError
 |- UsageError      exit 2: the command line, the configuration or the input is wrong
 |   |- ConfigError     a key of the configuration, or a command-line argument
 |   |- InputError      a file or a folder that is read or written
 |- RunError        exit 1: the run failed
 |   |- CallbackFailed  a callback of the user raised an error, or changed what it may not change
 |   |- NodeFailed      a node, or its executor, ended or hung
 |   |   |- NotStarted      the node did not start in time
 |   |   |- Cancelled       someone cancelled the Spark job of the nodes
 |   |   |- Diverged        the loss is no longer a finite number
 |   |- Passing         full disk, network failure, HDFS not available: a later try may work
 |- OutputInUse     exit 3: another command that is still running writes the output

KeyboardInterrupt       Python's own, on SIGINT
 |- Interrupted         another signal (SIGTERM) asked the driver to stop

Storage raises some of these too: they come from hdfs_io.errors.
"""

from __future__ import annotations

import difflib
import re
import signal
from collections.abc import Iterable

from hdfs_io.errors import InputError, OutputInUse, Passing, RunError, SparksplitError, UsageError

__all__ = [
    "CallbackFailed",
    "Cancelled",
    "ConfigError",
    "Diverged",
    "InputError",
    "Interrupted",
    "NodeFailed",
    "NotStarted",
    "OutputInUse",
    "Passing",
    "PeerLost",
    "RunError",
    "SparksplitError",
    "UsageError",
    "did_you_mean",
    "exit_status",
    "printable",
]

_EXIT_STATUS: dict[type[SparksplitError], int] = {UsageError: 2, OutputInUse: 3}


def exit_status(error: SparksplitError) -> int:
    """Return the exit status of a command that ends with `error`."""
    return next((status for kind, status in _EXIT_STATUS.items() if isinstance(error, kind)), 1)


class ConfigError(UsageError):
    """A key of the configuration is unknown, has a wrong type or range, or contradicts another."""


class CallbackFailed(RunError):
    """On a node: a callback of the user raised an error, or changed what it may not change. The driver raises
    NodeFailed.

    told: the traceback in the user's code; None if the callback raised no error.
    """

    def __init__(self, message: str, told: str | None = None) -> None:
        super().__init__(message)
        self.told = told


class NodeFailed(RunError):
    """A node ended, hung or was lost.

    rank: the node's rank; None if it failed before it had a rank.
    host: the node's host.
    may_pass: whether a new attempt may get further. False if the node's own code raised an error, because a new attempt
        would raise it again.
    memory: whether the node ran out of memory.
    executor_lost: whether the node's executor was lost. Spark may know the reason.
    hangs: whether the node was alive, and made no progress.
    """

    def __init__(
        self,
        message: str,
        rank: int | None = None,
        *,
        host: str | None = None,
        may_pass: bool = True,
        memory: bool = False,
        executor_lost: bool = False,
        hangs: bool = False,
    ) -> None:
        super().__init__(message)
        self.rank, self.host, self.may_pass = rank, host, may_pass
        self.memory, self.executor_lost, self.hangs = memory, executor_lost, hangs
        self.executor_host: str | None = None
        """The host as Spark names it, if known."""


class NotStarted(NodeFailed):
    """A node did not start within start_timeout.

    rank: rank of a node that hangs on its executor; it may start in another attempt. None if the executors cannot hold
    all nodes; another attempt would not help.
    """

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__(message, rank, may_pass=rank is not None)


class Cancelled(NodeFailed):
    """Someone cancelled the Spark job of the nodes. The nodes must not restart. reason: from Spark."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"someone has cancelled the nodes' Spark job: {reason}", may_pass=False)


class SparkStopped(NodeFailed):
    """Spark as a whole has stopped. The nodes cannot restart. failure: the first failure that the driver saw."""

    def __init__(self, failure: str) -> None:
        super().__init__(
            f"Spark has stopped: a signal to spark-submit, a killed application, or a lost master ({failure})",
            may_pass=False,
        )


class Diverged(NodeFailed):
    """A node's loss is no longer a finite number. Another attempt would have the same result."""

    def __init__(self, message: str, rank: int | None = None, *, host: str | None = None) -> None:
        super().__init__(message, rank, host=host, may_pass=False)


class PeerLost(RunError):
    """The connection to a node ended or stayed silent. This is a consequence of the node's failure, never the first
    cause.
    """


def printable(text: str) -> str:
    r"""Return `text` with control characters written like `\x1b`, because text from files must not move the terminal's
    cursor.
    """
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `; did you mean 'KNOWN'?` for the nearest known name, ignoring case. Empty if no name is near.

    cutoff: as in difflib.
    """
    names = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


class Interrupted(KeyboardInterrupt):
    """A signal asked the driver to stop. The exit status is the shell's 128 + signal number.

    Not an Exception: like Ctrl-C, it may come at any point. Libraries such as py4j replace any Exception by their own.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum
        self.exit_status = 128 + signum
