"""Processes that this process starts: what they can import, and how they end with it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path


def python_path() -> str:
    """Return this process's import path, for PYTHONPATH. So a process finds --py-files archives and a checkout, too."""
    return os.pathsep.join(dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path))


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends, even if this process is stopped.

    Linux only (prctl PR_SET_PDEATHSIG); a program that starts after its parent's end must compare getppid().
    """
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
