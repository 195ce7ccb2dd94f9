"""How a process ends with the process that has started it."""

from __future__ import annotations

import ctypes
import signal


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends, even if this process is stopped.

    Linux only (prctl PR_SET_PDEATHSIG); a program that starts after its parent's end must compare getppid().
    """
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
