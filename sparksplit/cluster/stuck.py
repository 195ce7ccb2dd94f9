"""Executors that hold a task of a job that has ended: they do not answer, and would keep their slots."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from sparksplit.spark.jvm import limited

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.status import SparkStageInfo

PATIENCE = 6.0
"""Seconds that the tasks of a cancelled job may take to end; Spark kills their Python after two."""
POLL = 0.05

log = logging.getLogger(__name__)


def replace_stuck(sc: SparkContext, group: str) -> list[str]:
    """Have Spark replace every executor that still holds a task of the ended jobs `group` when PATIENCE is over; which.

    It is stopped, say, or its host is. Spark notices that after two minutes, and until then would wait for the executor
    to take the tasks of the next attempt.
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
            found = sorted({holder for info in _stages(sc, group) for _, holder in _running(sc, info)})
        return [executor for executor in found if replace(sc, executor)]
    except Exception as error:
        log.debug("Spark does not answer, so it cannot replace executors: %s", error)
        return []


def replace(sc: SparkContext, executor: str) -> bool:
    """Have Spark put another executor in the place of one that does not answer, and try its tasks again, at once;
    whether it was asked.

    Of itself Spark would wait with the tasks until the old one's process is known to have ended; one that is stopped is
    killed only ten seconds after it was asked to end.
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
    """The executor of each partition of the jobs `group` that Spark computes just now; {} where it does not tell."""
    try:
        with limited(sc._gateway):
            return {partition: executor for info in _stages(sc, group) for partition, executor in _running(sc, info)}
    except Exception as error:
        log.debug("Spark does not say where its tasks are: %s", error)
        return {}


def tasks_failed(sc: SparkContext, group: str) -> bool:
    """Whether any task of the jobs `group` has failed; False where Spark does not tell."""
    try:
        with limited(sc._gateway):
            return any(info.numFailedTasks for info in _stages(sc, group))
    except Exception as error:
        log.debug("Spark does not say whether tasks have failed: %s", error)
        return False


def ended_without_failures(sc: SparkContext, group: str) -> bool:
    """Whether the jobs `group` have ended without success, though none of their tasks failed: that is how a job ends
    which is cancelled. Spark fails one by itself only after its tasks have failed, or where it ends as a whole.

    Waits until Spark's pages know of the end of the jobs, for they are told after the caller: of the tasks first.
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


def _stages(sc: SparkContext, group: str) -> list[SparkStageInfo]:
    tracker = sc.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    return [info for job in jobs for stage in job.stageIds if (info := tracker.getStageInfo(stage))]


def _running(sc: SparkContext, stage: SparkStageInfo) -> list[tuple[int, str]]:
    """(partition, executor) of the running tasks of a stage, of its last attempt."""
    tasks = _tasks(sc, stage)
    found = (tasks.apply(place) for place in range(tasks.size()))
    return [(int(task.partitionId()), str(task.executorId())) for task in found]


def _tasks(sc: SparkContext, stage: SparkStageInfo) -> Any:
    """Spark's list of these tasks. The stage's own number of them may be as old as the last beat of an executor."""
    jvm = sc._jvm
    assert jvm is not None
    api = jvm.org.apache.spark.status.api.v1
    statuses = jvm.java.util.ArrayList()
    statuses.add(api.TaskStatus.RUNNING)
    store = sc._jsc.sc().statusStore()
    return store.taskList(stage.stageId, stage.currentAttemptId, 0, 1 << 20, api.TaskSorting.ID, statuses)
