"""`sparksplit package`: the archives that spark-submit needs."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.base.options import Options
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.operations.operations_config import PackageConfig
from sparksplit.operations.package import package


def run(config: PackageConfig, options: Options) -> None:
    """Make the archives. Print a line for each part on standard output, and finally the command to copy."""
    for line in package(config):
        print(line, file=OUT, flush=True)


COMMAND = Command(
    name="package",
    summary="Build the archives that spark-submit needs: the project's packages, and the Python environment.",
    config=PackageConfig,
    run=run,
    flags=("output", "environment"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
