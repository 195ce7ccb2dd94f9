"""Prints the report as a table for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from sparksplit.base.shown import OUT
from sparksplit.operations.check.check import Report
from sparksplit.operations.check.facts import Facts
from sparksplit.operations.check.judge import CLOCK_SECONDS
from sparksplit.spark.settings.requirements import overhead_mebibytes

WIDTH = 140
"""Width in columns without a terminal."""


def show(report: Report, path: str | None) -> None:
    """Print the table and the findings on standard output."""
    console = Console(file=OUT, width=None if OUT.isatty() else WIDTH, highlight=False)
    table = Table(title=f"sparksplit check: {report.settings.get('spark.master', 'no master is set')}")
    for name in ("process", "host", "Python", "packages", path or "folder", "memory", "GPUs", "clock", "ports"):
        table.add_column(name, overflow="fold")
    if report.driver is not None:
        for facts in (report.driver, *report.executors):
            table.add_row(*_row(report, facts, path))
    console.print(table)
    if not report.executors:
        console.print("the executors were not checked", markup=False)
    for problem in report.problems:
        console.print(f"{problem.key}: {problem.text}", markup=False, soft_wrap=True)
    if not report.problems:
        console.print("ready: no problem was found", markup=False)


def _row(report: Report, facts: Facts, path: str | None) -> list[str]:
    driver = report.driver or facts
    other = [name for name, version in driver.versions.items() if version and facts.versions.get(name) != version]
    memory = f"{facts.available_mebibytes:,} MiB free"
    if facts is not report.driver and report.settings.get("spark.master") == "yarn":
        heap = report.settings.get("spark.executor.memory", "1g")
        memory = f"{heap} + {overhead_mebibytes(report.settings)}m, {memory}"
    clock = "not known" if facts.clock is None else f"{facts.clock:+.1f} s" if abs(facts.clock) > 0.05 else "same"
    return [
        facts.who,
        f"{facts.host} ({facts.address})",
        facts.python,
        f"other: {', '.join(other)}" if other else f"{sum(v is not None for v in facts.versions.values())} the same",
        "not asked"
        if path is None or (driver.folder and facts is not driver)  # executors test only where the driver could write
        else "NO"
        if facts.folder
        else "read, written" + (f" as {facts.writes_as}" if facts.writes_as else ""),
        memory,
        ", ".join(facts.gpus) or "none given",
        clock + (" NO" if facts.clock is not None and abs(facts.clock) > CLOCK_SECONDS else ""),
        f"NO: {len(facts.unreachable)}" if facts.unreachable else "all reached",
    ]
