"""`sparksplit train`, and `spark-submit jobs/train.py`: train one model on the nodes of a Spark cluster."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.base.options import Options
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.training.choice import Choice
from sparksplit.training.inputs import RunInputs
from sparksplit.training.report import summary
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig


def run(config: TrainConfig, options: Options) -> None:
    """Train, and print the summary on standard output."""
    for line in summary(train(config, options, follow=_followed), config.output):
        print(line, file=OUT)


def _followed(inputs: RunInputs) -> Choice:
    # Only a run that names a comparison imports the code of answers.
    from sparksplit.comparison.answer.followed import followed

    return followed(inputs)


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
