"""Which executors hold the nodes.

Nodes of one host have consecutive ranks, so that as little as possible of the nodes' traffic leaves a host. Hosts on
which nodes have failed repeatedly are left out.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparksplit.spark.executors import host_in

if TYPE_CHECKING:
    from pyspark import SparkContext

OFTEN = 2
"""Failures of nodes in one run after which their host is left out."""
LAG = 5.0
"""Seconds for which Spark's list of executors may lack some that its scheduler already has."""


@dataclass(frozen=True)
class Executor:
    """id, host: as Spark names them."""

    id: str
    host: str


def failing(failures: Mapping[str, int]) -> list[str]:
    """Return the hosts to leave out. failures: number of node failures, by host."""
    return sorted(host for host, count in failures.items() if count >= OFTEN)


def elsewhere(executors: Sequence[Executor], nodes: int, avoided: Collection[str]) -> list[Executor] | None:
    """Return one executor for each node, by rank, without the `avoided` hosts; None if there are too few executors.

    The nodes are spread over the hosts as evenly as the executors allow. Executors of one host follow one another.
    """
    turns: dict[str, int] = {}
    candidates = []
    for one in executors:
        if one.host not in avoided:
            turns[one.host] = turns.get(one.host, 0) + 1
            candidates.append((turns[one.host], one))
    if len(candidates) < nodes:
        return None
    chosen = [one for _, one in sorted(candidates, key=lambda each: each[0])[:nodes]]
    return sorted(chosen, key=lambda one: one.host)


def host_by_host(executors: Sequence[Executor], nodes: int) -> list[Executor] | None:
    """Return one executor for each node, by rank, with no host left out; None if there are too few executors.

    Also None if the placement does not matter: all executors are on one host, or each executor is on its own host.
    """
    hosts = {one.host for one in executors}
    return elsewhere(executors, nodes, ()) if 1 < len(hosts) < len(executors) else None


def executors_there(sc: SparkContext) -> list[Executor]:
    """Return the executors that Spark has. Wait a few seconds for executors that are missing in Spark's list."""
    spark, end = sc._jsc.sc(), time.monotonic() + LAG
    while True:
        known = spark.statusStore().executorList(True)
        every = (known.apply(place) for place in range(known.size()))
        executors = [Executor(one.id(), host_in(one.hostPort())) for one in every if one.id() != "driver"]
        if len(executors) >= spark.getExecutorIds().size() or time.monotonic() > end:
            return executors
        time.sleep(0.01)


def host_of(sc: SparkContext, group: str, partition: int) -> str | None:
    """Return the host on which Spark runs, or ran, a partition's task of the job group; None if Spark does not know."""
    tracker, store = sc.statusTracker(), sc._jsc.sc().statusStore()
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            tasks = store.taskList(stage, 0, 1 << 20)
            for place in range(tasks.size()):
                if tasks.apply(place).partitionId() == partition:
                    return str(tasks.apply(place).host())
    return None


def parallelize(sc: SparkContext, values: Sequence[int], executors: Sequence[Executor]) -> Any:
    """Return an RDD with one partition for each of `values`.

    Spark computes a partition on the executor at the same place in `executors`, if that is free within
    `spark.locality.wait`.
    """
    from pyspark import serializers
    from pyspark.rdd import RDD

    jvm, pickle = sc._jvm, serializers.CPickleSerializer()
    assert jvm is not None
    dumps: Any = pickle.dumps
    batched: Any = serializers.BatchedSerializer
    pairs = jvm.java.util.ArrayList()
    for value, executor in zip(values, executors, strict=True):
        places = jvm.java.util.ArrayList()
        places.add(f"executor_{executor.host}_{executor.id}")
        pairs.add(jvm.scala.Tuple2(dumps([value]), jvm.PythonUtils.toSeq(places)))
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    made = sc._jsc.sc().makeRDD(jvm.PythonUtils.toSeq(pairs), tag)
    return RDD(made.toJavaRDD(), sc, batched(pickle))
