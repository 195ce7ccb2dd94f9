"""The connection to an HDFS: one client per process, and the time limits.

If a NameNode restarts or is in safe mode, or a DataNode is lost, an operation is repeated for PATIENCE seconds. The log
shows lines meanwhile; then the operation fails with `Unavailable`. Only a process's first contact with a NameNode fails
after FIRST_CONTACT seconds, so that a wrong address is reported at once. At the end of a command, all operations
together have a short time (`ending`).
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

from hdfs_io import activity, ending, hadoop_conf
from hdfs_io.ending import Ending
from hdfs_io.errors import Passing

PATIENCE = 120.0
"""Seconds for which an operation is repeated. By default, a NameNode gives up on a silent DataNode after 630 s.
Meanwhile it offers that DataNode only for some of the new files.
"""
FIRST_CONTACT = 5.0
"""Seconds for which a process tries to reach a NameNode that has never answered it."""
STALL = 30.0
"""Seconds without progress after which an attempt is given up."""
_PAUSE = 1.0
_LOOK_SECONDS = 1.0
_LINE_SECONDS = 10.0
"""Seconds between two lines, within an attempt and between attempts."""
# By default, the client itself would retry a silent NameNode for three minutes, without any message.
_SETTINGS = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.max.millis": "1000",
    "dfs.client.socket-timeout": "20000",
}

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Unavailable(Passing):
    """HDFS did not complete an operation in time. The reason may go away."""


class _Passing(Exception):
    """An error that may go away in a moment."""


_clients: dict[tuple[int, str], Client] = {}
"""Clients by process id and authority, because a client from before a fork hangs after it. No client is ever closed:
dropping the parent's client would hang too. hdfs-native keeps idle connections to DataNodes, and a child inherits them.
A child's first read may wait for the socket's timeout before hdfs-native opens another connection.
"""


def client(authority: str) -> Client:
    """Return this process's client of the HDFS at `authority`. Raise OSError if no NameNode answers soon."""
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
    """Raise OSError if no NameNode answers soon."""
    try:
        repeat(f"hdfs://{authority}", lambda: client.get_file_info("/"), FIRST_CONTACT)
    except Unavailable as error:
        # hdfs-native passes on the words of the system's resolver, without an error number.
        reason = str(error.__cause__)
        hint = " (and HADOOP_CONF_DIR names no such name service)" if "lookup" in reason else ""
        # A NameNode may come back; an unknown host name stays unknown.
        number = errno.EINVAL if hint and "Temporary" not in reason else errno.EHOSTUNREACH
        raise OSError(number, f"no NameNode answers at {authority}: {reason}{hint}") from None
    except PermissionError:
        pass  # the NameNode refused the request, so it answers


class _Attempt(threading.Thread, Generic[_T]):
    """One call of an operation, given up after too long without progress.

    The call runs in a thread, because hdfs-native may wait forever: for a server that accepts a connection and stays
    silent, and in a write whose DataNode was lost (measured: one in five). After being given up, a call ends at its
    next `beat`, if it reaches one.

    told: called every _LINE_SECONDS without progress, with these seconds.
    stood_still: seconds for which this process itself stood still meanwhile (SIGSTOP, a paused virtual machine). They
        do not count as time without progress.
    """

    def __init__(self, operation: Callable[[], _T], limit: float, end: Ending, told: Callable[[float], None]) -> None:
        super().__init__(name="HDFS", daemon=True)
        self._operation, self._limit, self._end, self._told = operation, limit, end, told
        self._result: list[_T] = []
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._last, self._given_up = time.monotonic(), False
        self.stood_still = 0.0

    def run(self) -> None:
        try:
            self._result.append(self._operation())
        except BaseException as error:
            self._error = error

    def result(self) -> _T:
        """Return or raise the operation's result. Raise _Passing if it makes no progress within the limit."""
        self.start()
        next_line = _LINE_SECONDS
        while True:
            began = time.monotonic()
            wait = min(_LOOK_SECONDS, max(0.01, self._last + self._limit - began))
            self.join(wait)
            late = max(0.0, time.monotonic() - began - wait)
            self.stood_still += late
            if not self.is_alive():
                break
            # A process that waits for HDFS does not hang: this loop limits the wait.
            activity.note()
            with self._lock:
                self._last = min(time.monotonic(), self._last + late)
                silent = self.silent
                self._given_up = silent > self._limit or self._end.gives_up(silent)
            if self._given_up:
                raise _Passing(f"no answer within {silent:.0f} s")
            if silent < _LINE_SECONDS:
                next_line = _LINE_SECONDS
            elif silent >= next_line:
                next_line += _LINE_SECONDS
                self._told(silent)
        if self._error is not None:
            raise self._error
        return self._result[0]

    @property
    def silent(self) -> float:
        """Seconds without progress until now."""
        return time.monotonic() - self._last

    def beat(self) -> None:
        with self._lock:
            if self._given_up:
                raise SystemExit  # another attempt has taken over
            self._last = time.monotonic()


