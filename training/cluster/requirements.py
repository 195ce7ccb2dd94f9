"""What Spark must be like before nodes are started: its settings, and enough executors within a time limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sparksplit.errors import RunError
from sparksplit.requirements import need, raise_first, run_problems, slot_problems

if TYPE_CHECKING:
    from pyspark import SparkContext


def check_settings(settings: dict[str, str], nodes: int, spare: int = 0) -> None:
    """ConfigError for the first of Spark's settings that would break the run, with the key and what to set."""
    raise_first(run_problems(settings, nodes, spare))


def await_executors(sc: SparkContext, nodes: int, timeout: float, spare: int = 0) -> None:
    """Wait until `nodes + spare` executors have registered; RunError after `timeout` seconds, naming the numbers."""
    end = time.monotonic() + timeout
    while True:
        executors, slots = executors_of(sc), slots_of(sc)
        # The slots are of these executors only where none came or went while they were counted.
        if executors >= nodes + spare and executors == executors_of(sc):
            return raise_first(slot_problems(-(-slots // executors)))
        if time.monotonic() > end:
            raise RunError(
                f"nodes: {need(nodes, spare)}, and Spark has {executors} after {timeout:g} s; "
                "is the cluster busy, or spark.executor.instances or spark.cores.max too low?"
            )
        time.sleep(0.1)


def executors_of(sc: SparkContext) -> int:
    """Executors that have registered."""
    return int(sc._jsc.sc().getExecutorIds().size())


def slots_of(sc: SparkContext) -> int:
    """Task slots of all executors, as Spark's barrier mode counts them."""
    context = sc._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
