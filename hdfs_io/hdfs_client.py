"""The connection to an HDFS: one client per process, and how long it waits for what.

A NameNode that restarts or is in safe mode, and a DataNode that is lost, are waited for: operations are repeated for
PATIENCE seconds, with lines in the log, and then fail with `Unavailable`. Only a process's first contact with a
NameNode fails after FIRST_CONTACT seconds, so that a wrong address is known at once.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from hdfs_native import Client

from hdfs_io import activity, hadoop_conf
from hdfs_io.errors import Passing

PATIENCE = 120.0
"""Seconds for which an operation is repeated. By default a NameNode gives up on a silent DataNode after 630 s, but
meanwhile it offers it only for some of the files being written."""
FIRST_CONTACT = 5.0
"""Seconds for which a process tries to reach a NameNode that has not answered it yet."""
STALL = 30.0
"""Seconds without progress after which an attempt is given up."""
_PAUSE = 1.0
_LOOK_SECONDS = 1.0
_LINE_SECONDS = 10.0
# The client's own retries of a NameNode that does not answer would last three minutes, and nobody would be told.
_SETTINGS = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.max.millis": "1000",
    "dfs.client.socket-timeout": "20000",
}

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Unavailable(Passing):
    """HDFS did not do what was asked within PATIENCE seconds, for a reason that may pass."""


class _Passing(Exception):
    """An error that may be gone in a moment."""


_clients: dict[tuple[int, str], Client] = {}
"""By process and authority: a client that was opened before a fork hangs after it. None is ever closed: dropping the
parent's would hang too. hdfs-native keeps idle connections to DataNodes itself, and a child inherits them: its first
read may wait for the socket's time-out before it opens another."""


def client(authority: str) -> Client:
    """This process's client of the HDFS at `authority`. Raises OSError where no NameNode answers soon."""
    key = (os.getpid(), authority)
    if key not in _clients:
        hadoop_conf.ask_as_the_submitter()
        try:
            opened = Client(f"hdfs://{authority}", _SETTINGS)
        except RuntimeError as error:
            known = translated(error)
            line = known.strerror if isinstance(known, OSError) else str(known)
            raise OSError(errno.EINVAL, f"hdfs://{authority}: {line}") from None
        _say_hello(authority, opened)
        _clients[key] = opened
    return _clients[key]


def _say_hello(authority: str, client: Client) -> None:
    """Raise OSError where no NameNode answers soon."""
    try:
        repeat(f"hdfs://{authority}", lambda: client.get_file_info("/"), FIRST_CONTACT)
    except Unavailable as error:
        # The words are the system's resolver's, which hdfs-native passes on without a number.
        reason = str(error.__cause__)
        hint = " (and HADOOP_CONF_DIR names no such name service)" if "lookup" in reason else ""
        # A NameNode that is down comes back; a name that no server knows does not.
        number = errno.EINVAL if hint and "Temporary" not in reason else errno.EHOSTUNREACH
        raise OSError(number, f"no NameNode answers at {authority}: {reason}{hint}") from None
    except PermissionError:
        pass  # it refuses something, so it does answer


class _Attempt(threading.Thread, Generic[_T]):
    """One call of an operation, given up when it has stood still for too long.

    In a thread, because hdfs-native may wait for ever: for a server that accepts a connection and stays silent, and in
    a write whose DataNode was lost (measured: one in five). A call that was given up ends at its next `beat`, if ever.
    """

    def __init__(self, operation: Callable[[], _T], limit: float) -> None:
        super().__init__(name="HDFS", daemon=True)
        self._operation, self._limit = operation, limit
        self._result: list[_T] = []
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._last, self._given_up = time.monotonic(), False

    def run(self) -> None:
        try:
            self._result.append(self._operation())
        except BaseException as error:
            self._error = error

    def result(self) -> _T:
        """What the operation returns or raises; raises _Passing if it stands still."""
        self.start()
        while True:
            self.join(min(_LOOK_SECONDS, max(0.01, self._last + self._limit - time.monotonic())))
            if not self.is_alive():
                break
            # Whoever waits for HDFS is not hanging: how long it waits is decided here.
            activity.note()
            with self._lock:
                self._given_up = time.monotonic() - self._last > self._limit
            if self._given_up:
                raise _Passing(f"no answer within {self._limit:.0f} s")
        if self._error is not None:
            raise self._error
        return self._result[0]

    def beat(self) -> None:
        with self._lock:
            if self._given_up:
                raise SystemExit  # another attempt has taken over
            self._last = time.monotonic()


