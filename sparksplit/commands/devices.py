"""`sparksplit devices`, and `spark-submit jobs/devices.py`: measurements of the driver's and the executors' devices."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.base.errors import RunError
from sparksplit.base.options import Options
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.operations.devices.devices import devices, leave
from sparksplit.operations.devices.table import show
from sparksplit.operations.operations_config import DevicesConfig


def run(config: DevicesConfig, options: Options) -> None:
    """Print and save the measurements. Raise RunError if a measurement failed."""
    record = devices(config)
    show(record)
    print(f"devices    {leave(record, config.output)}", file=OUT)
    failed = [f"{one.who} on {one.host}: {one.problems[0]}" for one in record.processes if one.problems]
    if failed:
        raise RunError(f"{failed[0]}{f' (and {len(failed) - 1} more)' if len(failed) > 1 else ''}")


COMMAND = Command(
    name="devices",
    summary="Measure the devices of the driver and the executors: copies, matrix products and a training step.",
    config=DevicesConfig,
    run=run,
    flags=("output", "train", "data", "nodes", "queue_timeout", "start_timeout", "limit"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
