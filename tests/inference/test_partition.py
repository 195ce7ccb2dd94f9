"""Predictions as a table's partition: its folder, and what is refused before anything is written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hdfs_io.publish import Output
from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError, UsageError
from sparksplit.dataset.description import LabelSpec
from sparksplit.inference import partition
from sparksplit.inference.predict import _columns
from sparksplit.inference.predict_config import PredictConfig
from tests.hdfs_io.outputs import names, stage


def config(output: object, values: Any) -> PredictConfig:
    return parse(PredictConfig, {"model": "m", "input": "i", "output": f"{output}", "partition": values})


def test_columns_make_folders_in_the_order_given() -> None:
    assert partition.folder_of(config("/t", {"ds": "2026-11-22"})) == "/t/ds=2026-11-22"
    assert partition.folder_of(config("hdfs://n:1/t", {"year": 2026, "land": "at"})) == "hdfs://n:1/t/year=2026/land=at"
    assert partition.folder_of(config("/t", None)) == "/t"


def test_a_date_is_text_in_yaml_and_in_set(tmp_path: Path) -> None:
    file = tmp_path / "predict.yaml"
    file.write_text("model: m\ninput: i\noutput: o\npartition: {ds: 2026-11-22}\n")
    assert load(PredictConfig, f"{file}").partition == {"ds": "2026-11-22"}
    assert load(PredictConfig, f"{file}", ["partition.ds=2026-11-23"]).partition == {"ds": "2026-11-23"}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({}, "must name a column and its value"),
        ({"ds": ""}, r"ds: a value is made of letters, digits, _, - and \. \(is ''\)"),
        ({"ds": "a/b"}, r"\(is 'a/b'\)"),
        ({"ds": "2026-11-22 00:00"}, "ds: a value is made of"),
        ({"_ds": "1"}, "a column's name is made of letters, digits and _, and begins with a letter"),
        ({"ds": "1", "DS": "1"}, "names a column twice"),
        ({"hour": 8.0}, "partition"),
    ],
)
def test_what_is_no_partition_is_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        config("/t", values)


def test_a_table_is_partitioned_by_the_same_columns_everywhere(tmp_path: Path) -> None:
    for name in ("ds=1", "ds=2", ".ds=3.staging-1", "_temporary"):
        (tmp_path / name).mkdir()
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "ds=1" / "land=at").mkdir()
    partition.check(config(tmp_path, {"ds": "3"}), ["row_id"])
    partition.check(config(tmp_path, {"ds": "1", "land": "de"}), ["row_id"])
    with pytest.raises(ConfigError, match=r"partition: .*: holds ds=1, which is not a partition of day"):
        partition.check(config(tmp_path, {"day": "3"}), [])
    with pytest.raises(ConfigError, match=r"partition: .*/ds=1: holds land=at, which is not a partition of hour"):
        partition.check(config(tmp_path, {"ds": "1", "hour": 3}), [])
    with pytest.raises(ConfigError, match=r"partition\.Row_Id: is also a column of the predictions"):
        partition.check(config(tmp_path, {"Row_Id": 3}), ["row_id"])
    (tmp_path / "part-0.parquet").touch()
    with pytest.raises(ConfigError, match=r"holds part-0\.parquet, which is not a partition of ds"):
        partition.check(config(tmp_path, {"ds": "3"}), [])


@pytest.mark.parametrize(
    ("kept", "values", "message"),
    [
        (["Split"], {"ds": 1}, "keep: the column name 'Split' is taken by the predictions"),
        (["id", "prediction_name"], {"ds": 1}, "keep: the column name 'prediction_name' is taken by the predictions"),
        (["id", "DS"], {"ds": 1}, r"partition\.ds: is also a column of the predictions"),
    ],
)
def test_columns_that_the_model_keeps_take_no_other_ones_place(
    tmp_path: Path, kept: list[str], values: dict[str, Any], message: str
) -> None:
    label = LabelSpec(dtype="int64", kind="text", shape=[], classes=["a", "b"])
    trained: Any = SimpleNamespace(description=SimpleNamespace(label=label), path="/run")
    rows: Any = SimpleNamespace(kept=kept, label=None, splits=["train", "test"], place="/rows")
    with pytest.raises(ConfigError, match=message):
        _columns(config(tmp_path, values), rows, trained)
    rows.kept = ["id"]
    assert _columns(config(tmp_path, values), rows, trained).keep == ["id"]


def test_a_partition_is_replaced_alone_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    folders = [partition.folder_of(config(tmp_path / "t", {"ds": day})) for day in ("1", "2")]
    for folder in folders:
        stage(Output(folder, "a", "predict"), "first")
    assert Output(folders[0], "a", "predict").decide() == "done"
    with pytest.raises(UsageError, match="ds=1: exists, made with another configuration; --overwrite replaces it"):
        Output(folders[0], "b", "predict").decide()
    stage(Output(folders[0], "b", "predict"), "second")
    assert [Path(folder, "metrics.json").read_text() for folder in folders] == ["second", "first"]
    assert names(tmp_path / "t") == ["ds=1", "ds=2"]
    (tmp_path / "t" / "ds=3").mkdir()
    (tmp_path / "t" / "ds=3" / "part-0.parquet").touch()  # Hive's own
    with pytest.raises(UsageError, match="exists and is not an output of sparksplit"):
        Output(f"{tmp_path}/t/ds=3", "a", "predict").decide(overwrite=True)
