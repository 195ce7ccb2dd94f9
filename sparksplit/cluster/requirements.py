"""What Spark must be like before nodes are started: the right settings, and enough executors within a time limit."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparksplit.base.errors import NodeFailed, RunError, SparksplitError
from sparksplit.base.reasons import NOT_TAKEN, spark_reason
from sparksplit.base.requirements import need, raise_first, run_problems, slot_problems, why_few
from sparksplit.cluster import memory
from sparksplit.cluster.placing import host_in

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

REASON_SECONDS = {"yarn": 4.0, "other": 0.5}
"""How long Spark may take to learn why it has lost an executor, by its master."""
LATELY_SECONDS = 120.0
"""What Spark had lost longer ago than this, when a failure is explained, was not its cause. It is more than ending all
nodes takes."""


def check_settings(settings: dict[str, str], nodes: int, spare: int = 0) -> None:
    """Raise ConfigError for the first of Spark's settings that would break the run, with the key and what to set."""
    raise_first(run_problems(settings, nodes, spare))


def await_executors(sc: SparkContext, nodes: int, timeout: float, spare: int = 0) -> None:
    """Wait until `nodes + spare` executors have registered.

    Raises RunError after `timeout` seconds, with the numbers and the executors lost since Spark began, and at once
    where Spark's master has ended the application.
    """
    end, settings = time.monotonic() + timeout, dict(sc.getConf().getAll())
    while True:
        executors, slots = executors_of(sc), slots_of(sc)
        # The slots belong to these executors only if none came or went while they were counted.
        if executors >= nodes + spare and executors == executors_of(sc):
            cores = int(settings.get("spark.executor.cores", 0)) or None
            return raise_first(slot_problems(-(-slots // executors), cores))
        if sc._jsc.sc().isStopped():
            raise RunError(f"spark.master: {sc.master} {NOT_TAKEN}")
        if time.monotonic() > end:
            why = why_few(settings, executors)
            raise RunError(too_few(need(nodes, spare), executors, timeout, lost_executors(sc), why))
        time.sleep(0.1)


def await_some(sc: SparkContext, nodes: int, least: int, timeout: float, spare: int = 0) -> int:
    """How many of `nodes` nodes have executors, beyond `spare` ones: all, as soon as they have, or at least `least`
    after `timeout` seconds.

    Raises ConfigError where there can never be enough for all; RunError where there are fewer than `least`.
    """
    check_settings(dict(sc.getConf().getAll()), nodes, spare)
    end = time.monotonic() + timeout
    while (found := executors_of(sc) - spare) < nodes and time.monotonic() < end:
        time.sleep(0.1)
    if found < least:
        needed = f"min_nodes: {need(least, spare)}"
        why = why_few(dict(sc.getConf().getAll()), found + spare)
        raise RunError(too_few(needed, found + spare, timeout, lost_executors(sc), why))
    return min(found, nodes)


def too_few(needed: str, executors: int, timeout: float, lost: Sequence[str], why: str) -> str:
    """What to say about too few executors. lost: as `lost_executors` returns them. why: what to look at otherwise."""
    if lost:
        return (
            f"nodes: {lost[-1]}, and no other came within {timeout:g} s; {needed}, and Spark has {executors}: bring its"
            " host back, or add another"
        )
    return f"nodes: {needed}, and Spark has {executors} after {timeout:g} s; {why}"


def explained(error: SparksplitError, spark: SparkSession, since: float) -> SparksplitError:
    """`error` with Spark's own reason for a lost executor, where it is about one and Spark knows it.

    since: when the executor was still there, in seconds since 1970.
    """
    if not (isinstance(error, NodeFailed) and error.executor_lost):
        return error
    try:
        sc = spark.sparkContext
        since = max(since, time.time() - LATELY_SECONDS)
        reason = why_lost(sc, since, REASON_SECONDS["yarn" if sc.master == "yarn" else "other"])
    except Exception as other:  # Spark itself may be ending
        log.debug("Spark does not say why: %s", other)
        return error
    if reason is None:
        return error
    text, for_memory = memory.executor_text(reason)
    what = str(error).replace(reason, text) if reason in str(error) else f"{error} ({text})"
    return NodeFailed(what, error.rank, host=error.host, may_pass=error.may_pass, memory=for_memory, executor_lost=True)


def why_lost(sc: SparkContext, since: float, patience: float) -> str | None:
    """The executor that Spark has lost last, and its reason, as `lost_executors` has it; None where it does not know
    one within `patience` seconds. since: seconds since 1970."""
    end = time.monotonic() + patience
    while True:
        found = lost_executors(sc, since)
        if (found and " was lost (" in found[-1]) or time.monotonic() > end:
            return found[-1] if found else None
        time.sleep(0.1)


def lost_executors(sc: SparkContext, since: float = 0.0) -> list[str]:
    """The executors that Spark has lost, in the order in which they went: `executor 1 on HOST was lost (REASON) [LOG]`.

    since: seconds since 1970.
    """
    found = []
    for place in range((executors := sc._jsc.sc().statusStore().executorList(False)).size()):
        one = executors.apply(place)
        if not one.isActive() and one.removeTime().isDefined():
            reason = spark_reason(one.removeReason().get()) if one.removeReason().isDefined() else ""
            host, log = host_in(one.hostPort()), one.executorLogs().get("stderr")
            page = f" [{log.get()}]" if log.isDefined() else ""
            text = f"executor {one.id()} on {host} was lost{f' ({reason})' if reason else ''}{page}"
            found.append((one.removeTime().get().getTime(), text))
    return [text for when, text in sorted(found) if when >= 1000 * since]


def executors_of(sc: SparkContext) -> int:
    """Executors that have registered."""
    return int(sc._jsc.sc().getExecutorIds().size())


def slots_of(sc: SparkContext) -> int:
    """Task slots of all executors, as Spark's barrier mode counts them."""
    context = sc._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
