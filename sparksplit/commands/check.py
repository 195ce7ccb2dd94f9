"""`sparksplit check`, and `spark-submit jobs/check.py`: is this cluster ready for a run?"""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.base.command import Command, Options
from sparksplit.base.errors import UsageError
from sparksplit.operations.check.run import check
from sparksplit.operations.check.table import show
from sparksplit.operations.config import CheckConfig


def run(config: CheckConfig, options: Options) -> None:
    """Print what was found; raises UsageError, which is exit status 2, if something must be put right."""
    report = check(config)
    show(report, config.path)
    if report.problems:
        count = len(report.problems)
        raise UsageError(f"{count} thing{'' if count == 1 else 's'} to put right, listed above")


COMMAND = Command(
    name="check",
    summary="Is this cluster ready: settings, versions, a folder, memory, GPUs, ports, clocks; from every executor.",
    config=CheckConfig,
    run=run,
    flags=("path", "nodes", "timeout"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    return COMMAND.main(argv)
