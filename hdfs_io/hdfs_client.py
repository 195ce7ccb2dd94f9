"""The connection to an HDFS: one client for each process, and how long it waits for whom.

A NameNode that restarts or is in safe mode, and a DataNode that is lost, are waited for: operations are repeated for
PATIENCE seconds, with lines in the log, and then fail with `Unavailable`. Only a process's first contact with a
NameNode fails after FIRST_CONTACT seconds, so that a wrong address is known at once.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from hdfs_native import Client

from sparksplit.errors import RunError

PATIENCE = 120.0
"""Seconds for which an operation is repeated. A NameNode gives a silent DataNode up after 630 s by default, but offers
it only to some of the files that are written meanwhile."""
FIRST_CONTACT = 5.0
"""Seconds for which a process tries to reach a NameNode that has not answered it yet."""
_PAUSE = 1.0
_LINE_SECONDS = 10.0
# The client's own retries of a NameNode that does not answer would last three minutes, and nobody would be told.
_SETTINGS = {
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.max.millis": "1000",
    "dfs.client.socket-timeout": "20000",
}

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Unavailable(RunError):
    """HDFS did not do what was asked within PATIENCE seconds, for a reason that passes."""


class _Passing(Exception):
    """An error that may be gone in a moment."""


_clients: dict[tuple[int, str], Client] = {}
"""By process and authority: a client that was opened before a fork hangs after it. None is ever closed: to drop the
parent's would hang too. Idle connections to DataNodes are hdfs-native's own and are inherited: a child's first read
may wait for the socket's time-out, after which it takes another."""


def client(authority: str) -> Client:
    """This process's client of the HDFS at `authority`. Raises OSError where no NameNode answers soon."""
    key = (os.getpid(), authority)
    if key not in _clients:
        try:
            opened = Client(f"hdfs://{authority}", _SETTINGS)
        except RuntimeError as error:
            raise OSError(f"hdfs://{authority}: {translated(error)}") from None
        _say_hello(authority, opened)
        _clients[key] = opened
    return _clients[key]


def _say_hello(authority: str, client: Client) -> None:
    """Raise OSError where no NameNode answers soon."""
    problem = ["the connection stands, but there is no answer"]

    def ask() -> None:
        try:
            repeat(f"hdfs://{authority}", lambda: client.get_file_info("/"), FIRST_CONTACT)
        except Unavailable as error:
            hint = " (nor is it a name service of HADOOP_CONF_DIR)" if "lookup" in str(error) else ""
            problem[:] = [f"{error.__cause__}{hint}"]
        except OSError:  # whatever it refuses, it answers
            problem.clear()
        else:
            problem.clear()

    # In a thread: the client itself waits for ever for a server that accepts and is silent.
    asking = threading.Thread(target=ask, name=f"first contact with {authority}", daemon=True)
    asking.start()
    asking.join(2 * FIRST_CONTACT)
    if problem:
        raise OSError(f"no NameNode answers at {authority}: {problem[0]}")


def repeat(place: str, operation: Callable[[], _T], patience: float | None = None) -> _T:
    """The operation's result, repeated while its errors may pass. Other errors are raised as OSErrors of one line.

    patience: seconds, PATIENCE where it is None; only that long a wait is worth lines in the log.
    """
    level = logging.WARNING if patience is None else logging.DEBUG
    patience = PATIENCE if patience is None else patience
    end, next_line = time.monotonic() + patience, 0.0
    while True:
        try:
            return operation()
        except Exception as error:  # hdfs-native has no class of its own for most
            known = translated(error)
            if not isinstance(known, _Passing):
                raise known from None
            now = time.monotonic()
            if now >= end:
                raise Unavailable(f"{place}: HDFS could not be used for {patience:.0f} s: {known}") from known
            if now >= next_line:
                _log.log(level, "%s: trying again: %s", place, known)
                next_line = now + _LINE_SECONDS
            time.sleep(_PAUSE)


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
_KNOWN_CLASSES: dict[str, type[OSError]] = {
    "AccessControlException": PermissionError,
    "ParentNotDirectoryException": NotADirectoryError,
}


def translated(error: Exception) -> Exception:
    """An error of hdfs-native as an OSError of one line, or as _Passing."""
    text = str(error)
    if isinstance(error, OSError):
        line = text.split("\n", maxsplit=1)[0]
        known = isinstance(error, FileNotFoundError | FileExistsError | IsADirectoryError | PermissionError)
        return type(error)(line) if known else _Passing(re.sub(r" \(os error \d+\)$", "", line))
    if not isinstance(error, RuntimeError):
        return error
    if match := _RPC.match(text):
        name = match[1].rpartition(".")[2]
        line = match[2].split("\\n", maxsplit=1)[0].replace('\\"', '"')
        if name in _PASSING_CLASSES or "could only be written to" in line:
            return _Passing(line)
        return _KNOWN_CLASSES.get(name, OSError)(line)
    match = _OTHER.match(text)
    line = (match[2] if match else text).split("\\n", maxsplit=1)[0].replace('\\"', '"')
    return _Passing(line) if match and match[1] in ("DataTransferError", "IOError") else OSError(line)
