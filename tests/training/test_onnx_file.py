"""Who may add model.onnx to a run, and what MLflow is told if that fails. Nothing is converted here."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hdfs_io import lease
from hdfs_io.publish import Output
from sparksplit.base.config import parse
from sparksplit.base.errors import RunError
from sparksplit.base.options import Options
from sparksplit.training import onnx_file
from sparksplit.training import train as train_module
from sparksplit.training.run_record import RunRecord
from sparksplit.training.train_config import TrainConfig
from tests.training.tracking.conftest import finished

__all__ = ["finished"]


@pytest.fixture
def converting(finished: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the right to fill the output was held, for each conversion."""
    held: list[bool] = []

    def convert(run: str, saved: str, target: str) -> None:
        held.append(lease.read(lease.file_of(run)) is not None)
        Path(target).write_bytes(b"onnx")

    monkeypatch.setattr(onnx_file, "_convert", convert)
    return held


def test_the_output_is_held_while_the_model_is_converted(finished: Path, converting: list[bool]) -> None:
    before = {path.name for path in finished.iterdir()}
    onnx_file.add(Output(str(finished), "h", "train"), RunRecord.read(str(finished)))
    assert converting == [True] and (finished / "model.onnx").read_bytes() == b"onnx"
    assert {path.name for path in finished.iterdir()} == {*before, "model.onnx"}
    assert [path.name for path in finished.parent.iterdir()] == ["run"]


def test_another_run_that_has_replaced_this_one_does_not_get_its_file(finished: Path, converting: list[bool]) -> None:
    record = replace(RunRecord.read(str(finished)), weights="others")
    with pytest.raises(RunError, match=r"another run has replaced this run, so model\.onnx was not made$"):
        onnx_file.add(Output(str(finished), "h", "train"), record)
    assert converting == [] and not (finished / "model.onnx").exists()


def test_the_conversion_does_not_outlive_the_driver() -> None:
    """The driver has ended before the process began: its parent is another process."""
    command = [sys.executable, "-m", "sparksplit.model.to_onnx", "no model", "no file", "1"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.strip()) == (1, "the parent has ended")


def test_mlflow_is_not_told_that_a_run_without_its_file_is_complete(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    class Tracker:
        def __init__(self, *_: Any) -> None:
            """Nothing."""

        def failed(self, error: BaseException) -> None:
            told.append(str(error))

        def finished(self, *_: Any) -> None:
            told.append("finished")

    def add(*_: Any) -> None:
        raise RunError("no file")

    monkeypatch.setattr(train_module, "tracking", lambda _: (True, None))
    monkeypatch.setattr(train_module, "Tracker", Tracker)
    monkeypatch.setattr(train_module, "_trained", lambda *_: (RunRecord.read(str(finished)), None))
    monkeypatch.setattr(onnx_file, "add", add)
    config = parse(TrainConfig, {"data": "d", "output": "o", "export": "onnx"})
    with pytest.raises(RunError, match="no file"):
        train_module.train(config, Options())
    assert told == ["no file"]
