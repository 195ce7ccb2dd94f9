"""Files and processes of a command's local cluster on this machine. None stays behind, however the command ended.

The cluster's folder is locked while the command lives. The environment of each of its processes names the folder.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from sparksplit.base.errors import Passing
from sparksplit.base.own_folders import own_folder, sweep, temporary_folder

MARK = "SPARKSPLIT_SESSION"
"""Environment variable of every process of a local cluster. It holds the cluster's folder and identifies the processes.
"""
_PREFIX = "sparksplit-session-"
_KILL_SECONDS = 10.0  # a process that waits for a hanging disk ends only when the disk answers


def session_folder() -> AbstractContextManager[Path]:
    """Return a temporary folder for a local cluster. The folder is removed at the end."""
    return own_folder(temporary_folder(), _PREFIX, kill_all)


def remove_left() -> None:
    """Remove the remains of killed commands: folders, and processes that survived because they were stopped."""
    with suppress(Passing):  # this command may not need temporary files
        sweep(temporary_folder(), _PREFIX, kill_all)


def kill_all(folder: Path) -> None:
    """Kill the processes of the cluster in `folder`. Return when none is left, or none that can be killed."""
    end = time.monotonic() + _KILL_SECONDS
    while (pids := processes(str(folder))) and time.monotonic() < end:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def processes(mark: str) -> list[int]:
    """Return the ids of the processes whose environment has `mark`, except this process. Empty without /proc."""
    wanted, ids = f"{MARK}={mark}\0".encode(), []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        # Processes may end meanwhile, and other users' processes cannot be read.
        with suppress(OSError):
            if wanted in entry.read_bytes() and entry.parent.name != str(os.getpid()):
                ids.append(int(entry.parent.name))
    return ids
