"""`sparksplit compare`, and `spark-submit jobs/compare.py`: strategies for distributed training, with evidence."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from hdfs_io import filesystem
from sparksplit.base.options import Options
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.comparison.answer.words import words
from sparksplit.comparison.compare import compare
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.content import REPORT, RESULTS, Results
from sparksplit.comparison.content_table import ToTarget
from sparksplit.comparison.numbers import Quantity, compact, count, duration, megabytes, part, percent


def run(config: CompareConfig, options: Options) -> None:
    """Compare, and print the table and the answer on standard output."""
    results = compare(config, options)
    Console(file=OUT, width=max(120, Console(file=OUT).width), highlight=False).print(table_of(results))
    for record in results.diverged:
        print(f"{record.key}: diverged: {record.diverged}", file=OUT)
    print("", *words(results), sep="\n", file=OUT)
    print(
        f"report: {filesystem.join(config.output, REPORT)}, figures: {filesystem.join(config.output, RESULTS)}",
        file=OUT,
    )


def table_of(results: Results) -> Table:
    """Return a table of the strategies, with one line for each number of nodes."""
    quantity, split = Quantity(results.metric.name), results.metric.split
    table = Table(box=None, pad_edge=False)
    metric = f"{split}\n{quantity.label}"
    for name in ("strategy", "N", "runs", "passes", "syncs", "MB/node", "time", "efficiency", metric, "to target"):
        # A strategy's long name is broken into several lines before a number is cut.
        words = name in ("strategy", metric)
        table.add_column(name, justify="left" if name == "strategy" else "right", no_wrap=not words, vertical="bottom")
    for row in results.table:
        table.add_row(
            row.name + (" (virtual)" if row.virtual else ""),
            str(row.nodes),
            part(row.runs, row.runs + row.diverged),
            count(row.passes),
            count(row.syncs),
            megabytes(row.bytes_per_node),
            duration(row.seconds),
            percent(row.efficiency),
            quantity.value(row.metric.mean),
            _to_target(row.to_target),
        )
    return table


def _to_target(to: ToTarget | None) -> str:
    """Return the time to the target (in passes, if time was not measured), and the number of runs if not all reached
    it.
    """
    if to is None:
        return ""
    if to.passes is None:
        return f"not reached ({to.reached} of {to.of})" if to.reached else "not reached"
    text = f"{compact(to.passes)} passes" if to.seconds is None else duration(to.seconds)
    return text if to.reached == to.of else f"{text} ({to.reached} of {to.of})"


COMMAND = Command(
    name="compare",
    summary="Compare strategies for distributed training, and recommend one with evidence.",
    config=CompareConfig,
    run=run,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
