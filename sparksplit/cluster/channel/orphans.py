"""How a process of a run ends when its parent or its driver has gone."""

from __future__ import annotations

import ctypes
import signal

ORPHANED = 113
"""Exit status of a node that ended itself because the driver or its launcher was gone."""


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends, even if this process is stopped.

    Linux only (prctl PR_SET_PDEATHSIG); a program that starts after its parent's end must compare getppid().
    """
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