def beat() -> None:
    """Report progress from within an operation that `repeat` runs; a long one must do so between its steps."""
    attempt = threading.current_thread()
    if isinstance(attempt, _Attempt):
        attempt.beat()


def repeat(place: str, operation: Callable[[], _T], patience: float | None = None) -> _T:
    """The result of the operation, repeated while its errors may pass. Other errors are raised as one-line OSErrors.

    patience: seconds; None: PATIENCE. Only a wait of that length is worth lines in the log.
    """
    level = logging.WARNING if patience is None else logging.DEBUG
    limit = STALL if patience is None else patience
    patience = PATIENCE if patience is None else patience
    end, next_line = time.monotonic() + patience, 0.0
    while True:
        try:
            return _Attempt(operation, limit).result()
        except Exception as error:  # hdfs-native has no class of its own for most
            known = translated(error)
            if not isinstance(known, _Passing):
                raise known from None
            now = time.monotonic()
            if now >= end:
                raise Unavailable(f"{place}: HDFS has failed for {patience:.0f} s: {known}") from known
            if now >= next_line:
                _log.log(level, "%s: trying again: %s", place, known)
                next_line = now + _LINE_SECONDS
            time.sleep(_PAUSE)
            activity.note()


_RPC = re.compile(r'^(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)$', re.DOTALL)
_OTHER = re.compile(r'^(\w+)\("(.*)"\)$', re.DOTALL)
_PASSING_CLASSES = {
    "SafeModeException",
    "RetriableException",
    "StandbyException",
    "ObserverRetryOnActiveException",
    "NotReplicatedYetException",
    "ConnectException",
    "BlockMissingException",
    "LeaseExpiredException",
}
_KNOWN_CLASSES = {
    "AccessControlException": errno.EACCES,
    "AuthorizationException": errno.EACCES,
    "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotDirectoryException": errno.ENOTDIR,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "FileAlreadyExistsException": errno.EEXIST,
    "InvalidPathException": errno.EINVAL,
    "PathComponentTooLongException": errno.ENAMETOOLONG,
    "DSQuotaExceededException": errno.EDQUOT,
    "NSQuotaExceededException": errno.EDQUOT,
    "QuotaByStorageTypeExceededException": errno.EDQUOT,
}
"""The system's error number for each of HDFS's classes of errors; any other class is EREMOTEIO."""


_IN_THE_WAY = re.compile(r"rename (source|destination) |[Ss]ource .* and destination ")
"""Of a rename; its class is no other than that of whatever fails in the NameNode."""


def translated(error: Exception) -> Exception:
    """An error of hdfs-native as a one-line OSError, or as _Passing."""
    text = str(error)
    if isinstance(error, OSError):
        if error.errno == errno.ESTALE:  # reading on would make one file of two
            return error
        line = text.split("\n", maxsplit=1)[0]
        known = isinstance(error, FileNotFoundError | FileExistsError | IsADirectoryError | PermissionError)
        return type(error)(line) if known else _Passing(re.sub(r" \(os error \d+\)$", "", line))
    if not isinstance(error, RuntimeError):
        return error
    if match := _RPC.match(text):
        name = re.split(r"[.$]", match[1])[-1]
        line = match[2].split("\\n", maxsplit=1)[0].replace('\\"', '"')
        # Only the NameNode's words tell this IOException from others.
        if name in _PASSING_CLASSES or "could only be written to" in line:
            return _Passing(line)
        number = errno.EEXIST if _IN_THE_WAY.match(line) else errno.EREMOTEIO
        return OSError(_KNOWN_CLASSES.get(name, number), line)
    match = _OTHER.match(text)
    line = (match[2] if match else text).split("\\n", maxsplit=1)[0].replace('\\"', '"')
    return _Passing(line) if match and match[1] in ("DataTransferError", "IOError") else OSError(errno.EREMOTEIO, line)
