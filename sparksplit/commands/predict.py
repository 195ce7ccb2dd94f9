"""`sparksplit predict`, and `spark-submit jobs/predict.py`: batch inference in Spark executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hdfs_io import filesystem
from sparksplit.base.errors import printable
from sparksplit.base.options import Options
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.inference.predict import Result, predict
from sparksplit.inference.predict_config import PredictConfig
from sparksplit.prepare.bad_rows import said
from sparksplit.training.report import written

_CLASSES = 20
"""Largest number of classes that are named."""


def run(config: PredictConfig, options: Options) -> None:
    """Predict, and print the summary on standard output."""
    for line in summary(predict(config, options)):
        print(line, file=OUT)


def summary(result: Result) -> Iterator[str]:
    """Yield lines for people: the predicted rows, the metrics, and the paths."""
    places = result.places
    if result.done:
        yield f"{result.path} is up to date: it was made from the same input and configuration"
    else:
        splits = ", ".join(f"{rows:,} of {split}" for split, rows in result.rows.items())
        of = f" ({splits})" if result.split else ""
        yield f"rows       {sum(result.rows.values()):,}{of} in {_count(result.files, 'file')}"
        if bad := said(result.bad_rows):
            yield f"bad rows   {bad}; they are in {filesystem.join(result.path, places.bad_rows)}"
    if result.metrics is not None:
        names = ("accuracy", "log_loss", "auc", "f1", "mean_absolute_error", "mean_squared_error", "r2")
        yield "metrics    " + written({name: result.metrics[name] for name in names if name in result.metrics})
        yield f"           {filesystem.join(result.path, places.metrics)}"
    if result.classes:
        more = f", and {len(result.classes) - _CLASSES:,} more" if len(result.classes) > _CLASSES else ""
        yield f"classes    {printable(', '.join(result.classes[:_CLASSES]))}{more}: the order of `probabilities`"
    yield f"predicted  {places.folder(result.path)}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


COMMAND = Command(
    name="predict",
    summary="Run batch inference on Spark, on prepared or raw rows. If rows have labels, it also computes metrics.",
    config=PredictConfig,
    run=run,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
