"""The folders of fits whose user names none: they last as long as the program, because a DataFrame that `transform` has
returned reads the model when Spark computes it.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from hdfs_io import filesystem
from sparksplit.base.own_folders import own_folder, temporary_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = "sparksplit-ml-"
_ON_HDFS = ".sparksplit-ml"
_lock = threading.Lock()
_folders: dict[str, str] = {}
"""The program's folder by the place where it is: a home folder on HDFS, or "" on this machine."""


def folder_for(spark: SparkSession, work_dir: str | None, name: str) -> str:
    """Return a new path for a fit. The folder does not exist yet.

    work_dir: the user's folder; None: a folder of the program. That is in the user's home folder on HDFS if the
        session's default file system is HDFS. Otherwise it is a temporary folder of this machine.
    """
    parent = _program_folder(_home(spark)) if work_dir is None else filesystem.absolute(work_dir)
    return filesystem.join(parent, f"{name}-{secrets.token_hex(4)}")


def _home(spark: SparkSession) -> str:
    """Return the user's home folder on HDFS, or "" if HDFS is not the session's default file system."""
    hadoop = spark._jvm.org.apache.hadoop.fs.FileSystem.get(spark._jsc.hadoopConfiguration())  # type: ignore[union-attr]
    home = str(hadoop.getHomeDirectory().toString())
    return home if home.startswith("hdfs://") else ""


def _program_folder(home: str) -> str:
    with _lock:
        if home not in _folders:
            stack = ExitStack()
            if home:
                folder = filesystem.join(home, _ON_HDFS, secrets.token_hex(4))
                stack.callback(_remove, folder)
            else:
                folder = str(stack.enter_context(own_folder(temporary_folder(), _LOCAL)))
            atexit.register(_close, stack, os.getpid())
            _folders[home] = folder
        return _folders[home]


def _close(stack: ExitStack, process: int) -> None:
    if os.getpid() == process:  # a forked child leaves its parent's folder alone
        stack.close()


def _remove(folder: str) -> None:
    try:
        filesystem.remove(folder)
    except Exception as error:  # the program ends anyway
        logging.getLogger(__name__).warning("%s: could not be removed: %s", folder, error)
