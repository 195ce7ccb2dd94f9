"""The exceptions of storage, the base classes of all sparksplit errors, and the meaning of system errors.

SparksplitError     its text is one line for the user
 |- UsageError      the user's command line, configuration or input is wrong
 |   |- InputError      a file or a folder that is read or written
 |   |   |- Missing         nothing exists at the path
 |- RunError        the run started and failed
 |   |- Passing         full disk, network failure, HDFS not available: a later try may work
 |- OutputInUse     another command that is still running writes the output
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager


class SparksplitError(Exception):
    """Base of all errors that are raised on purpose. The text is one line for the user."""


class UsageError(SparksplitError):
    """The user's command line, configuration or input is wrong. Nothing was done."""


class InputError(UsageError):
    """A file or a folder is missing, unreadable, damaged, or not what the configuration says."""


class Missing(InputError):
    """No file or folder exists at the path."""


class RunError(SparksplitError):
    """The run was started and failed."""


class Passing(RunError):
    """A failure that may go away: a full disk, a quota, a device or network error. A later try may work."""


class OutputInUse(SparksplitError):
    """Another command that is still running writes the output. Nothing was done; a later call may work."""


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
"""Error numbers of a wrong path. Other errors, such as a full disk or a network failure, may go away."""
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
"""Error numbers of disks, networks and system limits. Any other OSError is a mistake in the code that raised it."""
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
"""The system's words for disk errors. TensorFlow's errors have only the words."""


def errno_of(error: BaseException) -> int | None:
    """Return the system's error number of `error`, or None if unknown.

    Sources, in this order: the exception, its class, the last number in its text, the words in its text. Arrow's
    errors, and errors from another process, have the number only in the text: `... Detail: [errno 28] No space left on
    ...`. HDF5 writes `errno = 28`. TensorFlow writes only the words.
    """
    if isinstance(error, OSError) and error.errno:
        return error.errno
    for kind, number in _BY_CLASS.items():
        if isinstance(error, kind):
            return number
    text = str(error)
    if numbers := _IN_TEXT.findall(text):
        return int(numbers[-1])
    for words, number in _IN_WORDS.items():
        if words in text:
            return number
    # Arrow's own words; Arrow gives no number here.
    return errno.EISDIR if text.endswith("is a directory") else None


def file_error(place: str, problem: str, error: BaseException) -> SparksplitError:
    """Return the exception for `error`, which was raised while using `place`. Only this function decides between a
    user's mistake and a failure that may go away.

    problem: for example `cannot be read`. Return an InputError if the path is wrong (missing, a folder, not permitted).
    Otherwise return Passing (a full disk, a quota, a device or network error).
    """
    number = errno_of(error)
    if number == errno.ENOENT:
        return Missing(f"{place}: does not exist")
    return (InputError if number in _GIVEN else Passing)(f"{place}: {problem}: {_reason(error, number)}")


def own_error(place: str, problem: str, error: BaseException) -> Passing:
    """Return the exception for `error`, which was raised while using `place`, a folder that sparksplit made itself.

    The user did not name the folder. If it is gone, or its disk is read-only, the host has failed: another attempt may
    work, perhaps on another host.
    """
    return Passing(f"{place}: {problem}: {_reason(error, errno_of(error))}")


def _reason(error: BaseException, number: int | None) -> str:
    """Return the reason of `error` in one line. number: the system's error number; None if unknown."""
    text = error.strerror if isinstance(error, OSError) else None
    reason = text or " ".join(str(error).split())
    if number is not None and (not reason or _IN_TEXT.search(reason) or (not text and os.strerror(number) in reason)):
        return os.strerror(number)
    return reason


def may_pass(error: BaseException) -> bool:
    """Whether the cause of `error` may go away: true for a full disk or a lost network. False for a missing file or a
    closed file or pipe (EBADF, EPIPE).
    """
    if isinstance(error, BrokenPipeError):
        return False
    return isinstance(error, Passing) or (isinstance(error, OSError) and errno_of(error) in _PASSES)


@contextmanager
def using(place: str, problem: str = "cannot be read") -> Iterator[None]:
    """Turn each OSError of a block that uses `place` into the exception from `file_error`."""
    try:
        yield
    except OSError as error:
        raise file_error(place, problem, error) from None


@contextmanager
def using_own(place: str, problem: str = "cannot be written") -> Iterator[None]:
    """Like `using`, for a folder that sparksplit made itself: turn each OSError into Passing (see `own_error`)."""
    try:
        yield
    except OSError as error:
        raise own_error(place, problem, error) from None
