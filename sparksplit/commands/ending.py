"""The end of a command's own process, with the command's exit status."""

from __future__ import annotations

import os
import sys
import threading
from typing import NoReturn

from sparksplit.base.shown import ERR, OUT

_NAMES = ("HDFS", "lease ", "mlflow")
"""Beginnings of the names of the threads that wait for HDFS (hdfs_io/hdfs_client.py, hdfs_io/lease.py), or for MLflow's
server (sparksplit/training/tracking/tracker.py)."""


def end(status: int) -> NoReturn:
    """End this process with the exit status `status`. For programs only, never for functions that a notebook calls.

    A thread that still waits for HDFS is inside native code, which Python's orderly end aborts (exit status 134, core
    dump). A thread that still waits for MLflow's server may upload files with threads of MLflow's own, and Python's
    orderly end waits for these without a limit. So then the process ends at once.
    """
    if any(thread.daemon and thread.name.startswith(_NAMES) for thread in threading.enumerate()):
        OUT.flush()
        ERR.flush()
        os._exit(status)
    sys.exit(status)
