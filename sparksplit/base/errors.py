"""The exceptions that a command turns into one line and an exit status.

SparksplitError
 |- UsageError      exit 2: what the user gave is wrong
 |   |- ConfigError     a key of the configuration, or a command-line argument
 |   |- InputError      a file or a folder that was to be read or written
 |- RunError        exit 1: the run failed
 |   |- NodeFailed      a node, or the executor that held it, ended or hung
 |   |   |- NotStarted      it did not start in time
 |   |   |- Cancelled       someone has cancelled the Spark job that holds the nodes
 |   |- Passing         a full disk, a network, an HDFS that is away: the same may work later
 |- OutputInUse     exit 3: another command that is still running fills the output

KeyboardInterrupt       Python's own, on SIGINT
 |- Interrupted         the driver was asked to stop by another signal (SIGTERM)
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


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


class PeerLost(RunError):
    """Another node's connection ended or stayed silent: a consequence of its failure, never the first cause."""


class Passing(RunError):
    """What failed may work in a while: a full disk, a quota, a device's or a network's error."""


class OutputInUse(SparksplitError):
    """Another command that is still running fills the output; nothing was done, and the same call may work later."""

    exit_status = 3


_GIVEN = frozenset(
    (
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENOTEMPTY,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.EXDEV,
    )
)
"""What the system says about a path that is not what it should be; other errors (a full disk, a network) may pass."""
_PASSES = frozenset(
    (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EREMOTEIO,
        errno.ESTALE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EBUSY,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOLCK,
        errno.ETIMEDOUT,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENETRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
    )
)
"""What the system says about disks, networks and its own limits; what else an OSError says is its code's mistake."""
_BY_CLASS = {
    FileNotFoundError: errno.ENOENT,
    NotADirectoryError: errno.ENOTDIR,
    IsADirectoryError: errno.EISDIR,
    FileExistsError: errno.EEXIST,
    PermissionError: errno.EACCES,
    TimeoutError: errno.ETIMEDOUT,
    ConnectionError: errno.EHOSTUNREACH,
}
_IN_TEXT = re.compile(r"(?:\[errno |\berrno = )(\d+)\b", re.IGNORECASE)
_IN_WORDS = {
    os.strerror(number): number
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE)
}
"""What a disk's errors are called; TensorFlow has only the words."""


def errno_of(error: BaseException) -> int | None:
    """The system's number for an error: its own, its class's, or the last one in its text; None where there is none.

    Arrow's errors, and errors that crossed a process, have it only in the text: `... Detail: [errno 28] No space left
    on ...`, HDF5's as `errno = 28`; TensorFlow's have the words alone.
    """
    if isinstance(error, OSError) and error.errno:
        return error.errno
    for kind, number in _BY_CLASS.items():
        if isinstance(error, kind):
            return number
    text = str(error)
    if found := _IN_TEXT.findall(text):
        return int(found[-1])
    for words, number in _IN_WORDS.items():
        if words in text:
            return number
    # Arrow's own words, without a number.
    return errno.EISDIR if text.endswith("is a directory") else None


def file_error(place: str, problem: str, error: BaseException) -> SparksplitError:
    """The exception for `error`, met while using `place`: the one place that decides between a user's mistake and bad
    luck.

    problem: such as `cannot be read`. Returns an InputError where the path is not what it should be (missing, a folder,
    not permitted); otherwise Passing (a full disk, a quota, a device's or a network's error).
    """
    number = errno_of(error)
    if number == errno.ENOENT:
        return InputError(f"{place}: does not exist")
    own = error.strerror if isinstance(error, OSError) else None
    reason = own or " ".join(str(error).split())
    if number is not None and (not reason or _IN_TEXT.search(reason) or (not own and os.strerror(number) in reason)):
        reason = os.strerror(number)
    return (InputError if number in _GIVEN else Passing)(f"{place}: {problem}: {reason}")


def may_pass(error: BaseException) -> bool:
    """Whether what raised `error` may work in a while: a full disk or a lost network, and not a missing file, nor a
    closed one (EBADF, EPIPE)."""
    if isinstance(error, BrokenPipeError):
        return False
    return isinstance(error, Passing) or (isinstance(error, OSError) and errno_of(error) in _PASSES)


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


@contextmanager
def using(place: str, problem: str = "cannot be read") -> Iterator[None]:
    """Turn the OSErrors of a block that uses `place` into `file_error`'s."""
    try:
        yield
    except OSError as error:
        raise file_error(place, problem, error) from None


class Interrupted(KeyboardInterrupt):
    """The driver was asked to stop by a signal; the exit status is the shell's 128 + number.

    Not an Exception: like Ctrl-C it may come at any point, and py4j, among others, turns any Exception into its own.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum
        self.exit_status = 128 + signum
