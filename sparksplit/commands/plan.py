"""`sparksplit plan`, and `spark-submit jobs/plan.py`: how long a run would take on more nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console

from hdfs_io import filesystem
from sparksplit.base.options import Options
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.diagnosis.diagnose import claimed, leave
from sparksplit.planning.plan import COMMAND as NAME
from sparksplit.planning.plan import plan
from sparksplit.planning.plan_config import PlanConfig
from sparksplit.planning.plan_record import PLAN
from sparksplit.planning.words import mini_batches, table, words


def run(config: PlanConfig, options: Options) -> None:
    """Plan, save the record, and print the answer and the table on standard output."""
    with claimed(config, config.output, NAME) as output:
        made = plan(config)
        path = leave(output, {PLAN: json.dumps(made.to_json(), indent=1).encode() + b"\n"})
    print(*words(made), "", sep="\n", file=OUT)
    Console(file=OUT, width=200).print(table(made), highlight=False)
    if lines := mini_batches(made):
        print("", *lines, sep="\n", file=OUT)
    print(f"\n{filesystem.join(path, PLAN)}", file=OUT)


COMMAND = Command(
    name=NAME,
    summary="Predict the training time, the cost and the memory of each strategy on up to 64 nodes, from half a minute "
    "of measurements on one machine. --config names a configuration of train; the result is written beside its output.",
    config=PlanConfig,
    run=run,
    overwrites=False,
    flags=("link",),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
