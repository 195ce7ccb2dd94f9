"""`sparksplit diagnose`, and `spark-submit jobs/diagnose.py`: where the time of a run goes, and what would help."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.config import Config
from sparksplit.base.errors import ConfigError
from sparksplit.base.options import Options
from sparksplit.base.records import Record
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.diagnosis import tables
from sparksplit.diagnosis.answer import Answer
from sparksplit.diagnosis.apply import ConfigFile
from sparksplit.diagnosis.diagnose import claimed, diagnose, leave
from sparksplit.diagnosis.diagnosis_record import DIAGNOSIS, of
from sparksplit.diagnosis.page import PAGE, render
from sparksplit.diagnosis.preprocess.diagnose_preprocess import diagnose_preprocess
from sparksplit.diagnosis.preprocess.page import parts_table
from sparksplit.diagnosis.preprocess.page import render as render_preparation
from sparksplit.diagnosis.words import words
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.training.report import versions
from sparksplit.training.train_config import TrainConfig


def kind(keys: Collection[str]) -> type[Config]:
    """Return the configuration class for these top keys: of `preprocess` if `input` is among them, otherwise of
    `train`.

    Raise ConfigError for a configuration of `compare`, which has `strategies`.
    """
    if "strategies" in keys:
        raise ConfigError("strategies: is a key of compare; diagnose takes a configuration of train or of preprocess")
    if "input" in keys:
        return PreprocessConfig
    return TrainConfig


def run(config: Config, options: Options) -> None:
    """Measure, save the record, and print it on standard output."""
    if isinstance(config, TrainConfig):
        _training(config, options)
    else:
        assert isinstance(config, PreprocessConfig)
        _preparation(config, options)


def _training(config: TrainConfig, options: Options) -> None:
    file = ConfigFile(config.origin, TrainConfig) if options.apply else None
    began = time.monotonic()
    with claimed(config, config.output) as output:
        measured = diagnose(config)
        record = of(
            config,
            measured,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=time.monotonic() - began,
            hosts=measured.facts.hosts,
            versions=versions(),
        )
        files = _left(output, record, render(record))
    _show(record.answer, tables.on_terminal(tables.parts(record)), files)
    _apply(file, record.answer)


def _preparation(config: PreprocessConfig, options: Options) -> None:
    file = ConfigFile(config.origin, PreprocessConfig) if options.apply else None
    with claimed(config, config.output) as output:
        record = diagnose_preprocess(config)
        files = _left(output, record, render_preparation(record))
    _show(record.answer, tables.on_terminal(parts_table(record)), files)
    _apply(file, record.answer)


def _show(answer: Answer, table: Table, files: Sequence[str]) -> None:
    """Print a table of the page, the answer, and the files that hold everything."""
    Console(file=OUT, width=max(120, Console(file=OUT).width), highlight=False).print(table)
    page, record = files
    print("", *words(answer), f"page: {page}, figures: {record}", sep="\n", file=OUT)


def _left(output: Output, record: Record, page: str) -> list[str]:
    """Write the record and its page. Return the paths of both files."""
    content = json.dumps(record.to_json(), indent=1).encode() + b"\n"
    path = leave(output, {DIAGNOSIS: content, PAGE: page.encode()})
    return [filesystem.join(path, PAGE), filesystem.join(path, DIAGNOSIS)]


def _apply(file: ConfigFile | None, answer: Answer) -> None:
    """Write the settings that help, and print how to set Spark's settings among them. Without a file, do nothing."""
    if file is None:
        return
    settings = {key: value for advice in answer.keeping if advice.helps for key, value in advice.settings.items()}
    for key in [key for key in settings if key.startswith("spark.")]:
        value = settings.pop(key)
        print(f"--apply: {key} is a setting of Spark: give --conf {key}={value} to spark-submit", file=OUT)
    applied = file.write(settings)
    if not settings:
        print(f"--apply: {file.file} stays as it is: no setting that may be written was found to help", file=OUT)
    for line in (*applied.changed, *applied.left):
        print(line, file=OUT)


COMMAND = Command(
    name="diagnose",
    summary="Measure where the time of train or preprocess goes, and what would help. It measures by leaving parts of "
    "the work out. --config names a configuration of train or preprocess; the result is written beside its output. The "
    "keys below belong to train; preprocess --help lists the keys of preprocess.",
    config=TrainConfig,
    run=run,
    overwrites=False,
    applies=True,
    config_of=kind,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
