"""The exceptions of storage, the roots of all that sparksplit raises; and what the system's errors mean.

SparksplitError     its text is one line for the user
 |- UsageError      what was given is wrong
 |   |- InputError      a file or a folder that was to be read or written
 |   |   |- Missing         there is nothing at its path
 |- RunError        what was begun failed
 |   |- Passing         a full disk, a network, an HDFS that is away: the same may work later
 |- OutputInUse     another command that is still running fills the output
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager


class SparksplitError(Exception):
    """Base of all errors that are raised on purpose; its text is one line for the user."""


class UsageError(SparksplitError):
    """What the user gave is wrong; nothing was done."""


class InputError(UsageError):
    """A file or a folder is missing, unreadable, damaged, or not what the configuration says."""


class Missing(InputError):
    """There is no file and no folder at a path."""


class RunError(SparksplitError):
    """The run was started and failed."""


class Passing(RunError):
    """What failed may work in a while: a full disk, a quota, a device's or a network's error."""


class OutputInUse(SparksplitError):
    """Another command that is still running fills the output; nothing was done, and the same call may work later."""


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
        return Missing(f"{place}: does not exist")
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


@contextmanager
def using(place: str, problem: str = "cannot be read") -> Iterator[None]:
    """Turn the OSErrors of a block that uses `place` into `file_error`'s."""
    try:
        yield
    except OSError as error:
        raise file_error(place, problem, error) from None
