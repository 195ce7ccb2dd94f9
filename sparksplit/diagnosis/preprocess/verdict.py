"""What is wrong with a preparation, in the order of what it costs, and what to change. Pure functions.

A trouble is named for what its tasks' times and rows show, and only where that costs a tenth of the time; so a
preparation whose work is shared evenly has none, however slow it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Required, TypedDict

from sparksplit.base.records import Json
from sparksplit.comparison.numbers import percent
from sparksplit.diagnosis.preprocess.parts import DRIVERS, kept_bytes, loss
from sparksplit.diagnosis.preprocess.record import KINDS, Files, Kind, Part, Trouble
from sparksplit.diagnosis.preprocess.stages import Stage
from sparksplit.prepare.formats import format_of

NAMED = 0.1
"""Share of the wall time: troubles that cost less are not named."""
LEAST_SECONDS = 0.3
"""Seconds: troubles that cost less are not named, because they are likely chance."""
SLOW_NAMED = 0.2
"""Share of the wall time: `slow` troubles that cost less are not named. A busy machine always has some slow tasks."""
DRIVER_NAMED = 0.4
GC_NAMED = 0.1
"""Share of the tasks' time: less garbage collection is not named."""
MANY = 8
"""Tasks for each slot, from which they may be too many."""
START_SHARE = 0.5
"""Of a task's time: more for its start than for its rows."""
PIECE_BYTES = 128 * 2**20
"""Of a file of the input, as it is stored: what Spark gives to a task, where it can."""


@dataclass(frozen=True)
class Setup:
    """What help depends on.

    slots: tasks at a time. format: of the input. file_size: as configured. files: the input's, where they can be seen.
    windows: whether rows are windows over time.
    """

    slots: int
    format: str
    file_size: int
    prepared_bytes: int
    files: Files | None
    windows: bool = False


def troubles_of(stages: Sequence[Stage], parts: Sequence[Part], setup: Setup) -> list[Trouble]:
    """What costs at least a tenth of the time, what costs most first; what nobody can put a figure to comes last."""
    wall = sum(part.seconds for part in parts)
    candidates = [
        *_uneven(stages, parts, setup),
        *_many(stages, parts, setup),
        *_failed(stages, setup),
        *_gc(parts, setup),
        *_spill(parts, setup),
        *_driver(parts),
    ]
    shares = {"slow": SLOW_NAMED, "driver": DRIVER_NAMED}
    named = [
        one
        for one in candidates
        if one.seconds is None or one.seconds >= max(LEAST_SECONDS, wall * shares.get(one.kind, NAMED))
    ]
    return sorted(named, key=lambda one: -(one.seconds or 0.0))


def limit_of(troubles: Sequence[Trouble]) -> Kind:
    """The kind of what costs most; work where nothing that is known to cost time is wrong."""
    known = [one.kind for one in troubles if one.seconds is not None]
    return known[0] if known else "work"


