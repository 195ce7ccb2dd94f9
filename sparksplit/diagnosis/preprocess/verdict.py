"""Find the troubles of a preparation, the most expensive first, and what to change. Pure functions.

A trouble shows in the tasks' times and rows. It is named if it costs a tenth of the time (some kinds: more, see
NAMED_OF). So a preparation whose slots share the work evenly has no trouble, however slow it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median

from sparksplit.base.records import Json
from sparksplit.comparison.numbers import percent, size
from sparksplit.diagnosis.answer import Cost, Gain, Limit
from sparksplit.diagnosis.preprocess.parts import DRIVERS, kept_bytes, loss
from sparksplit.diagnosis.preprocess.preprocess_record import Files, Kind, Part, Trouble
from sparksplit.diagnosis.preprocess.stages import Stage
from sparksplit.prepare.formats import format_of
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.prepare.source import RANGE_BYTES

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
HELP: dict[Kind, list[str]] = {
    "slow": [
        "look at the host of the slow task (Spark's page of the stage names it): its disk, load and memory",
        "spark.speculation: true starts a second attempt of tasks that are slow by chance",
    ],
    "failed": ["see why: executors that are killed for memory need a larger spark.executor.memoryOverhead"],
    "gc": ["spark.executor.memory: twice what it is", "fewer spark.executor.cores with the same memory"],
    "spill": ["spark.executor.memory: twice what it is", "faster disks for spark.local.dir"],
    "driver": [
        "of a small set most is the same for any number of rows: prepare more at a time",
        "of many files: put small files together, and look at the NameNode's load",
    ],
}
"""The help against troubles whose remedy is equal for all stages."""


@dataclass(frozen=True)
class Setup:
    """The facts that the help depends on."""

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
    wall, kept = sum(part.seconds for part in parts), kept_bytes(stages)
    alone = {part.name: part.seconds for part in parts if part.name in DRIVERS}
    why = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in alone.items())
    failed = [(stage.part, task.seconds) for stage in stages for task in stage.tasks if task.failed]
    troubles = [
        Trouble(kind="driver", parts=[*alone], seconds=sum(alone.values()), why=why, help=HELP["driver"]),
        Trouble(
            kind="failed",
            parts=list(dict.fromkeys(part for part, _ in failed)),
            seconds=sum(seconds for _, seconds in failed) / setup.slots,
            why=f"attempts at tasks that failed: {len(failed)}",
            help=HELP["failed"],
        ),
    ]
    groups = defaultdict[tuple[Kind, bool], list[tuple[float, str, str]]](list)
    for stage in stages:
        for kind, cost, why in _findings(stage, setup.slots, kept):
            # Files to write and the input's partitions have different remedies.
            files = stage.part == "write" and kind in ("skew", "slow", "few", "many")
            groups[kind, files].append((cost, stage.part, why))
    for (kind, files), findings in groups.items():
        _, worst, why = max(findings)
        help_, settings = (HELP[kind], {}) if kind in HELP else _help(kind, files, setup)
        troubles.append(
            Trouble(
                kind=kind,
                parts=list(dict.fromkeys(part for cost, part, _ in findings if cost > 0.1)) or [worst],
                seconds=None if kind == "spill" else sum(cost for cost, _, _ in findings),
                why=why,
                help=help_,
                settings=settings,
            )
        )
    named = [
        one
        for one in troubles
        if one.seconds is None or one.seconds >= max(LEAST_SECONDS, wall * NAMED_OF.get(one.kind, NAMED))
    ]
    return sorted(named, key=lambda one: -(one.seconds or 0.0))


def limit_of(troubles: Sequence[Trouble], parts: Sequence[Part]) -> Limit:
    """The most expensive trouble. Without a trouble of a known cost: `work`, with the longest of the parts that have
    tasks."""
    wall = sum(part.seconds for part in parts)
    for one in troubles:
        if one.seconds is not None:
            return _limit(one.kind, one.seconds, wall, one.parts, alone=False)
    most = max([part for part in parts if part.name not in DRIVERS] or parts, key=lambda part: part.seconds)
    return _limit("work", most.seconds, wall, [most.name], alone=True)


def _limit(name: Kind, seconds: float, wall: float, places: list[str], alone: bool) -> Limit:
    gained = None if alone or seconds >= wall else Gain(wall / (wall - seconds), None, None)
    cost = Cost(name=name, share=seconds / wall if wall else None, gain=gained)
    return Limit(name=name, costs=[cost], alone=alone, places=places)


def notes_of(troubles: Sequence[Trouble]) -> list[str]:
    """What helps against the troubles and cannot be tried, the most expensive trouble first."""
    return [help_ for trouble in troubles for help_ in trouble.help if not trouble.settings]


def _findings(stage: Stage, slots: int, kept: dict[int, int]) -> Iterator[tuple[Kind, float, str]]:
    """What a stage lost: the kind of trouble, its cost in seconds (of spill: in bytes), and the observation."""
    times = sorted(task.seconds for task in stage.done)
    # `open` reads little, and the partitions of a shuffle that is not written to files are small.
    if times and (stage.part == "write" or not (stage.part == "open" or stage.shuffles)):
        lost = loss(stage, slots, kept)
        others = f", the median of the other {len(times) - 1} {median(times[:-1]):.1f} s" if len(times) > 1 else ""
        took = f"in {stage.part}, the slowest of {len(times)} tasks took {times[-1]:.1f} s{others}"
        yield "skew", lost.skew, f"{took}, with {lost.large:.1f} times the mean's rows"
        yield "slow", lost.slow, f"{took}, with as many rows as the others"
        yield "few", lost.few, f"{took}; slots: {slots}"
    starting = sum(task.seconds - task.run for task in stage.done if task.run)
    if len(times) >= MANY * slots and starting >= stage.busy / 2:
        why = f"{stage.part} has {len(times)} tasks for {slots} slots, and half of their time is their start"
        yield "many", starting / slots, why
    if stage.gc > GC_NAMED * stage.busy:
        why = f"in {stage.part}, garbage collection takes {percent(stage.gc / stage.busy)} of the tasks' time"
        yield "gc", stage.gc / slots, why
    if stage.spilled:
        why = "of rows that did not fit into memory were written to disk and read again"
        why = f"in {stage.part}, {size(stage.spilled)} {why}; Spark does not say how long that took"
        yield "spill", stage.spilled, why


_Help = tuple[list[str], dict[str, Json]]
"""What to change, and the settings among these changes that can be tried."""


def _help(kind: Kind, files: bool, setup: Setup) -> _Help:
    if kind != "many":
        return _for_files(setup) if files else _for_input(setup)
    if not files:
        return ["put the input's many small files together, for instance 128 MB each"], {}
    wanted = min(128 << 20, max(2 * setup.config.file_size, ceil(setup.prepared_bytes / (4 * setup.slots))))
    return [f"file_size: {wanted}, for fewer files"], {"file_size": wanted}


def _for_files(setup: Setup) -> _Help:
    wanted = max(1 << 20, ceil(setup.prepared_bytes / setup.slots))
    if wanted >= setup.config.file_size:
        return ["more rows: so small a set has files of 8 MiB at least, one task each"], {}
    return [f"file_size: {wanted}, so that each slot writes a file"], {"file_size": wanted}


def _for_input(setup: Setup) -> _Help:
    files, format_ = setup.files, format_of(setup.config.input.format)
    if setup.config.input.windows is not None:
        return ["input.windows.by: a series is one task's work, and without `by` all rows are one series"], {}
    if files is None:
        return ["more partitions of about equal size where the rows come from"], {}
    if files.whole == 0 and format_.columns:
        wanted, key = max(1 << 20, ceil(files.bytes / (2 * setup.slots))), "spark.sql.files.maxPartitionBytes"
        return [f"{key}: {wanted} cuts the files into more pieces"], {key: wanted}
    if format_.source:  # Our own tasks cut plain files. The files' names, or their order, are fixed.
        if files.whole:
            return ["unpack the .gz files: each is one task's work, however many slots there are"], {}
        return [f"more rows: a task reads {size(RANGE_BYTES)} of a plain file, so a small set has few tasks"], {}
    # Each slot gets as many files as any other slot.
    count = setup.slots * max(1, ceil(files.bytes / (setup.slots * PIECE_BYTES)))
    return [
        f"write the rows into {count} files of about {size(files.bytes / count)}, such as by Spark's "
        f"repartition({count}): {files.largest} ({size(files.largest_bytes)} of {size(files.bytes)}) is one task's "
        "work, however many slots there are",
        "or unpack files that are compressed as a whole (.gz): several tasks can share a large file then",
    ], {}
