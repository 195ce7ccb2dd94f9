"""What Spark must be like before nodes are started, checked with the key and the value to set."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from sparksplit.errors import ConfigError, RunError

if TYPE_CHECKING:
    from pyspark import SparkContext

_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*]")
YARN_EXECUTORS = 2
"""Spark's default of spark.executor.instances on YARN."""


def check_settings(settings: dict[str, str], nodes: int, spare: int = 0) -> None:
    """Check what Spark's settings alone can tell; ConfigError names the key and what to set.

    settings: Spark's configuration, `spark.master` included. spare: executors needed beyond the nodes'.
    """
    master = settings.get("spark.master", "")
    if master == "local" or master.startswith("local["):
        raise ConfigError(
            f"spark.master: {master} runs everything in one process, and each node needs an executor of its own; "
            f"set local-cluster[{nodes},1,1024], a cluster's address, or none"
        )
    for key, why in (
        ("spark.dynamicAllocation.enabled", "a node's executor must stay while the run lasts"),
        ("spark.speculation", "a second copy of a node's task would start the node twice"),
    ):
        if settings.get(key, "false").lower() == "true":
            raise ConfigError(f"{key}: must be false (is true), since {why}")
    local = _LOCAL_CLUSTER.fullmatch(master)
    cores = settings.get("spark.executor.cores") or (local[2] if local else "1" if master == "yarn" else None)
    if cores is not None:
        _check_slots(int(cores) // int(settings.get("spark.task.cpus", "1")), int(cores))
    most = local[1] if local else settings.get("spark.executor.instances")
    if most is None and master == "yarn":
        most = str(YARN_EXECUTORS)
    needed = nodes + spare
    if most is not None and int(most) < needed:
        key = "spark.master" if local else "spark.executor.instances"
        wanted = f"local-cluster[{needed},{local[2]},{local[3]}]" if local else str(needed)
        raise ConfigError(f"nodes: {_need(nodes, spare)} and there are {most}; set fewer nodes, or {key} to {wanted}")


def _need(nodes: int, spare: int) -> str:
    feeding = f" ({spare} to feed them)" if spare else ""
    return f"{nodes} nodes need {nodes + spare} executors{feeding}"


def await_executors(sc: SparkContext, nodes: int, timeout: float, spare: int = 0) -> None:
    """Wait until `nodes + spare` executors have registered; RunError after `timeout` seconds, naming the numbers."""
    end = time.monotonic() + timeout
    while True:
        executors, slots = _executors(sc), _slots(sc)
        # The slots are of these executors only where none came or went while they were counted.
        if executors >= nodes + spare and executors == _executors(sc):
            return _check_slots(-(-slots // executors))
        if time.monotonic() > end:
            raise RunError(
                f"nodes: {_need(nodes, spare)}, and Spark has {executors} after {timeout:g} s; "
                "is the cluster busy, or spark.executor.instances or spark.cores.max too low?"
            )
        time.sleep(0.1)


def _check_slots(slots: int, cores: int | None = None) -> None:
    """One node per executor: with two task slots, two nodes could land on one executor and share its GPU."""
    if slots == 1:
        return
    cores = slots if cores is None else cores
    raise ConfigError(
        f"spark.task.cpus: an executor must have one task slot (has {slots}); "
        f"set it to {cores}, the value of spark.executor.cores"
    )


def _executors(sc: SparkContext) -> int:
    return int(sc._jsc.sc().getExecutorIds().size())


def _slots(sc: SparkContext) -> int:
    """Task slots of all executors, as Spark's barrier mode counts them."""
    context = sc._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
