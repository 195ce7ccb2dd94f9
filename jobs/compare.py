"""`sparksplit compare`, and `spark-submit jobs/compare.py`: ways to split the work, side by side, with evidence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from comparison.config import CompareConfig
from comparison.numbers import Quantity, compact, duration, megabytes, percent
from comparison.run import REPORT, RESULTS, compare
from hdfs_io import filesystem
from sparksplit.command import Command, Options


def run(config: CompareConfig, options: Options) -> None:
    """Compare, and print the table and the answer on standard output."""
    results = compare(config, options)
    quantity = Quantity(results["metric"]["name"])
    table = Table(box=None, pad_edge=False)
    for name in ("way", "N", "passes", "syncs", "MB/node", "time", "efficiency", quantity.label, "to target"):
        table.add_column(name, justify="left" if name == "way" else "right", no_wrap=True)
    for row in results["table"]:
        table.add_row(
            row["way"] + (" (virtual)" if row["virtual"] else ""),
            str(row["nodes"]),
            str(row["passes"]),
            str(row["syncs"]),
            megabytes(row["bytes_per_node"]),
            duration(row["seconds"]),
            percent(row["efficiency"]),
            quantity.value(row["metric"]["mean"]),
            _to_target(row["to_target"]),
        )
    Console(width=max(120, Console().width), highlight=False).print(table)
    for record in results["diverged"]:
        print(f"{record['key']}: diverged: {record['diverged']}")
    print()
    for sentence in results["answer"]["text"]:
        print(sentence)
    print(results["answer"]["certainty"])
    print(f"report: {filesystem.join(config.output, REPORT)}, figures: {filesystem.join(config.output, RESULTS)}")


def _to_target(to: dict[str, Any] | None) -> str:
    """How long it took to the target: in passes, where time was not measured."""
    if to is None or to["passes"] is None:
        return "" if to is None else "not reached"
    return f"{compact(to['passes'])} passes" if to["seconds"] is None else duration(to["seconds"])


COMMAND = Command(
    name="compare",
    summary="Run several ways to split the work side by side, and say with evidence which to use.",
    config=CompareConfig,
    run=run,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run with the command line's arguments; the exit status."""
    return COMMAND.main(argv)


if __name__ == "__main__":
    sys.exit(main())
