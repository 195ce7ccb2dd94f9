"""Executors that still hold a task of an ended job. They do not answer, and would keep their slots."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from sparksplit.spark.jvm import limited

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.status import SparkStageInfo

PATIENCE = 6.0
"""Seconds that the tasks of a cancelled job may take to end. Spark kills their Python after two seconds."""
POLL = 0.05

log = logging.getLogger(__name__)


def replace_stuck(sc: SparkContext, group: str) -> list[str]:
    """Have Spark replace each executor that still holds a task of the ended jobs `group` after PATIENCE seconds. Return
    these executors.

    For example, the executor or its host is stopped. Spark notices this only after two minutes, and would wait until
    then for the executor to take tasks of the next attempt.
    """
    try:
        with limited(sc._gateway):
            end = time.monotonic() + PATIENCE
            while any(_tasks(sc, info).size() for info in _stages(sc, group)):
                if time.monotonic() > end:
                    break
                time.sleep(POLL)
            else:
                return []
            stuck = sorted({holder for info in _stages(sc, group) for _, holder in _running(sc, info)})
        return [executor for executor in stuck if replace(sc, executor)]
    except Exception as error:
        log.debug("Spark does not answer, so it cannot replace executors: %s", error)
        return []


def replace(sc: SparkContext, executor: str) -> bool:
    """Have Spark replace an executor that does not answer, and retry its tasks at once. Return whether Spark was asked.

    By itself, Spark would retry the tasks only after the end of the executor's process. A stopped process is killed
    only ten seconds after it was asked to end.
    """
    try:
        with limited(sc._gateway):
            spark, jvm = sc._jsc.sc(), sc._jvm
            assert jvm is not None
            log.warning("executor %s does not answer; Spark is asked for another", executor)
            spark.killAndReplaceExecutor(executor)
            lost = jvm.org.apache.spark.scheduler.ExecutorProcessLost
            reason = lost("it did not answer", jvm.scala.Option.empty(), True)
            spark.schedulerBackend().removeExecutor(executor, reason)
        return True
    except Exception as error:
        log.debug("Spark does not answer, so it cannot replace an executor: %s", error)
        return False


def holders(sc: SparkContext, group: str) -> dict[int, str]:
    """Return the executor of each partition of the jobs `group` that Spark computes now.

    Return {} if Spark does not answer.
    """
    try:
        with limited(sc._gateway):
            return {partition: executor for info in _stages(sc, group) for partition, executor in _running(sc, info)}
    except Exception as error:
        log.debug("Spark does not say where its tasks are: %s", error)
        return {}


def tasks_failed(sc: SparkContext, group: str) -> bool:
    """Return whether any task of the jobs `group` has failed; False if Spark does not answer."""
    try:
        with limited(sc._gateway):
            return any(info.numFailedTasks for info in _stages(sc, group))
    except Exception as error:
        log.debug("Spark does not say whether tasks have failed: %s", error)
        return False


def ended_without_failures(sc: SparkContext, group: str) -> bool:
    """Return whether the jobs `group` have ended without success, although none of their tasks failed: a cancelled job.

    By itself, Spark fails a job only after its tasks have failed, or when Spark as a whole ends. The function waits
    until Spark's pages show the end of the jobs, because they are updated after the caller is told, first for the
    tasks.
    """
    with limited(sc._gateway):
        tracker, end = sc.statusTracker(), time.monotonic() + PATIENCE
        while True:
            jobs = list(filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))))
            if jobs and all(job.status == "FAILED" for job in jobs):
                return not (sc._jsc.sc().isStopped() or any(info.numFailedTasks for info in _stages(sc, group)))
            if time.monotonic() > end:
                return False
            time.sleep(POLL)


def has_stopped(sc: SparkContext) -> bool:
    """Return whether Spark as a whole has stopped, so that nothing can start again.

    For example, spark-submit got a signal, somebody killed the application, or its master was lost.
    """
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    try:
        with limited(sc._gateway):
            return bool(sc._jsc.sc().isStopped())
    except (OSError, Py4JNetworkError) as error:
        log.debug("Spark's JVM has ended: %s", error)
        return True
    except Exception as error:
        log.debug("Spark does not say whether it has stopped: %s", error)
        return False


def _stages(sc: SparkContext, group: str) -> list[SparkStageInfo]:
    tracker = sc.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    return [info for job in jobs for stage in job.stageIds if (info := tracker.getStageInfo(stage))]


def _running(sc: SparkContext, stage: SparkStageInfo) -> list[tuple[int, str]]:
    """Return (partition, executor) of the running tasks in the last attempt of a stage."""
    tasks = _tasks(sc, stage)
    running = (tasks.apply(place) for place in range(tasks.size()))
    return [(int(task.partitionId()), str(task.executorId())) for task in running]


def _tasks(sc: SparkContext, stage: SparkStageInfo) -> Any:
    """Return Spark's list of the running tasks of a stage. The stage's own task count may be as old as an executor's
    last heartbeat."""
    jvm = sc._jvm
    assert jvm is not None
    api = jvm.org.apache.spark.status.api.v1
    statuses = jvm.java.util.ArrayList()
    statuses.add(api.TaskStatus.RUNNING)
    store = sc._jsc.sc().statusStore()
    return store.taskList(stage.stageId, stage.currentAttemptId, 0, 1 << 20, api.TaskSorting.ID, statuses)
