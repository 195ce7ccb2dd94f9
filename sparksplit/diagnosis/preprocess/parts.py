"""The parts of a preparation, from the stages that Spark ran for it: pure arithmetic. The parts' seconds add up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace
from statistics import fmean

from sparksplit.diagnosis.preprocess.preprocess_record import Part
from sparksplit.diagnosis.preprocess.stages import OTHER, Stage, Task
from sparksplit.spark.job_names import PARTS

ORDER = [*PARTS, OTHER, "driver", "publish"]
DRIVERS = ("open", "driver", "publish")
"""The parts whose time does not depend on the rows."""


@dataclass(frozen=True)
class Loss:
    """Seconds that a stage took beyond its tasks' work, shared evenly by all slots, by reason."""

    skew: float = 0.0
    """Slots waited for a task with many rows."""
    slow: float = 0.0
    """A task took longer than its rows account for."""
    few: float = 0.0
    """Tasks are fewer than the slots, or the last round of tasks does not fill the slots."""
    large: float = 1.0
    """The rows of the slowest task, divided by the mean of the stage's tasks."""

    @property
    def seconds(self) -> float:
        """All seconds lost."""
        return self.skew + self.slow + self.few


def loss(stage: Stage, slots: int, kept: dict[int, int]) -> Loss:
    """Return the seconds that a stage lost, by cause. slots: tasks that run at one time. kept: see `kept_bytes`.

    Lost are the seconds of the stage above (sum of its task times) / slots. They are charged to three causes, one after
    another. skew: the slowest task has more rows than others. few: slots were without a task, because there are fewer
    tasks than slots, or because of the tasks' order and sizes. slow: all that is left.
    """
    tasks = stage.done
    if not tasks:
        return Loss()
    took = max(task.ended for task in stage.tasks) - min(task.launched for task in stage.tasks)
    even, mean = stage.busy / slots, stage.busy / len(tasks)
    least = min(took, max(even, mean))
    slowest = max(range(len(tasks)), key=lambda place: tasks[place].seconds)
    sizes = _sizes(tasks, slowest, {} if stage.shuffles else kept)
    by_rows = min(tasks[slowest].seconds, sizes[slowest] * mean)
    skew = min(max(0.0, by_rows - least), took - least)
    uneven = max(0.0, min(took, _span([size * mean for size in sizes], slots)) - least - skew)
    few, slow = max(0.0, least - even) + uneven, max(0.0, took - least - skew - uneven)
    if stage.part == "write":  # The plan sizes the files: validation files have fewer rows than training files.
        few, skew = few + skew, 0.0
    return Loss(skew=skew, few=few, slow=slow, large=sizes[slowest])


def _sizes(tasks: Sequence[Task], slowest: int, kept: dict[int, int]) -> list[float]:
    """Return the size of each task, divided by the mean. The size is in rows, in bytes, or in bytes of parsed rows.

    The measure in which the slowest task is largest counts.
    """
    measures = [[task.rows for task in tasks], [task.bytes for task in tasks]]
    if len(kept) == len(tasks):
        measures.append([kept.get(task.index, 0) for task in tasks])
    relative = [[size / fmean(sizes) for size in sizes] for sizes in measures if any(sizes)]
    return max([[1.0] * len(tasks), *relative], key=lambda sizes: sizes[slowest])


def _span(seconds: Sequence[float], slots: int) -> float:
    """Return the seconds that the slots take for the tasks. The first free slot begins the next task."""
    free = [0.0] * slots
    for took in seconds:
        heapreplace(free, free[0] + took)
    return max(free)


def kept_bytes(stages: Sequence[Stage]) -> dict[int, int]:
    """Return the bytes of the parsed rows, for each partition of the input.

    They come from the first stage after `parse`, because Spark counts one row for each task that reads a file itself.
    """
    for stage in stages:
        if stage.part in ("number", "count", "shuffle") and not stage.shuffles and len(stage.done) > 1:
            return {task.index: task.bytes for task in stage.done}
    return {}


def parts_of(stages: Sequence[Stage], began: float, ended: float, slots: int) -> list[Part]:
    """The parts of a preparation from `began` to `ended`. slots: tasks that can run at the same time."""
    spans, kept = _spans(stages, began, ended), kept_bytes(stages)
    waiting, tasks = defaultdict[str, float](float), defaultdict[str, int](int)
    for stage in stages:
        waiting[stage.part] += loss(stage, slots, kept).seconds
        tasks[stage.part] += len(stage.done)
    return [
        Part(name=name, seconds=spans[name], waiting=min(spans[name], waiting[name]), tasks=tasks[name])
        for name in ORDER
        if spans[name] > 0 or tasks[name]
    ]


def _spans(stages: Sequence[Stage], began: float, ended: float) -> dict[str, float]:
    """Seconds by part. Where several stages run, the one that began first counts; where none runs, the driver."""
    spans = defaultdict[str, float](float)
    clock, alone = began, "open"
    within = [stage for stage in stages if stage.submitted < ended and stage.completed > began]
    for stage in sorted(within, key=lambda stage: stage.submitted):
        completed = min(stage.completed, ended)
        spans[alone] += max(0.0, stage.submitted - clock)
        spans[stage.part] += max(0.0, completed - max(clock, stage.submitted))
        clock = max(clock, completed)
        if stage.part not in ("open", OTHER):
            alone = "driver"
    spans["publish"] += ended - clock
    return spans
