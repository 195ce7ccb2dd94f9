"""What is wrong with a preparation, in the order of what it costs, and what to change. Pure functions.

A trouble shows in the tasks' times and rows. It is named where it costs a tenth of the time. So a preparation whose
slots share the work evenly has no trouble, however slow it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from sparksplit.base.records import Json
from sparksplit.comparison.numbers import percent, size
from sparksplit.diagnosis.preprocess.parts import DRIVERS, Loss, kept_bytes, loss
from sparksplit.diagnosis.preprocess.record import KINDS, Files, Kind, Part, Trouble
from sparksplit.diagnosis.preprocess.stages import Stage
from sparksplit.prepare.config import PreprocessConfig
from sparksplit.prepare.formats import format_of

NAMED = 0.1
"""Share of the wall time: troubles that cost less are not named."""
NAMED_OF = {"slow": 0.2, "driver": 0.4}
"""The share for single kinds. A busy machine always has some slow tasks, and each preparation needs its driver."""
LEAST_SECONDS = 0.3
"""Troubles that cost less are not named, because they are likely chance."""
GC_NAMED = 0.1
"""Share of the tasks' time: less garbage collection is not named."""
MANY = 8
"""Tasks for each slot, from which they may be too many."""
PIECE_BYTES = 128 * 2**20
"""The size of an input file that Spark gives to one task."""


@dataclass(frozen=True)
class Setup:
    """What the help depends on."""

    slots: int
    """Tasks that can run at the same time."""
    config: PreprocessConfig
    """The configuration."""
    prepared_bytes: int
    """Bytes of the prepared data set."""
    files: Files | None
    """The input's files; None where they cannot be seen."""


def troubles_of(stages: Sequence[Stage], parts: Sequence[Part], setup: Setup) -> list[Trouble]:
    """The troubles that are worth naming. The most expensive comes first; unknown costs come last."""
    wall = sum(part.seconds for part in parts)
    every = [
        *_uneven(stages, setup),
        *_many(stages, setup),
        *_failed(stages, setup),
        *_memory(stages, parts, setup),
        *_driver(parts),
    ]
    named = [
        one
        for one in every
        if one.seconds is None or one.seconds >= max(LEAST_SECONDS, wall * NAMED_OF.get(one.kind, NAMED))
    ]
    return sorted(named, key=lambda one: -(one.seconds or 0.0))


def limit_of(troubles: Sequence[Trouble]) -> Kind:
    """The kind of the most expensive trouble; work where no trouble has a known cost."""
    return next((one.kind for one in troubles if one.seconds is not None), "work")


def sentence(parts: Sequence[Part], troubles: Sequence[Trouble], setup: Setup) -> str:
    """The limit, in one sentence."""
    wall = sum(part.seconds for part in parts)
    for one in troubles:
        if one.seconds is not None:
            return f"{KINDS[one.kind]}: it costs {one.seconds:.1f} of {wall:.1f} s in {', '.join(one.parts)}"
    most = max(parts, key=lambda part: part.seconds)
    return (
        f"{KINDS['work']}: no trouble costs a tenth of the {wall:.1f} s, and {most.name} takes most of them "
        f"({percent(most.seconds / wall if wall else None)}). Only more or faster slots would help ({setup.slots} now)"
    )


def _uneven(stages: Sequence[Stage], setup: Setup) -> list[Trouble]:
    """Stages whose slots were not all busy to the end, by reason."""
    kept = kept_bytes(stages)
    losses = [(stage, loss(stage, setup.slots, kept)) for stage in stages]
    troubles = []
    for kind in ("skew", "slow", "few"):
        # The partitions of files to write, and those of the input, have different remedies. A shuffle's are small.
        for files in (False, True):
            lost = [
                (getattr(each, kind), stage, each)
                for stage, each in losses
                if (stage.part == "write" if files else stage.part not in ("open", "write") and not stage.shuffles)
            ]
            seconds = sum(each[0] for each in lost)
            if not seconds:
                continue
            _, stage, worst = max(lost, key=lambda each: each[0])
            names = [stage.part for cost, stage, _ in lost if cost > 0.1] or [stage.part]
            help_, settings = _help(kind, files, setup)
            why = _why(kind, stage, worst, setup)
            troubles.append(_trouble(kind, names, seconds, why, help_, settings))
    return troubles


def _trouble(
    kind: Kind, parts: Sequence[str], seconds: float | None, why: str, help_: list[str], settings: dict[str, Json]
) -> Trouble:
    return Trouble(kind=kind, parts=list(dict.fromkeys(parts)), seconds=seconds, why=why, help=help_, settings=settings)


def _why(kind: str, stage: Stage, lost: Loss, setup: Setup) -> str:
    times = sorted(task.seconds for task in stage.done)
    others = f", the median of the other {len(times) - 1} {median(times[:-1]):.1f} s" if len(times) > 1 else ""
    text = f"in {stage.part}, the slowest of {len(times)} tasks took {times[-1]:.1f} s{others}"
    if kind == "skew":
        return f"{text}, with {lost.large:.1f} times the mean's rows"
    return f"{text}, with as many rows as the others" if kind == "slow" else f"{text}; slots: {setup.slots}"


