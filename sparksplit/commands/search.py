"""`sparksplit search`, and `spark-submit jobs/search.py`: find good values of keys by trials."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from hdfs_io import filesystem
from sparksplit.base.options import Options
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.searching.search import search
from sparksplit.searching.search_config import SearchConfig
from sparksplit.searching.search_record import BEST, SEARCH, SearchRecord

_SHOWN = 10
"""Trials in the table, the best first."""


def run(config: SearchConfig, options: Options) -> None:
    """Search, and print the best trials on standard output."""
    record = search(config, options)
    Console(file=OUT, width=max(120, Console(file=OUT).width), highlight=False).print(table_of(record))
    print(f"train the best: sparksplit train --config {filesystem.join(config.output, BEST)}", file=OUT)
    print(f"all trials: {filesystem.join(config.output, SEARCH)}", file=OUT)


def table_of(record: SearchRecord) -> Table:
    """Return a table of the best trials."""
    table = Table(box=None, pad_edge=False)
    for name in ("trial", f"validation {record.metric}", "epochs", "time"):
        table.add_column(name, justify="right")
    for name in ("state", *record.trials[0].keys):
        table.add_column(name)
    for trial in record.ranked[:_SHOWN]:
        table.add_row(
            str(trial.number),
            "" if trial.value is None else f"{trial.value:.6g}",
            str(len(trial.epochs)),
            "" if trial.seconds is None else f"{trial.seconds:.0f} s",
            trial.state,
            *map(str, trial.keys.values()),
        )
    return table


COMMAND = Command(
    name="search",
    summary="Search for good values of keys: trials of `train`, proposed by Optuna, side by side on the executors.",
    config=SearchConfig,
    run=run,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
