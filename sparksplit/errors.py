"""The exceptions that a command turns into one line and an exit status.

SparksplitError
 |- UsageError      exit 2: what the user gave is wrong
 |   |- ConfigError     a key of the configuration, or a command-line argument
 |   |- InputError      a file or a folder that was to be read or written
 |- RunError        exit 1: the run failed
 |   |- NodeFailed      a node, or the executor that held it, ended or hung
 |- OutputInUse     exit 3: another command that still runs fills the output

KeyboardInterrupt       Python's own, on SIGINT
 |- Interrupted         the driver was asked to stop by another signal (SIGTERM)
"""

from __future__ import annotations

import signal


class SparksplitError(Exception):
    """Base of all errors that sparksplit raises on purpose; its text is one line for the user."""

    exit_status = 1


class UsageError(SparksplitError):
    """What the user gave is wrong; nothing was done."""

    exit_status = 2


class ConfigError(UsageError):
    """A key of the configuration is unknown, has a wrong type or range, or contradicts another."""


class InputError(UsageError):
    """A file or a folder is missing, unreadable, damaged, or not what the configuration says."""


class RunError(SparksplitError):
    """The run was started and failed."""


class NodeFailed(RunError):
    """A node ended, hung or was lost.

    rank: the node's rank, or None where it failed before it had one.
    """

    def __init__(self, message: str, rank: int | None = None) -> None:
        super().__init__(message)
        self.rank = rank


class PeerLost(RunError):
    """Another node's connection ended or stayed silent: a consequence of its failure, never the first cause."""


class OutputInUse(SparksplitError):
    """Another command, which still runs, fills the output; nothing was done, and the same call may do later."""

    exit_status = 3


class Interrupted(KeyboardInterrupt):
    """The driver was asked to stop by a signal; the exit status is the shell's 128 + number.

    Not an Exception: like Ctrl-C it may come anywhere, and py4j, among others, turns any Exception into its own.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.exit_status = 128 + signum
