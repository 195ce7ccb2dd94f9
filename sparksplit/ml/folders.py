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
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from sparksplit.base.errors import ConfigError
from sparksplit.base.own_folders import own_folder, temporary_folder

if TYPE_CHECKING:
    from pyspark import SparkContext
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

    Raise ConfigError without `work_dir` if executors may be on hosts that have no such temporary folder.
    """
    if work_dir is None:
        home = _home(spark)
        check_reach(str(spark.sparkContext.master), home)
        parent = _program_folder(home)
    else:
        parent = qualified(spark.sparkContext, work_dir)
    return filesystem.join(parent, f"{name}-{secrets.token_hex(4)}")


def check_reach(master: str, home: str) -> None:
    """Raise ConfigError if executors may be on other hosts, and there is no home folder on HDFS that all of them reach.

    master: of Spark. home: the user's home folder on HDFS, or "".
    """
    if not home and not master.startswith("local"):
        raise ConfigError(
            f"workDir: must be set with the master {master}, to a folder that the executors on all hosts can write to, "
            "because Spark's default file system is not HDFS"
        )


def qualified(sc: SparkContext, path: str) -> str:
    """Return `path`, which is relative to Spark's default file system, in the form that sparksplit reads."""
    jvm: Any = sc._jvm
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    whole = hadoop_path.getFileSystem(sc._jsc.hadoopConfiguration()).makeQualified(hadoop_path)
    # Hadoop encodes nothing in the text of a path, but a `%` in a file URI begins a code.
    local = whole.toUri().getScheme() == "file"
    return filesystem.absolute(str(whole.toUri().getPath() if local else whole.toString()))


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
