"""What version 0.1 has left (tests/data/0.1): read, or refused with what to do."""

from __future__ import annotations

import csv
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdfs_io.prepared import PreparedDataSet
from hdfs_io.row_ids import row_checksum
from sparksplit.base.command import Options
from sparksplit.base.config import parse
from sparksplit.commands import preprocess, train
from sparksplit.inference.trained import TrainedModel, load, probabilities
from sparksplit.training.config import TrainConfig
from sparksplit.training.run import train as train_run

ROWS = {"train": 36, "validation": 11, "test": 13}
TRAIN = {
    "model": {"build": "mlp", "params": {"hidden": [4]}},
    "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9},
    "batch_size": 8,
    "epochs": 2,
    "nodes": 1,
    "strategy": "batch",
    "seed": 1,
}
"""The configuration of `run`, in today's words."""


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A copy of all that 0.1 has left."""
    shutil.copytree(Path(__file__).parent / "data" / "0.1", tmp_path / "0.1")
    return tmp_path / "0.1"


def rows_of(data: PreparedDataSet, split: str) -> tuple[Any, Any, Any]:
    """(row_ids, values, labels) of a split."""
    with data.split(split).reader() as reader:
        lanes = [lane for lane, rows in enumerate(data.manifest.splits[split].lane_rows) if rows]
        blocks = [reader.read(lane, 0) for lane in lanes]
    return (
        np.concatenate([block.row_ids for block in blocks]),
        np.concatenate([block.tensors["x"] for block in blocks]),
        np.concatenate([block.label for block in blocks if block.label is not None]),
    )


def recorded(left: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((left / "run" / "run.json").read_text())
    return values


def test_its_prepared_data_set_is_read(left: Path) -> None:
    data = PreparedDataSet.open(str(left / "prepared"))
    found: Counter[tuple[float, ...]] = Counter()
    for split, rows in ROWS.items():
        ids, values, labels = rows_of(data, split)
        assert len(ids) == rows and row_checksum(ids) == data.manifest.splits[split].checksum
        found.update((*map(float, value), float(label)) for value, label in zip(values, labels, strict=True))
    with (left / "raw" / "rows.csv").open() as file:
        _, *raw = csv.reader(file)
    assert found == Counter(tuple(map(float, row)) for row in raw)


def test_its_prepared_data_set_is_trained_on_as_by_0_1(forked: None, left: Path, tmp_path: Path) -> None:
    keys = {**TRAIN, "data": str(left / "prepared"), "output": str(tmp_path / "new")}
    result = train_run(parse(TrainConfig, keys), Options()).to_json()
    earlier = recorded(left)
    assert result["data"]["digest"] == earlier["data"]["digest"]
    assert result["ledger"] == earlier["ledger"]
    for split in ROWS:
        assert result["metrics"][split]["loss"] == pytest.approx(earlier["metrics"][split]["loss"], rel=1e-4)


def test_the_same_command_for_its_data_set_says_what_to_do(left: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["input.format=csv", f"input.path={left}/raw", f"output={left}/prepared", "lanes=4", "validation=0.2"]
    keys += ["test=0.2", "scaling=standard", "scaling_by=feature"]
    assert preprocess.main([part for key in keys for part in ("--set", key)]) == 2
    line = f"sparksplit preprocess: {left}/prepared: exists, made with another configuration; --overwrite replaces it\n"
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize(
    ("output", "options", "words"),
    [
        ("run", [], "exists, made with another configuration; --overwrite replaces it"),
        ("run", ["--resume"], "exists, made with another configuration; --overwrite replaces it"),
        (
            "begun",
            ["--resume"],
            "cannot be resumed: it was begun with another configuration; without --resume it is begun anew",
        ),
    ],
)
def test_its_runs_stay_and_the_line_says_what_to_do(
    left: Path, capsys: pytest.CaptureFixture[str], output: str, options: list[str], words: str
) -> None:
    own = {"epochs": 3000, "checkpoint": {"keep": 1}} if output == "begun" else {}
    keys = {**TRAIN, **own, "data": str(left / "prepared"), "output": str(left / output)}
    before = sorted(left.rglob("*"))
    assert train.main([*(part for key in keys.items() for part in ("--set", setting(*key))), *options]) == 2
    assert capsys.readouterr() == ("", f"sparksplit train: {left}/{output}: {words}\n")
    assert sorted(left.rglob("*")) == before


def setting(key: str, value: object) -> str:
    return f"{key}={json.dumps(value)}"


def test_its_model_predicts_what_it_did(left: Path) -> None:
    trained = TrainedModel.open(str(left / "run"))
    _, values, labels = rows_of(PreparedDataSet.open(str(left / "prepared")), "test")
    shares = probabilities(load(trained, threads=1)({"x": values}), 2, trained.logits)
    wanted = recorded(left)["metrics"]["test"]
    assert np.mean(shares.argmax(axis=-1) == labels) == pytest.approx(wanted["accuracy"])
    assert -np.log(shares[np.arange(len(labels)), labels]).mean() == pytest.approx(wanted["loss"], rel=1e-4)
