"""What version 0.1 has left (tests/data/0.1): refused with what to do, and the same again when it is made anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sparksplit.base.errors import InputError
from sparksplit.commands import preprocess, train
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.inference.trained import TrainedModel

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


KEYS = ["input.format=csv", "lanes=4", "validation=0.2", "test=0.2", "scaling=standard", "scaling_by=feature"]
ANEW = "format version 1 is not known; this sparksplit reads 3: make it anew, or use the sparksplit that made it"


def prepare(left: Path, output: Path) -> int:
    """`preprocess` of its raw rows, as 0.1 was called."""
    keys = [*KEYS, f"input.path={left}/raw", f"output={output}"]
    return preprocess.main([part for key in keys for part in ("--set", key)])


def test_its_prepared_data_set_is_refused(left: Path) -> None:
    with pytest.raises(InputError, match=rf"prepared/manifest\.json: {ANEW}"):
        PreparedDataSet.open(str(left / "prepared"))


@pytest.mark.cluster
def test_its_rows_prepared_anew_have_the_same_ids_and_lanes(spark: SparkSession, left: Path, tmp_path: Path) -> None:
    """Though they are cut otherwise: 0.1 kept equal rows together."""
    assert prepare(left, tmp_path / "prepared") == 0
    new = [split.model_dump() for split in PreparedDataSet.open(f"{tmp_path}/prepared").manifest.splits.values()]
    old = list(json.loads((left / "prepared" / "manifest.json").read_text())["splits"].values())
    for key in ("rows", "checksum"):
        assert sum(split[key] for split in new) % 2**64 == sum(split[key] for split in old) % 2**64
    lanes = [np.sum([split["lane_rows"] for split in splits], axis=0).tolist() for splits in (new, old)]
    assert lanes[0] == lanes[1]


def test_the_same_command_for_its_data_set_says_what_to_do(left: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(left, left / "prepared") == 2
    line = f"sparksplit preprocess: {left}/prepared: exists, made with another configuration; --overwrite replaces it\n"
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize(("output", "options"), [("run", []), ("run", ["--resume"]), ("begun", ["--resume"])])
def test_its_runs_stay_and_the_line_says_what_to_do(
    left: Path, capsys: pytest.CaptureFixture[str], output: str, options: list[str]
) -> None:
    own = {"epochs": 3000, "checkpoint": {"keep": 1}} if output == "begun" else {}
    keys = {**TRAIN, **own, "data": str(left / "prepared"), "output": str(left / output)}
    before = sorted(left.rglob("*"))
    assert train.main([*(part for key in keys.items() for part in ("--set", setting(*key))), *options]) == 2
    assert capsys.readouterr() == ("", f"sparksplit train: {left}/prepared/manifest.json: {ANEW}\n")
    assert sorted(left.rglob("*")) == before


def setting(key: str, value: object) -> str:
    return f"{key}={json.dumps(value)}"


def test_its_model_is_refused(left: Path) -> None:
    with pytest.raises(InputError, match=rf"run/preprocessing\.json: {ANEW}"):
        TrainedModel.open(str(left / "run"))
