"""The parts of a preparation from the stages that Spark ran for it: pure arithmetic. Their seconds add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace
from itertools import pairwise
from statistics import fmean, median

from sparksplit.diagnosis.preprocess.record import Part
from sparksplit.diagnosis.preprocess.stages import OTHER, Stage, Task
from sparksplit.spark.job_names import PARTS

ORDER = [*PARTS, OTHER, "driver", "publish"]
DRIVERS = ("open", "driver", "publish")
"""What takes its time whatever the rows are."""


@dataclass(frozen=True)
class Loss:
    """Why a stage took longer than its tasks' work, shared evenly by all slots, would: seconds by reason.

    skew: other slots had nothing to do while one task was at its many rows. few: tasks are too few, or do not come out
    even. slow: a task took longer than its rows account for. large: the slowest task's rows against the mean; None with
    a single task.
    """

    skew: float = 0.0
    slow: float = 0.0
    few: float = 0.0
    large: float | None = None

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.skew + self.slow + self.few


def loss(stage: Stage, slots: int, kept: dict[int, int]) -> Loss:
    """What a stage has lost. kept: the bytes of the input's partitions once they are parsed, where known

    However rows are dealt to its tasks, a stage takes no less than an even share of the work; nor than one of equal
    tasks, where they are fewer than the slots. What the slowest task takes beyond that, as far as its rows account for
    it, is lost to skew: it goes by what others waited for, so a task of any size that nobody waits for costs nothing.
    What else rows account for is lost because tasks are few: the last round of them is not full.
    """
    tasks = stage.done
    if not tasks:
        return Loss()
    took = max(task.ended for task in stage.tasks) - min(task.launched for task in stage.tasks)
    even, mean = stage.busy / slots, stage.busy / len(tasks)
    least = min(took, max(even, mean))
    sizes = largeness(tasks, {} if stage.shuffles else kept)
    slowest = max(range(len(tasks)), key=lambda place: tasks[place].seconds)
    own = min(tasks[slowest].seconds, sizes[slowest] * mean)
    skew = min(max(0.0, own - least), took - least)
    by_rows = _span([size * mean for size in sizes], slots)
    uneven = max(0.0, min(took, by_rows) - least - skew)
    few, slow = max(0.0, least - even) + uneven, max(0.0, took - least - skew - uneven)
    large = sizes[slowest] if len(tasks) > 1 else None
    if stage.part == "write":
        # Files are as large as the plan makes them: one of validation rows has fewer than one of training rows.
        return Loss(few=few + skew, slow=slow, large=large)
    return Loss(skew=skew, few=few, slow=slow, large=large)


def largeness(tasks: Sequence[Task], kept: dict[int, int]) -> list[float]:
    """How many times the mean each task has to read: by its rows, its bytes, or the bytes of its rows once they are
    parsed, whatever says most of the slowest one."""
    slowest = max(range(len(tasks)), key=lambda place: tasks[place].seconds)
    found = [1.0] * len(tasks)
    for sizes in (
        [each.rows for each in tasks],
        [each.bytes for each in tasks],
        [kept.get(each.index, 0) for each in tasks] if len(kept) == len(tasks) else [],
    ):
        mean = fmean(sizes) if sizes else 0.0
        if mean and sizes[slowest] / mean > found[slowest]:
            found = [size / mean for size in sizes]
    return found


def _span(seconds: Sequence[float], slots: int) -> float:
    """How long slots take for tasks, each begun in its turn by the first one that is free."""
    free = [0.0] * slots
    for took in seconds:
        heapreplace(free, free[0] + took)
    return max(free)


def kept_bytes(stages: Sequence[Stage]) -> dict[int, int]:
    """By partition of the input, the bytes of its rows as they are kept: what the tasks of the first stage behind
    `parse` read that have no shuffle to read."""
    for stage in stages:
        if stage.part in ("number", "count", "shuffle") and not stage.shuffles and len(stage.done) > 1:
            return {task.index: task.bytes for task in stage.done}
    return {}


def parts_of(stages: Sequence[Stage], began: float, ended: float, slots: int) -> list[Part]:
    """The parts of a preparation from `began` to `ended`; their seconds add up to that. slots: of all executors"""
    spans = _spans(stages, began, ended)
    names = [name for name in ORDER if spans.get(name, 0.0) > 0 or any(stage.part == name for stage in stages)]
    kept = kept_bytes(stages)
    return [_part(name, spans.get(name, 0.0), [s for s in stages if s.part == name], slots, kept) for name in names]


def _spans(stages: Sequence[Stage], began: float, ended: float) -> dict[str, float]:
    """Seconds by part. Where several stages run, the one that began first counts; where none does, the driver."""
    rows = [stage for stage in stages if stage.part not in ("open", OTHER)]
    first = min((stage.submitted for stage in rows), default=ended)
    last = max((stage.completed for stage in stages), default=began)
    inner = (moment for stage in stages for moment in (stage.submitted, stage.completed))
    cuts = sorted({began, ended, *(min(max(moment, began), ended) for moment in (first, last, *inner))})
    found: dict[str, float] = {}
    ordered = sorted(stages, key=lambda stage: stage.submitted)
    for start, stop in pairwise(cuts):
        running = next((stage.part for stage in ordered if stage.submitted <= start and stop <= stage.completed), None)
        name = running or ("open" if stop <= first else "publish" if start >= last else "driver")
        found[name] = found.get(name, 0.0) + stop - start
    return found


def _part(name: str, seconds: float, stages: Sequence[Stage], slots: int, kept: dict[int, int]) -> Part:
    tasks = [task for stage in stages for task in stage.tasks]
    if not tasks:
        return Part(name=name, seconds=seconds)
    done = [task for task in tasks if not task.failed]
    losses = [loss(stage, slots, kept) for stage in stages]
    lost, worst = max(zip(losses, stages, strict=True), key=lambda pair: (pair[0].seconds, pair[1].seconds))
    times = sorted(task.seconds for task in worst.done) or [0.0]
    busy = sum(task.seconds for task in tasks)
    working = sum(task.run for task in tasks)

    def total(values: list[int]) -> int:
        return sum(values)

    return Part(
        name=name,
        seconds=seconds,
        task_seconds=busy,
        stages=len(stages),
        tasks=len(done),
        failed=len(tasks) - len(done),
        slowest=times[-1],
        median=median(times[:-1]) if len(times) > 1 else None,
        largest=lost.large,
        idle=max(0.0, 1 - busy / (slots * seconds)) if seconds else None,
        even=max(0.0, seconds - sum(each.seconds for each in losses)),
        gc=sum(task.gc for task in tasks) / working if working else 0.0,
        rows=total([task.rows for task in done]),
        bytes=total([task.bytes for task in done]),
        shuffle_read=total([task.shuffle_read for task in done]),
        shuffle_written=total([task.shuffle_written for task in done]),
        spilled=total([task.spilled for task in tasks]),
        spilled_disk=total([task.spilled_disk for task in tasks]),
    )
