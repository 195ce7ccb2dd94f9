"""The facts about hosts and clusters that times depend on."""

from __future__ import annotations

import os
import platform
import re
import socket
from collections import Counter
from collections.abc import Sequence

from sparksplit.comparison.content import Machine


def machine(gpus: list[str]) -> Machine:
    """Return the facts about the driver's host. gpus: the GPUs of a node."""
    return Machine(
        cores=os.cpu_count(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        processor=_processor(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        gpus=gpus,
    )


def kind_of_host(gpus: Sequence[str]) -> str:
    """Return the facts that this host's speed depends on, such as `AMD EPYC, 2 cores, 1 x NVIDIA L4`. gpus: the names
    of its GPUs."""
    counted = [f"{count} x {name}" for name, count in sorted(Counter(gpus).items())]
    return ", ".join([_processor(), f"{os.cpu_count()} cores", *counted])


def cores_of(kind: str) -> int | None:
    """Return the cores of a kind of host; None if unknown, or if the host has GPUs, which then set its speed."""
    match = re.search(r", (\d+) cores$", kind)
    return int(match[1]) if match else None


def cluster_name(master: str, file_system: str = "") -> str:
    """Return the cluster's name: Spark's master, without the number of executors. A local master's name includes the
    driver's host.

    file_system: the default file system of a YARN cluster. It is added to `yarn`, which is the master of every YARN
    cluster.
    """
    kind = master.partition("[")[0]
    if kind == "yarn" and file_system:
        return f"{kind} with {file_system}"
    return f"{kind} on {socket.gethostname()}" if kind in ("local", "local-cluster") else master


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
