"""`sparksplit package`: the archives that spark-submit needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from operations.config import PackageConfig
from operations.package import package
from sparksplit.command import Command, Options


def run(config: PackageConfig, options: Options) -> None:
    """Make the archives; say what was made on standard output, the command to copy last."""
    for line in package(config):
        print(line, flush=True)


COMMAND = Command(
    name="package",
    summary="The archives that spark-submit needs: the project's packages, and the Python environment.",
    config=PackageConfig,
    run=run,
    flags=("output", "environment"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    return COMMAND.main(argv)


if __name__ == "__main__":
    sys.exit(main())