_Help = tuple[list[str], dict[str, Json]]
"""What to change, and the settings among these changes that can be tried."""


def _help(kind: str, files: bool, setup: Setup) -> _Help:
    if kind == "slow":
        return [
            "look at the host of the slow task (Spark's page of the stage names it): its disk, load and memory",
            "spark.speculation: true starts a second attempt of tasks that are slow by chance",
        ], {}
    return _for_files(setup) if files else _for_input(setup)


def _for_files(setup: Setup) -> _Help:
    wanted = max(1 << 20, ceil(setup.prepared_bytes / setup.slots))
    if wanted >= setup.config.file_size:
        return ["more rows: so small a set has files of 8 MiB at least, one task each"], {}
    return [f"file_size: {wanted}, so that each slot writes a file"], {"file_size": wanted}


def _for_input(setup: Setup) -> _Help:
    files = setup.files
    if setup.config.input.windows is not None:
        return ["input.windows.by: a series is one task's work, and without `by` all rows are one series"], {}
    if files is None:
        return ["more partitions of about equal size where the rows come from"], {}
    if files.whole == 0 and format_of(setup.config.input.format).columns:
        wanted, key = max(1 << 20, ceil(files.bytes / (2 * setup.slots))), "spark.sql.files.maxPartitionBytes"
        return [f"{key}: {wanted} cuts the files into more pieces"], {key: wanted}
    # Each slot gets as many files as any other slot.
    count = setup.slots * max(1, ceil(files.bytes / (setup.slots * PIECE_BYTES)))
    return [
        f"write the rows into {count} files of about {size(files.bytes / count)}, such as by Spark's "
        f"repartition({count}): {files.largest} ({size(files.largest_bytes)} of {size(files.bytes)}) is one task's "
        "work, however many slots there are",
        "or unpack files that are compressed as a whole (.gz): several tasks can share a large file then",
    ], {}


def _many(stages: Sequence[Stage], setup: Setup) -> list[Trouble]:
    starts = [(sum(task.seconds - task.run for task in stage.done if task.run), stage) for stage in stages]
    many = [(s, stage) for s, stage in starts if len(stage.done) >= MANY * setup.slots and s >= stage.busy / 2]
    if not many:
        return []
    names = [stage.part for _, stage in many]
    help_, settings = ["put the input's many small files together, for instance 128 MB each"], dict[str, Json]()
    if "write" in names:
        wanted = min(128 << 20, max(2 * setup.config.file_size, ceil(setup.prepared_bytes / (4 * setup.slots))))
        help_, settings = [f"file_size: {wanted}, for fewer files"], {"file_size": wanted}
    most = max(len(stage.done) for _, stage in many)
    why = f"up to {most} tasks in a stage, for {setup.slots} slots, and half of their time is their start"
    return [_trouble("many", names, sum(seconds for seconds, _ in many) / setup.slots, why, help_, settings)]


def _failed(stages: Sequence[Stage], setup: Setup) -> list[Trouble]:
    failed = [(stage.part, task.seconds) for stage in stages for task in stage.tasks if task.failed]
    seconds = sum(each[1] for each in failed) / setup.slots
    help_ = ["see why: executors that are killed for memory need a larger spark.executor.memoryOverhead"]
    why = f"attempts at tasks that failed: {len(failed)}"
    return [_trouble("failed", [each[0] for each in failed], seconds, why, help_, {})] if failed else []


def _memory(stages: Sequence[Stage], parts: Sequence[Part], setup: Setup) -> list[Trouble]:
    more = "spark.executor.memory: twice what it is"
    troubles = []
    if full := {part.name: part.gc for part in parts if part.gc >= GC_NAMED}:
        seconds = sum(stage.gc for stage in stages if stage.part in full) / setup.slots
        shares = ", ".join(f"{percent(share)} of the tasks' time in {name}" for name, share in full.items())
        help_ = [more, "fewer spark.executor.cores with the same memory"]
        troubles.append(_trouble("gc", [*full], seconds, f"garbage collection takes {shares}", help_, {}))
    if spilled := [stage for stage in stages if stage.spilled]:
        why = (
            f"{size(sum(stage.spilled for stage in spilled))} of rows that did not fit into memory were written to "
            "disk and read again; Spark does not say how long that took"
        )
        help_ = [more, "faster disks for spark.local.dir"]
        troubles.append(_trouble("spill", [stage.part for stage in spilled], None, why, help_, {}))
    return troubles


def _driver(parts: Sequence[Part]) -> list[Trouble]:
    alone = {part.name: part.seconds for part in parts if part.name in DRIVERS}
    why = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in alone.items())
    help_ = [
        "of a small set most is the same for any number of rows: prepare more at a time",
        "of many files: put small files together, and look at the NameNode's load",
    ]
    return [_trouble("driver", [*alone], sum(alone.values()), why, help_, {})] if alone else []