def beat() -> None:
    """Report progress from an operation that `repeat` runs. A long operation must call this between its steps."""
    attempt = threading.current_thread()
    if isinstance(attempt, _Attempt):
        attempt.beat()


def repeat(place: str, operation: Callable[[], _T], patience: float | None = None) -> _T:
    """Return the operation's result. Repeat the operation while its errors may go away; raise other errors as one-line
    OSErrors.

    patience: seconds; None means PATIENCE, and only then are silence and tries logged as warnings. Time for which this
        process itself stood still does not count, so another try follows. While a command ends, `ending` limits the
        time.
    """
    level = logging.WARNING if patience is None else logging.DEBUG
    limit = STALL if patience is None else patience
    patience = PATIENCE if patience is None else patience
    end = ending.current()
    if end.rest <= 0:
        raise Unavailable(f"{place}: not tried, because HDFS does not answer and this command ends")
    begun, next_line = time.monotonic(), 0.0
    while True:
        attempt = _Attempt(
            operation, limit, end, lambda seconds: _log.log(level, "%s: no answer for %.0f s", place, seconds)
        )
        try:
            result = attempt.result()
            end.answered()
            return result
        except Exception as error:  # hdfs-native has no own class for most of its errors
            known = translated(error)
            if not isinstance(known, _Passing):
                end.answered()
                raise known from None
            now, begun = time.monotonic(), begun + attempt.stood_still
            end.in_vain(attempt.silent)
            if now >= begun + patience:
                raise Unavailable(f"{place}: HDFS has failed for {patience:.0f} s: {known}") from known
            if now >= end.until:
                raise Unavailable(f"{place}: HDFS fails, and this command ends: {known}") from known
            if now >= next_line:
                _log.log(level, "%s: trying again: %s", place, known)
                next_line = now + _LINE_SECONDS
            pause = min(_PAUSE, end.until - now)
            began = time.monotonic()
            time.sleep(pause)
            begun += time.monotonic() - began - pause
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
"""The system's error number for each of HDFS's error classes. Any other class is EREMOTEIO."""


_IN_THE_WAY = re.compile(r"rename (source|destination) |[Ss]ource .* and destination ")
"""Messages of a rename whose destination is in the way. Their class is the same as for any other failure in the
NameNode.
"""


def translated(error: Exception) -> Exception:
    """Turn an error of hdfs-native into a one-line OSError or into _Passing."""
    text = str(error)
    if isinstance(error, OSError):
        if error.errno == errno.ESTALE:  # reading on would mix two files
            return error
        line = text.split("\n", maxsplit=1)[0]
        known = isinstance(error, FileNotFoundError | FileExistsError | IsADirectoryError | PermissionError)
        return type(error)(line) if known else _Passing(re.sub(r" \(os error \d+\)$", "", line))
    if not isinstance(error, RuntimeError):
        return error
    if match := _RPC.match(text):
        name = re.split(r"[.$]", match[1])[-1]
        line = match[2].split("\\n", maxsplit=1)[0].replace('\\"', '"')
        # "could only be written to": no class of its own, so only the NameNode's words identify it.
        if name in _PASSING_CLASSES or "could only be written to" in line:
            return _Passing(line)
        number = errno.EEXIST if _IN_THE_WAY.match(line) else errno.EREMOTEIO
        return OSError(_KNOWN_CLASSES.get(name, number), line)
    match = _OTHER.match(text)
    line = (match[2] if match else text).split("\\n", maxsplit=1)[0].replace('\\"', '"')
    return _Passing(line) if match and match[1] in ("DataTransferError", "IOError") else OSError(errno.EREMOTEIO, line)
