"""Made-up stages, as Spark would have measured them."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.diagnosis.preprocess.stages import Stage, Task


def stage(
    part: str,
    seconds: Sequence[float],
    rows: Sequence[int] | None = None,
    *,
    slots: int = 4,
    start: float = 0.0,
    shuffled: bool = False,
    gc: float = 0.0,
    spilled: int = 0,
    begin: float = 0.01,
) -> Stage:
    """A stage whose tasks take so many seconds, dealt to slots in order, each to the first that is free.

    gc: share of the tasks' time. begin: seconds of each task that are its start
    """
    free = [start] * slots
    tasks = []
    for index, took in enumerate(seconds):
        slot = min(range(slots), key=lambda place: free[place])
        count = 1000 if rows is None else rows[index]
        tasks.append(
            Task(
                index=index,
                launched=free[slot],
                ended=free[slot] + took,
                run=max(0.0, took - begin),
                rows=count,
                bytes=count * 100,
            )
        )
        free[slot] += took
    return Stage(part, start, max(free), tasks, shuffled, gc * sum(seconds), spilled)


def after(*made: tuple[str, Sequence[float], Sequence[int] | None], slots: int = 4, gap: float = 0.1) -> list[Stage]:
    """Stages one after the other: (part, seconds of its tasks, their rows)."""
    stages: list[Stage] = []
    start = 100.0
    for part, seconds, rows in made:
        one = stage(part, seconds, rows, slots=slots, start=start, shuffled=part == "write")
        stages.append(one)
        start = one.completed + gap
    return stages
