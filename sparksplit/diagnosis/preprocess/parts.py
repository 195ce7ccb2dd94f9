"""The parts of a preparation from the stages that Spark ran for it: pure arithmetic. Their seconds add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from hdfs_io.described import PARTS
from sparksplit.diagnosis.preprocess.record import Part
from sparksplit.diagnosis.preprocess.stages import OTHER, Stage, Task

ORDER = [*PARTS, OTHER, "driver", "publish"]
UNEVEN = 1.4
"""A task with so many times the mean of a stage's rows is a large one. Equal files, packed into partitions, come to
less, unless they are very few."""


@dataclass(frozen=True)
class Loss:
    """Why a stage took longer than its tasks' work, shared by all slots, would: seconds by reason.

    large: the slowest task's rows against the mean; None with a single task.
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

    With n equal tasks the stage would have taken as long as the rounds of them; what is beyond that is the slowest
    task's: because it has most rows (skew), or without such a reason (slow). What these rounds are beyond the work's
    even share is because there are few tasks; if one of them has most of the rows, because of that.
    """
    tasks = stage.done
    if not tasks:
        return Loss()
    took = max(task.ended for task in stage.tasks) - min(task.launched for task in stage.tasks)
    even = stage.busy / slots
    rounds = -(-len(tasks) // slots) * stage.busy / len(tasks)
    few, beyond = max(0.0, min(rounds, took) - even), max(0.0, took - rounds)
    slowest = max(tasks, key=lambda task: task.seconds)
    large = largeness(slowest, tasks, {} if stage.shuffles else kept)
    # Files are as large as the plan makes them: one of validation rows has fewer than one of training rows.
    if stage.part != "write" and large is not None and large >= UNEVEN:
        return Loss(skew=few + beyond, large=large)
    return Loss(slow=beyond, few=few, large=large)


def largeness(task: Task, tasks: Sequence[Task], kept: dict[int, int]) -> float | None:
    """How many times the mean a task has to read: by its rows, its bytes, or the bytes of its rows once they are
    parsed, whatever says most; None with a single task."""
    if len(tasks) < 2:
        return None
    ratios = [1.0]
    for sizes in (
        {each.index: each.rows for each in tasks},
        {each.index: each.bytes for each in tasks},
        {each.index: kept.get(each.index, 0) for each in tasks} if len(kept) == len(tasks) else {},
    ):
        if mean := fmean(sizes.values()) if sizes else 0.0:
            ratios.append(sizes[task.index] / mean)
    return max(ratios)


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
