"""`sparksplit diagnose`, and `spark-submit jobs/diagnose.py`: where the time of a run goes, and what would help."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from sparksplit.base.command import Command, Options
from sparksplit.base.config import Config
from sparksplit.diagnosis.run import claimed, diagnose, leave
from sparksplit.training.config import TrainConfig


def kind(keys: Collection[str]) -> type[Config]:
    """What a configuration with these keys is of: `preprocess`, which alone has `input`, or `train`."""
    if "input" in keys:
        from hdfs_io.config import PreprocessConfig

        return PreprocessConfig
    return TrainConfig


def run(config: Config, options: Options) -> None:
    """Measure, keep what was found, and print it on standard output."""
    if isinstance(config, TrainConfig):
        _training(config, options)
    else:
        raise config.error("input", "only configurations of train can be diagnosed so far")


def _training(config: TrainConfig, options: Options) -> None:
    with claimed(config, config.output) as output:
        measured = diagnose(config)
        path = leave(output, {"diagnosis.json": json.dumps(measured.to_json(), indent=1).encode()})
    print(f"diagnosis  {path}")


COMMAND = Command(
    name="diagnose",
    summary="Where the time of a training or a preparation goes, by leaving parts out, and what would help. --config "
    "names the configuration of either; the output is beside its output.",
    config=TrainConfig,
    run=run,
    overwrites=False,
    applies=True,
    config_of=kind,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    return COMMAND.main(argv)
