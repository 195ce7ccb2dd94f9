"""`sparksplit check`, and `spark-submit jobs/check.py`: check that a cluster is ready for a run."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sparksplit.base.config import load
from sparksplit.base.errors import UsageError
from sparksplit.base.options import Options
from sparksplit.commands.command import Command
from sparksplit.operations.check.check import Planned, check
from sparksplit.operations.check.table import show
from sparksplit.operations.operations_config import CheckConfig
from sparksplit.training.disks import spooled
from sparksplit.training.train_config import TrainConfig


def run(config: CheckConfig, options: Options) -> None:
    """Print the report. Raise UsageError (exit status 2) if there are problems."""
    report = check(config, _planned(config))
    show(report, config.path)
    if report.problems:
        count = len(report.problems)
        raise UsageError(f"{count} problem{'' if count == 1 else 's'}, listed above")


def _planned(config: CheckConfig) -> Planned:
    """Return the run that the configuration names.

    Raise UsageError if its configuration or its data set is wrong or missing.
    """
    if config.train is None:
        if config.data is not None:
            raise config.error("data", "needs train: a data set alone does not say how many nodes spool it")
        return Planned(config.nodes)
    values = {"data": config.data, "nodes": config.nodes}
    overrides = [f"{key}={json.dumps(value)}" for key, value in values.items() if value is not None]
    training = load(TrainConfig, config.train, overrides)
    return Planned(training.processes, training.feeders, spooled(training))


COMMAND = Command(
    name="check",
    summary="Check that a cluster is ready, from every executor: settings, versions, a folder, memory, GPUs, ports and "
    "clocks.",
    config=CheckConfig,
    run=run,
    flags=("path", "nodes", "queue_timeout", "start_timeout", "train", "data"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
