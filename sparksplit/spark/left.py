"""What a command's local cluster has on this machine, so that nothing of it stays behind, however the command ended.

Its folder is locked while the command lives, and names it in the environment of each of its processes.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from sparksplit.base.own_folders import own_folder, sweep

MARK = "SPARKSPLIT_SESSION"
"""In the environment of every process of a local cluster: its folder, by which they are found again."""
_PREFIX = "sparksplit-session-"
_KILL_SECONDS = 10.0  # a process that waits for a disk that is away does not end before that answers


def session_folder() -> AbstractContextManager[Path]:
    """A temporary folder for a local cluster, removed at the end."""
    return own_folder(Path(tempfile.gettempdir()), _PREFIX, kill_all)


def remove_left() -> None:
    """Remove what killed commands have left: folders, and processes that have not ended with them, being stopped."""
    sweep(Path(tempfile.gettempdir()), _PREFIX, kill_all)


def kill_all(folder: Path) -> None:
    """Kill the processes of the cluster in `folder`; returns when there are none, or none that can be killed."""
    end = time.monotonic() + _KILL_SECONDS
    while (pids := processes(str(folder))) and time.monotonic() < end:
        for pid in pids:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def processes(mark: str) -> list[int]:
    """Those that were started with `mark` in their environment, but this one; none where there is no /proc."""
    wanted, found = f"{MARK}={mark}\0".encode(), []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        # Processes may end while we look at them, and other users' cannot be read.
        with suppress(OSError):
            if wanted in entry.read_bytes() and entry.parent.name != str(os.getpid()):
                found.append(int(entry.parent.name))
    return found
