"""What Spark keeps of the stages that have run: asked of its own store, which is there with its pages switched off.

The store is what Spark's pages and its monitoring API show, on any kind of cluster; it is asked for the API's JSON, so
that a stage costs one call however many tasks it has. It forgets the oldest stages past spark.ui.retainedStages (1,000)
and their tasks past spark.ui.retainedTasks (100,000).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from sparksplit.base.errors import RunError
from sparksplit.diagnosis.preprocess.stages import Stage, stage_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WAIT_MILLISECONDS = 30_000
_TASKS = 1_000_000


class Metrics:
    """Spark's store of a session; see `stages`."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm, self._context = jvm, spark.sparkContext._jsc.sc()
        self._store: Any = self._context.statusStore()
        self._mapper: Any = jvm.org.apache.spark.status.api.v1.JacksonMessageWriter().mapper()

    def next_stage(self) -> int:
        """The number of a stage that has not begun yet: higher than those of all that have."""
        return max((stage["stageId"] for stage in self._stages()), default=-1) + 1

    def stages(self, first: int) -> list[Stage]:
        """The stages that have run, from the number `first` on, in the order of their numbers.

        Raises RunError where Spark has forgotten some.
        """
        known = [stage for stage in self._stages() if stage["stageId"] >= first]
        found = []
        for stage in sorted(known, key=lambda stage: (stage["stageId"], stage["attemptId"])):
            if not stage.get("submissionTime"):  # it was skipped
                continue
            tasks = self._json(self._store.taskList(stage["stageId"], stage["attemptId"], _TASKS))
            if len(tasks) < stage["numCompleteTasks"]:
                raise RunError(
                    f"Spark has forgotten {stage['numCompleteTasks'] - len(tasks)} tasks of stage {stage['stageId']}: "
                    "set spark.ui.retainedTasks higher"
                )
            if (one := stage_of(stage, tasks)) is not None:
                found.append(one)
        if known and min(stage["stageId"] for stage in known) > first:
            raise RunError("Spark has forgotten the first stages: set spark.ui.retainedStages higher")
        return found

    def slots(self) -> int:
        """How many tasks Spark can run at the same time."""
        found = self._json(self._store.executorList(True))
        own = [one for one in found if one["id"] != "driver" or len(found) == 1]
        return max(1, sum(int(one["maxTasks"]) for one in own))

    def _stages(self) -> list[dict[str, Any]]:
        # What has happened arrives in the store a little later.
        try:
            self._context.listenerBus().waitUntilEmpty(_WAIT_MILLISECONDS)
        except Exception as error:
            logging.getLogger(__name__).debug("Spark's events are still on their way: %s", error)
        every, quantiles = self._jvm.java.util.ArrayList(), getattr(self._store, "stageList$default$4")()
        return self._json(self._store.stageList(every, False, False, quantiles, every))

    def _json(self, value: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._mapper.writeValueAsString(value))
        return found
