"""The diagnosis of a preparation for people, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from sparksplit.comparison.numbers import percent, size
from sparksplit.diagnosis.preprocess.record import Part, PreprocessDiagnosis, Tried, Trouble

WIDTH = 120
"""Columns where there is no terminal."""


def show(found: PreprocessDiagnosis) -> None:
    """Print it on standard output."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    console.print(table(found))
    for line in lines(found):
        console.print(line, markup=False, soft_wrap=True)


def table(found: PreprocessDiagnosis) -> Table:
    """The parts of the time."""
    made = Table(title=f"preprocess: {found.rows:,} rows in {found.seconds:.1f} s on {found.slots} slots")
    for place, name in enumerate(
        ("part", "s", "", "tasks", "slowest, others", "rows", "idle", "gc", "shuffled", "spilled")
    ):
        made.add_column(name, justify="right" if place else "left")
    for part in found.parts:
        made.add_row(*_cells(part, found.seconds))
    return made


def _cells(part: Part, whole: float) -> list[str]:
    share = percent(part.seconds / whole if whole else None)
    if not part.task_seconds:
        return [part.name, f"{part.seconds:.1f}", share, *[""] * 7]
    slowest = "" if part.slowest is None else f"{part.slowest:.1f} s"
    others = "" if part.median is None else f", {part.median:.1f} s"
    failed = f" + {part.failed} failed" if part.failed else ""
    return [
        part.name,
        f"{part.seconds:.1f}",
        share,
        f"{part.tasks:,}{failed}",
        slowest + others,
        "" if part.largest is None else f"x {part.largest:.1f}",
        percent(part.idle),
        percent(part.gc),
        size(part.shuffle_written) if part.shuffle_written else "",
        size(part.spilled_disk) if part.spilled_disk else "",
    ]


def lines(found: PreprocessDiagnosis) -> Iterator[str]:
    """What the table does not hold."""
    yield f"limit      {found.sentence}"
    for number, trouble in enumerate(found.troubles, 1):
        costs = "costs nobody knows how much" if trouble.seconds is None else f"costs up to {trouble.seconds:.1f} s"
        yield f"{number:<11}{trouble.kind} ({', '.join(trouble.parts)}) {costs}: {trouble.why}"
        for help_ in trouble.help:
            yield f"           - {help_}"
    for tried in found.tried:
        yield f"tried      {said(tried)}"
    for trouble in found.troubles:
        if trouble.not_tried or not trouble.settings:
            yield f"not tried  what helps against {trouble.kind}: {untried(trouble)}"


def untried(trouble: Trouble) -> str:
    """Why nothing that helps was tried."""
    return trouble.not_tried or "only settings that can change while Spark runs are tried"


def said(tried: Tried) -> str:
    """What a setting brought, in a sentence."""
    before, after = (sum(times) / len(times) for times in (tried.before, tried.after))
    gained = f"{percent(abs(tried.gain))} {'less' if tried.gain >= 0 else 'more'} time ({before:.1f} s to {after:.1f} s"
    known = tried.low is not None and tried.high is not None
    sure = (
        f"; 95 % interval of the gain {percent(tried.low)} to {percent(tried.high)})" if known else "; a single pair)"
    )
    return f"{changed(tried)}: {gained}{sure}: {'it helps' if tried.helps else 'it does not help for sure'}"


def changed(tried: Tried) -> str:
    """The settings that were tried, as they stand in a configuration."""
    return ", ".join(f"{key}: {str(value).lower()}" for key, value in tried.settings.items())
