"""Where a node is within Spark, for people who look after it: its executor, and where the executor's log is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from sparksplit.spark.left import MARK

_CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_\d+_\d+")
_EXECUTOR = re.compile(r"(?:^|\0)--executor-id\0([^\0]+)")


def own_place() -> str:
    """Return `executor 3, /var/spark/app-1/3/stderr` for a process below one of Spark's executors; "" for any other
    process."""
    return place(_executor(), Path.cwd(), os.environ)


def place(executor: str | None, folder: Path, environment: Mapping[str, str]) -> str:
    """Return `executor 3, /var/spark/app-1/3/stderr`; "" if `executor` is None.

    executor: the executor's id.
    folder: the working folder of the executor's processes.
    environment: their environment variables.

    YARN removes the log from the host before anybody looks. On YARN, the place is the command that shows the log.
    """
    if executor is None:
        return ""
    container = environment.get("CONTAINER_ID", "")
    if known := _CONTAINER.fullmatch(container):
        return f"executor {executor}, yarn logs -applicationId application_{known[1]} -containerId {container}"
    if MARK in environment:  # of a local cluster that sparksplit has started, and removes with its logs
        return f"executor {executor}"
    if (folder / "stderr").is_file():  # a standalone worker's, or a local cluster's
        return f"executor {executor}, {folder / 'stderr'}"
    page = environment.get("SPARK_LOG_URL_STDERR")
    return f"executor {executor}, {page}" if page else f"executor {executor}"


def _executor() -> str | None:
    """Return the id that Spark gave to the JVM that started this process, at any depth."""
    number = os.getppid()
    try:
        while number > 1:
            process = Path("/proc", str(number))
            if executor := _EXECUTOR.search((process / "cmdline").read_bytes().decode(errors="replace")):
                return executor[1]
            # After the name, which may hold any character, come the state and the parent.
            number = int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, ValueError):
        return None  # not a Linux, or another user's process
    return None
