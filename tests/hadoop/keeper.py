"""A process that ends with whoever started it: `keeper.py FOLDER [COMMAND ...]`.

Standard input is a pipe from the starter, whose end, which no way of dying avoids, is the sign to stop.
With a COMMAND: runs it until then, and exits with its status. Everything that COMMAND started at any depth is killed
when it ends: orphans become children of the keeper, so that containers that outlive their NodeManager are found.
Without: removes FOLDER then, when no command that uses it is left.

Runs by itself: imports nothing of this repository.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import psutil

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def main(folder: str, *command: str) -> int:
    """Hold `folder` while `command` runs, or remove it; the exit status."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    if command:
        fcntl.flock(held, fcntl.LOCK_SH)
        return _run(command)
    os.read(0, 1)
    fcntl.flock(held, fcntl.LOCK_EX)
    shutil.rmtree(folder)
    return 0


def _run(command: tuple[str, ...]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        # Should the keeper itself be killed, the command still ends.
        preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # noqa: PLW1509: no threads yet
    )
    threading.Thread(target=_end_with_input, args=(child.pid,), daemon=True).start()
    ended, status = os.wait()
    while ended != child.pid:
        ended, status = os.wait()
    with suppress(ChildProcessError):
        while True:
            # Killing children makes children of theirs, until there are none.
            for orphan in psutil.Process().children():
                with suppress(psutil.NoSuchProcess):
                    orphan.kill()
            os.wait()
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _end_with_input(pid: int) -> None:
    os.read(0, 1)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
