"""`sparksplit quickstart`: preprocess, train, predict and compare on a small real data set, on this machine."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pydantic

from hdfs_io import filesystem
from hdfs_io.marks import SUCCESS
from sparksplit.base.config import Config, merged
from sparksplit.base.errors import InputError
from sparksplit.base.options import Options
from sparksplit.base.progress import say
from sparksplit.base.shipped import shipped
from sparksplit.base.shown import OUT
from sparksplit.commands import compare, predict, preprocess, train
from sparksplit.commands.command import Command
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.content import REPORT
from sparksplit.comparison.plan import plan
from sparksplit.inference.partition import folder_of
from sparksplit.inference.predict_config import PredictConfig
from sparksplit.inference.writer import places_of
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.spark.session import spark_session
from sparksplit.training.run_record import RUN, RunRecord
from sparksplit.training.train_config import TrainConfig


class QuickstartConfig(Config):
    """The configurations of four commands in one file. The paths between the commands are filled in."""

    output: str = "quickstart-output"
    """Output folder for prepared/, run/, predictions/ and comparison/."""
    preprocess: PreprocessConfig
    """Keys of `sparksplit preprocess`. By default, input.path is scikit-learn's digits, and output is prepared/."""
    train: TrainConfig
    """Keys of `sparksplit train`. By default, data is prepared/, and output is run/."""
    predict: PredictConfig
    """Keys of `sparksplit predict`. By default, model is run/, input is prepared/, and output is predictions/."""
    compare: CompareConfig
    """Keys of `sparksplit compare`. By default, data is prepared/, and output is comparison/."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        output = values.get("output", cls.model_fields["output"].default) if isinstance(values, dict) else None
        if not isinstance(output, str):
            return values
        prepared, run, predictions, comparison = (
            filesystem.join(output, name) for name in ("prepared", "run", "predictions", "comparison")
        )
        paths = {
            "preprocess": {"input": {"path": digits()}, "output": prepared},
            "train": {"data": prepared, "output": run},
            "predict": {"model": run, "input": prepared, "output": predictions},
            "compare": {"data": prepared, "output": comparison},
        }
        return merged(paths, values)


def digits() -> str:
    """Return the path of the handwritten digits in scikit-learn: rows of 64 pixels (0 to 16) and the digit, as CSV.

    Source: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998.
    Raise InputError if the file is not found, because scikit-learn is not installed.
    """
    spec = importlib.util.find_spec("sklearn")  # finds the package without the import, which would take a second
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return str(file)
    raise InputError("scikit-learn's handwritten digits were not found: pip install scikit-learn")


def run(config: QuickstartConfig, options: Options) -> None:
    """Run the commands one after the other in one Spark session, and print the paths of their outputs."""
    plan(config.compare)  # a mistake in a strategy is reported before anything runs
    nodes, last = config.train.processes, filesystem.join(config.compare.output, SUCCESS)
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("preprocess: the digits to a prepared data set", lambda: preprocess.run(config.preprocess, options)),
        (f"train: {nodes} nodes, strategy: {config.train.strategy}", lambda: train.run(config.train, options)),
        ("predict: the test split", lambda: predict.run(config.predict, options)),
        ("compare: strategies for distributed training", lambda: compare.run(config.compare, options)),
    )
    executors = max(nodes, *config.compare.nodes, config.preprocess.executors, config.predict.executors)
    # If everything is there already, no command will ask for Spark.
    with (
        nullcontext()
        if filesystem.exists(last) and not options.overwrite
        else spark_session("sparksplit quickstart", executors)
    ):
        for number, (name, step) in enumerate(steps, start=1):
            say(f"\n{number} of {len(steps)}, {name}")
            step()
    print("\n" + "\n".join(_summary(config)), file=OUT)


def _summary(config: QuickstartConfig) -> Iterator[str]:
    run, predictions = config.train.output, folder_of(config.predict)
    places = places_of(predictions)
    record = RunRecord.read(run)
    accuracy = filesystem.read_json(filesystem.join(predictions, places.metrics))["accuracy"]
    ledger = "exact: every row once per epoch" if record.ledger.exact else "NOT exact"
    yield f"test accuracy  {accuracy:.2%} of rows that no node was trained on"
    yield f"ledger         {ledger} ({record.ledger.rows:,} rows in {record.epochs} epochs)"
    yield f"prepared data  {config.preprocess.output}"
    yield f"model          {filesystem.join(run, 'model.keras')}"
    yield f"               {filesystem.join(run, 'saved_model')} (for TensorFlow Serving)"
    yield f"metrics        {filesystem.join(run, RUN)}, {filesystem.join(predictions, places.metrics)}"
    yield f"predictions    {places.folder(predictions)}"
    yield f"report         {filesystem.join(config.compare.output, REPORT)} (open it: which strategy to use)"
    yield ""
    yield "To go on:"
    yield from _further(config)


def _further(config: QuickstartConfig) -> Iterator[str]:
    """Yield commands to try next."""
    yield f"  {_program('tensorboard')} --logdir {filesystem.join(config.train.output, 'tensorboard')}"
    yield (
        f"  {_program('sparksplit')} quickstart --set output=quickstart-single --set train.strategy=single"
        " --set train.nodes=1"
    )
    yield f"  {_program('sparksplit')} train --help"


def _program(name: str) -> str:
    """Return how to call an installed program: its path beside the Python interpreter, or else its name."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else name


COMMAND = Command(
    name="quickstart",
    summary="Try preprocess, train, predict and compare on scikit-learn's handwritten digits. It runs on this machine "
    "and needs no cluster.",
    config=QuickstartConfig,
    run=run,
    default_config=lambda: shipped("conf/quickstart.yaml"),
    resumable=True,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
