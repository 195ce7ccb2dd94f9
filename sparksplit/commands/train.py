"""`sparksplit train`, and `spark-submit jobs/train.py`: train one model on the nodes of a Spark cluster."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.base.options import Options
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.comparison.answer.followed import followed
from sparksplit.training.report import summary
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig


def run(config: TrainConfig, options: Options) -> None:
    """Train, and print the summary on standard output."""
    config = followed(config)
    result = train(config, options)
    for line in summary(result, config.output):
        print(line, file=OUT)


COMMAND = Command(
    name="train",
    summary="Train one Keras model on the nodes of a Spark cluster.",
    config=TrainConfig,
    run=run,
    resumable=True,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