def sentence(parts: Sequence[Part], troubles: Sequence[Trouble], setup: Setup) -> str:
    """What the limit is, in one sentence."""
    wall = sum(part.seconds for part in parts)
    known = [one for one in troubles if one.seconds is not None]
    if known:
        first = known[0]
        assert first.seconds is not None
        where = "" if first.kind == "driver" else f" in {_listed(first.parts)}"
        return f"{KINDS[first.kind]}: it costs {first.seconds:.1f} of {wall:.1f} s{where}"
    most = max(parts, key=lambda part: part.seconds)
    share = most.seconds / wall if wall else 0.0
    return (
        f"{KINDS['work']}: nothing costs a tenth of the {wall:.1f} s but what has to be done, {most.name} most of all"
        f" ({percent(share)}); {_slots(setup.slots)} are busy, and only more of them, or faster ones, would help"
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _slots(slots: int) -> str:
    return f"{slots} slot{'' if slots == 1 else 's'}"


def _uneven(stages: Sequence[Stage], parts: Sequence[Part], setup: Setup) -> list[Trouble]:
    """Stages whose slots were not all busy to the end, by reason."""
    kept = kept_bytes(stages)
    losses = [(stage, loss(stage, setup.slots, kept)) for stage in stages]
    troubles = []
    for kind in ("skew", "slow", "few"):
        # What is lost to the input's partitions and to those of files has different remedies.
        for files in (False, True):
            own = [
                (stage, getattr(lost, kind), lost.large)
                for stage, lost in losses
                if (stage.part == "write" if files else _of_input(stage)) and getattr(lost, kind) > 0
            ]
            if not own:
                continue
            seconds = sum(each[1] for each in own)
            named = [part.name for part in parts if any(s.part == part.name and cost > 0.1 for s, cost, _ in own)]
            stage, _, large = max(own, key=lambda each: each[1])
            why = _why(kind, stage, large, setup)
            helps = _help(kind, files, setup)
            troubles.append(Trouble(kind=kind, parts=named or [stage.part], seconds=seconds, why=why, **helps))
    return troubles


def _of_input(stage: Stage) -> bool:
    """Whether a stage's partitions are those of the input. What tasks have sent to each other has partitions by its
    size, and is little; so is what `open` looks at."""
    return stage.part not in ("open", "write") and not stage.shuffles


def _why(kind: str, stage: Stage, large: float | None, setup: Setup) -> str:
    times = sorted(task.seconds for task in stage.done)
    slowest, others = times[-1], times[:-1]
    idle = max(0.0, 1 - stage.busy / (setup.slots * stage.seconds)) if stage.seconds else 0.0
    rest = f", the median of the other {len(others)} {median(others):.1f} s" if others else ""
    took = f"in {stage.part}, the slowest of {len(times)} tasks took {slowest:.1f} s{rest}"
    waste = f"; {_slots(setup.slots)} were idle for {percent(idle)} of that stage"
    if kind == "skew":
        return f"{took}, with {large or 0:.1f} times the mean's rows{waste}"
    if kind == "slow":
        return f"{took}, with as many rows as the others{waste}"
    return f"{stage.part} has {len(times)} task{'' if len(times) == 1 else 's'} for {_slots(setup.slots)}{waste}"


class _Help(TypedDict, total=False):
    """Of a Trouble: what to change, and the settings among that, which can be tried."""

    help: Required[list[str]]
    settings: dict[str, Json]


def _help(kind: str, files: bool, setup: Setup) -> _Help:
    if kind == "slow":
        return {
            "help": [
                "look at the host of the slow task (Spark's page of the stage names it): its disk, load and memory",
                "spark.speculation: true starts a second attempt of tasks that are slow by chance",
            ]
        }
    return _for_files(setup) if files else _for_input(setup)


def _for_files(setup: Setup) -> _Help:
    size = max(1 << 20, ceil(setup.prepared_bytes / setup.slots))
    if size >= setup.file_size:
        return {"help": ["more rows: so small a set has files of 8 MiB at least, one task each"]}
    return {"help": [f"file_size: {size}, so that each slot writes a file"], "settings": {"file_size": size}}


def _for_input(setup: Setup) -> _Help:
    files = setup.files
    if setup.windows:
        return {"help": ["input.windows.by: a series is one task's work, and without `by` all rows are one series"]}
    if files is None:
        return {"help": ["more partitions of about equal size where the rows come from"]}
    if files.whole == 0 and format_of(setup.format).columns:
        size = max(1 << 20, ceil(files.bytes / (2 * setup.slots)))
        key = "spark.sql.files.maxPartitionBytes"
        return {"help": [f"{key}: {size} cuts the files into more pieces"], "settings": {key: size}}
    largest = f"{files.largest} ({_bytes(files.largest_bytes)} of {_bytes(files.bytes)})"
    one_task = f"{largest} is one task's work, however many slots there are"
    if setup.format == "idx":
        return {"help": [f"unpack the .gz files: {one_task}"]}
    count = pieces(files.bytes, setup.slots)
    advice = f"write the rows into {count} files of about {_bytes(files.bytes / count)}, such as by Spark's repartition"
    return {"help": [f"{advice}({count}): {one_task}"]}


def pieces(size: int, slots: int) -> int:
    """In how many files so many bytes are shared evenly, of PIECE_BYTES at the most: each slot gets as many."""
    return slots * max(1, ceil(size / (slots * PIECE_BYTES)))


def _many(stages: Sequence[Stage], parts: Sequence[Part], setup: Setup) -> list[Trouble]:
    seconds, where, most = 0.0, [], 0
    for stage in stages:
        tasks = stage.done
        if len(tasks) < MANY * setup.slots:
            continue
        starting = sum(task.seconds - task.run for task in tasks if task.run)
        if starting >= START_SHARE * stage.busy:
            seconds += starting / setup.slots
            where.append(stage.part)
            most = max(most, len(tasks))
    if not where:
        return []
    names = [part.name for part in parts if part.name in where]
    why = f"up to {most} tasks in a stage, for {_slots(setup.slots)}, and half of their time is their start"
    if "write" in where:
        size = min(128 << 20, max(2 * setup.file_size, ceil(setup.prepared_bytes / (4 * setup.slots))))
        help_, settings = [f"file_size: {size}, for fewer files"], {"file_size": size}
    else:
        help_, settings = ["put the input's many small files together, for instance 128 MB each"], {}
    return [Trouble(kind="many", parts=names, seconds=seconds, why=why, help=help_, settings=dict(settings))]


def _failed(stages: Sequence[Stage], setup: Setup) -> list[Trouble]:
    failed = [(stage.part, task) for stage in stages for task in stage.tasks if task.failed]
    if not failed:
        return []
    seconds = sum(task.seconds for _, task in failed) / setup.slots
    return [
        Trouble(
            kind="failed",
            parts=list(dict.fromkeys(part for part, _ in failed)),
            seconds=seconds,
            why=f"{len(failed)} attempt{'' if len(failed) == 1 else 's'} failed; of all slots' time {seconds:.1f} s",
            help=["see why: executors that are killed for memory need a larger spark.executor.memoryOverhead"],
        )
    ]


def _gc(parts: Sequence[Part], setup: Setup) -> list[Trouble]:
    high = [part for part in parts if part.gc >= GC_NAMED]
    seconds = sum(part.gc * part.task_seconds for part in high) / setup.slots
    if not high:
        return []
    worst = max(high, key=lambda part: part.gc * part.task_seconds)
    return [
        Trouble(
            kind="gc",
            parts=[part.name for part in high],
            seconds=seconds,
            why=f"in {worst.name} garbage collection takes {percent(worst.gc)} of the tasks' time",
            help=["spark.executor.memory: twice what it is", "fewer spark.executor.cores with the same memory"],
        )
    ]


def _spill(parts: Sequence[Part], setup: Setup) -> list[Trouble]:
    spilled = [part for part in parts if part.spilled_disk]
    if not spilled:
        return []
    disk = sum(part.spilled_disk for part in spilled)
    return [
        Trouble(
            kind="spill",
            parts=[part.name for part in spilled],
            seconds=None,
            why=f"{_bytes(sum(part.spilled for part in spilled))} of rows did not fit into memory, and were written to"
            f" disk as {_bytes(disk)} and read again; Spark does not say how long that took",
            help=["spark.executor.memory: twice what it is", "faster disks for spark.local.dir"],
        )
    ]


def _driver(parts: Sequence[Part]) -> list[Trouble]:
    own = [part for part in parts if part.name in DRIVERS]
    if not own:
        return []
    said = ", ".join(f"{part.seconds:.1f} s {_DRIVER[part.name]}" for part in own)
    return [
        Trouble(
            kind="driver",
            parts=[part.name for part in own],
            seconds=sum(part.seconds for part in own),
            why=said,
            help=[
                "of a small set most is the same for any number of rows: prepare more at a time",
                "of many files: put small files together, and look at the NameNode's load",
            ],
        )
    ]


_DRIVER = {"open": "before the first rows were read", "driver": "between Spark's jobs", "publish": "after the last one"}


def _bytes(size: float) -> str:
    for power, name in ((3, "GB"), (2, "MB"), (1, "kB")):
        if size >= 1000**power:
            return f"{size / 1000**power:.1f} {name}"
    return f"{size:.0f} bytes"
