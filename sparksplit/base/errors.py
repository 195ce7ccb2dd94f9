"""The exceptions that a command turns into one line and an exit status.

SparksplitError
 |- UsageError      exit 2: what the user gave is wrong
 |   |- ConfigError     a key of the configuration, or a command-line argument
 |   |- InputError      a file or a folder that was to be read or written
 |- RunError        exit 1: the run failed
 |   |- NodeFailed      a node, or the executor that held it, ended or hung
 |   |   |- NotStarted      it did not start in time
 |   |   |- Cancelled       someone has cancelled the Spark job that holds the nodes
 |   |   |- Diverged        the loss is no longer a finite number
 |   |- Passing         a full disk, a network, an HDFS that is away: the same may work later
 |- OutputInUse     exit 3: another command that is still running fills the output

KeyboardInterrupt       Python's own, on SIGINT
 |- Interrupted         the driver was asked to stop by another signal (SIGTERM)

Storage raises some of these, too: they come from hdfs_io.errors.
"""

from __future__ import annotations

import difflib
import re
import signal
from collections.abc import Iterable

from hdfs_io.errors import InputError, OutputInUse, Passing, RunError, SparksplitError, UsageError

__all__ = [
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
    """The exit status of a command that ends by `error`."""
    return next((status for kind, status in _EXIT_STATUS.items() if isinstance(error, kind)), 1)


class ConfigError(UsageError):
    """A key of the configuration is unknown, has a wrong type or range, or contradicts another."""


class NodeFailed(RunError):
    """A node ended, hung or was lost.

    rank: the node's rank, or None where it failed before it had one; host: its host. may_pass: whether other nodes may
    get further; not where its own code raised an error, which it would raise again. memory: whether it ran out of
    memory. executor_lost: whether its executor was lost, for which Spark may know a reason.
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
    ) -> None:
        super().__init__(message)
        self.rank, self.host, self.may_pass = rank, host, may_pass
        self.memory, self.executor_lost = memory, executor_lost
        self.executor_host: str | None = None
        """The host as Spark names it, where it is known."""


class NotStarted(NodeFailed):
    """A node did not start within start_timeout.

    rank: of one that an executor holds, where it hangs: it may start in another attempt. None where executors do not
    take all nodes: they would not do so then, either.
    """

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__(message, rank, may_pass=rank is not None)


class Cancelled(NodeFailed):
    """Someone has cancelled the Spark job that holds the nodes: it is not to start again. reason: Spark's."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"someone has cancelled the nodes' Spark job: {reason}", may_pass=False)


class Diverged(NodeFailed):
    """A node's loss is no longer a finite number, and would not be in another attempt."""

    def __init__(self, message: str, rank: int | None = None, *, host: str | None = None) -> None:
        super().__init__(message, rank, host=host, may_pass=False)


class PeerLost(RunError):
    """The connection to a node ended or stayed silent: a consequence of the node's failure, never the first cause."""


def printable(text: str) -> str:
    r"""`text` with its control characters as `\x1b`: what comes from files must not move the terminal's cursor."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`; did you mean 'KNOWN'?` for the nearest known name, whatever its case; empty where none is near.

    cutoff: as difflib's.
    """
    names = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=cutoff)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


class Interrupted(KeyboardInterrupt):
    """The driver was asked to stop by a signal; the exit status is the shell's 128 + number.

    Not an Exception: like Ctrl-C it may come at any point, and py4j, among others, turns any Exception into its own.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum
        self.exit_status = 128 + signum
