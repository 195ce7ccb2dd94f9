"""What must be there before nodes start: Spark's right settings, file descriptors, and enough executors in time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sparksplit.base import descriptors
from sparksplit.base.errors import ConfigError, NodeFailed, SparksplitError
from sparksplit.base.progress import Lines
from sparksplit.cluster import memory
from sparksplit.spark import executors
from sparksplit.spark.jvm import limited
from sparksplit.spark.settings.requirements import Problem, need, raise_first, run_problems, slot_problems
from sparksplit.spark.waiting import Patience

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

REASON_SECONDS = {"yarn": 20.0, "other": 0.5}
"""Seconds that Spark may take to learn why it has lost an executor, by master."""
CONNECTIONS = 4
"""Connections of each node to the driver: the node, its launcher, and two that are not authenticated yet."""
OWN_DESCRIPTORS = 512
"""File descriptors of the driver itself: its files, Spark's, and those of other runs."""


def check_settings(settings: dict[str, str], nodes: int, spare: int = 0) -> None:
    """Raise SettingError for the first of Spark's settings that would break the run, with the key and what to set."""
    raise_first(run_problems(settings, nodes, spare))


def check_descriptors(nodes: int) -> None:
    """Ask the system for enough file descriptors for `nodes` nodes. Raise ConfigError if it refuses."""
    needed = CONNECTIONS * nodes + OWN_DESCRIPTORS
    if (allowed := descriptors.ask(needed)) < needed:
        raise ConfigError(
            f"nodes: {nodes} nodes need {needed} file descriptors in the driver, but its hard limit is {allowed}; "
            "raise the limit (ulimit -Hn, or LimitNOFILE of the service)"
        )


def await_executors(
    sc: SparkContext,
    nodes: int,
    patience: Patience,
    spare: int = 0,
    check: Callable[[], None] = lambda: None,
    beside: Callable[[], int] = lambda: 0,
) -> float:
    """Wait until `nodes + spare` executors have registered, each with one task slot. Return the seconds since all
    executors were granted.

    check, beside: as for `executors.await_executors`.

    Raise NoExecutors like `executors.await_executors`, and SettingError if executors have several slots.
    """
    needed, settings = nodes + spare, dict(sc.getConf().getAll())
    while True:
        granted = executors.await_executors(
            sc, needed, Problem("nodes", need(nodes, spare)), patience, check=check, beside=beside
        )
        there, slots = executors.executors_of(sc), executors.slots_of(sc)
        # The slots belong to these executors only if none came or went while they were counted.
        if there - beside() >= needed and there == executors.executors_of(sc):
            cores = int(settings.get("spark.executor.cores", 0)) or None
            raise_first(slot_problems(-(-slots // there), cores))
            return granted


def await_some(
    sc: SparkContext,
    nodes: int,
    least: int,
    patience: Patience,
    spare: int = 0,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Wait for executors, and return how many of `nodes` nodes have one, not counting `spare` executors.

    check: called meanwhile. An error of `check` ends the wait.

    Return when all nodes have an executor. After `patience.start` seconds, return when at least `least` nodes have one.

    Raise SettingError if there can never be enough executors for all nodes. Raise NoExecutors like
    `executors.await_executors` if even `least` nodes do not get executors.
    """
    check_settings(dict(sc.getConf().getAll()), nodes, spare)
    begin, lines, since = time.monotonic(), Lines(), time.time() - executors.LATELY_SECONDS
    while (ready := executors.executors_of(sc) - spare) < nodes:
        check()
        if (passed := time.monotonic() - begin) >= patience.start:
            break
        text = (
            f"waiting for executors: {max(0, ready)} of {nodes} nodes have one, {passed:.0f} of {patience.start:g} s"
            f" (start_timeout); after that, {least} are enough (min_nodes)"
        )
        lines.say(text)
        time.sleep(0.1)
    if ready < least:
        executors.await_executors(sc, least + spare, Problem("min_nodes", need(least, spare)), patience, since, check)
        ready = executors.executors_of(sc) - spare
    return min(ready, nodes)


def explained(error: SparksplitError, spark: SparkSession, since: float) -> SparksplitError:
    """Return `error`, with Spark's reason if the error is about a lost executor and Spark knows the reason.

    since: when the executor was still there, in seconds since 1970.
    """
    if not (isinstance(error, NodeFailed) and error.executor_lost):
        return error
    try:
        sc = spark.sparkContext
        since = max(since, time.time() - executors.LATELY_SECONDS)
        reason = why_lost(sc, since, REASON_SECONDS["yarn" if sc.master == "yarn" else "other"])
    except Exception as other:  # Spark itself may be ending
        log.debug("Spark does not say why: %s", other)
        return error
    if reason is None:
        return error
    text, for_memory = memory.executor_text(reason)
    what = str(error).replace(reason, text) if reason in str(error) else f"{error} ({text})"
    rank, host, may_pass = error.rank, error.host, error.may_pass
    found = NodeFailed(what, rank, host=host, may_pass=may_pass, memory=for_memory, executor_lost=True)
    found.executor_host = error.executor_host
    return found


def why_lost(sc: SparkContext, since: float, patience: float) -> str | None:
    """Return the executor that Spark lost last, with the reason, as `lost_executors` gives it. since: seconds since
    1970.

    None if Spark knows no lost executor within `patience` seconds. Raise RunError if the JVM stands still.
    """
    end = time.monotonic() + patience
    with limited(sc._gateway):
        while True:
            lost = executors.lost_executors(sc, since)
            if (lost and lost[-1].reason) or time.monotonic() > end:
                return str(lost[-1]) if lost else None
            time.sleep(0.1)
