"""`sparksplit diagnose`, and `spark-submit jobs/diagnose.py`: where the time of a run goes, and what would help."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from rich.console import Console

from hdfs_io import filesystem
from sparksplit.base.config import Config
from sparksplit.base.errors import ConfigError
from sparksplit.base.options import Options
from sparksplit.base.records import Json
from sparksplit.commands.command import Command
from sparksplit.diagnosis.apply import SAFE_TO_PREPARE, ConfigFile
from sparksplit.diagnosis.page import PAGE, render
from sparksplit.diagnosis.preprocess.page import render as render_preparation
from sparksplit.diagnosis.preprocess.record import PreprocessDiagnosis
from sparksplit.diagnosis.preprocess.run import diagnose_preprocess
from sparksplit.diagnosis.preprocess.text import show as show_preparation
from sparksplit.diagnosis.record import DIAGNOSIS, Diagnosis, of
from sparksplit.diagnosis.run import claimed, diagnose, leave
from sparksplit.diagnosis.text import show
from sparksplit.prepare.config import PreprocessConfig
from sparksplit.training.config import TrainConfig
from sparksplit.training.report import versions


def kind(keys: Collection[str]) -> type[Config]:
    """What a configuration with these keys is of: `preprocess`, which alone has `input`, or `train`. Raises ConfigError
    for one of `compare`, which alone has `strategies`."""
    if "strategies" in keys:
        raise ConfigError("strategies: is a key of compare; diagnose takes a configuration of train or of preprocess")
    if "input" in keys:
        return PreprocessConfig
    return TrainConfig


def run(config: Config, options: Options) -> None:
    """Measure, keep what was found, and print it on standard output."""
    if isinstance(config, TrainConfig):
        _training(config, options)
    else:
        assert isinstance(config, PreprocessConfig)
        _preparation(config, options)


def _training(config: TrainConfig, options: Options) -> None:
    file = ConfigFile(config.origin) if options.apply else None
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
        content = json.dumps(record.to_json(), indent=1).encode() + b"\n"
        path = leave(output, {DIAGNOSIS: content, PAGE: render(record).encode()})
    show(record, Console(), [filesystem.join(path, PAGE), filesystem.join(path, DIAGNOSIS)])
    if file is not None:
        _apply(file, record)


def _apply(file: ConfigFile, record: Diagnosis) -> None:
    """Write what was recommended, if it helps."""
    if record.recommended is None or not record.recommended.helps:
        print(f"--apply: {file.file} stays as it is: nothing was measured to help that leaves the weights the same")
        return
    applied = file.write(record.recommended.settings)
    for line in (*applied.changed, *applied.left):
        print(line)


def _preparation(config: PreprocessConfig, options: Options) -> None:
    file = ConfigFile(config.origin, SAFE_TO_PREPARE) if options.apply else None
    with claimed(config, config.output) as output:
        record = diagnose_preprocess(config)
        content = json.dumps(record.to_json(), indent=1).encode() + b"\n"
        path = leave(output, {DIAGNOSIS: content, PAGE: render_preparation(record).encode()})
    show_preparation(record)
    print(f"diagnosis  {filesystem.join(path, PAGE)}, {filesystem.join(path, DIAGNOSIS)}")
    if file is not None:
        _write(file, record)


def _write(file: ConfigFile, record: PreprocessDiagnosis) -> None:
    """Write the settings of a preparation that were measured to help, and say what else is to be done."""
    helpful = [each for each in record.tried if each.helps]
    settings: dict[str, Json] = {}
    for each in helpful:
        settings.update({key: value for key, value in each.settings.items() if not key.startswith("spark.")})
        for key, value in each.settings.items():
            if key.startswith("spark."):
                print(
                    f"--apply: {key} is a setting of Spark: give --conf {key}={value} to spark-submit, or set it "
                    "in spark-defaults.conf"
                )
    if not settings:
        print(f"--apply: {file.file} stays as it is: none of its keys was measured to help")
        return
    applied = file.write(settings)
    for line in (*applied.changed, *applied.left):
        print(line)


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
    """Run the command; returns its exit status."""
    return COMMAND.main(argv)
