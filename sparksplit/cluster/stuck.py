"""Executors that hold a task of a job that has ended: they do not answer, and would keep their slots."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

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
        tracker, end = sc.statusTracker(), time.monotonic() + PATIENCE
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
        stages = [stage for job in jobs for stage in job.stageIds]
        while any(info.numActiveTasks for stage in stages if (info := tracker.getStageInfo(stage))):
            if time.monotonic() > end:
                break
            time.sleep(POLL)
        else:
            return []
        found = sorted({holder for stage in stages for holder in _holders(sc, stage)})
        for executor in found:
            log.warning("executor %s does not answer; Spark is asked for another", executor)
            sc._jsc.sc().killAndReplaceExecutor(executor)
        return found
    except Exception as error:
        log.debug("Spark does not answer, so it cannot replace executors: %s", error)
        return []


def _holders(sc: SparkContext, stage: int) -> set[str]:
    """The executors that run tasks of `stage`, which was tried once."""
    tasks = sc._jsc.sc().statusStore().taskList(stage, 0, 1 << 20)
    found = (tasks.apply(place) for place in range(tasks.size()))
    return {str(task.executorId()) for task in found if task.status() == "RUNNING"}
