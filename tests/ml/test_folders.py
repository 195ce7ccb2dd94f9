"""Where fits keep their files, and what becomes of the prepared data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparksplit import ConfigError, InputError, RunError
from sparksplit.api import frames
from sparksplit.ml import SparkSplitClassifier, SparkSplitRegressor
from sparksplit.ml.estimator import TrainingEstimator
from sparksplit.ml.folders import check_reach, qualified


@pytest.mark.parametrize("master", ["yarn", "spark://host:7077", "k8s://https://host"])
def test_executors_on_other_hosts_need_a_folder_that_they_reach(master: str) -> None:
    check_reach(master, "hdfs://host/user/me")
    with pytest.raises(ConfigError, match=f"workDir: must be set with the master {master}, to a folder that"):
        check_reach(master, "")


@pytest.mark.parametrize("master", ["local[*]", "local-cluster[2,1,1024]"])
def test_a_master_on_this_machine_needs_none(master: str) -> None:
    check_reach(master, "")


def test_a_plain_path_is_on_sparks_file_system(spark: SparkSession) -> None:
    for path in ("/a/b c%20", "file:///a/b c%20"):
        assert qualified(spark.sparkContext, path) == "/a/b c%20"


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1.0, 0, "a"), (2.0, 1, "b")], "x double, label int, city string")


@pytest.mark.parametrize(("keep", "left"), [(False, []), (True, ["data"])])
def test_a_failed_fit_leaves_no_data(
    frame: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool, left: list[str]
) -> None:
    def prepared(self: Any, rows: Any, roles: Any, folder: str) -> None:
        (Path(folder) / "train").mkdir(parents=True)
        (Path(folder) / "_SUCCESS").write_text("")

    def failed(*_: Any) -> str:
        raise RunError("a node is gone")

    monkeypatch.setattr(TrainingEstimator, "_prepare", prepared)
    monkeypatch.setattr(TrainingEstimator, "_train", failed)
    with pytest.raises(RunError, match="a node is gone"):
        SparkSplitRegressor(featuresCol="x", workDir=f"{tmp_path}", keepData=keep).fit(frame)
    assert [path.name for path in tmp_path.glob("*/*")] == left and bool(list(tmp_path.iterdir())) == keep


def test_data_that_cannot_be_removed_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def busy(path: str) -> None:
        raise InputError(f"{path}: cannot be removed: busy")

    monkeypatch.setattr(frames, "remove_data", busy)
    frames.tidied("/prepared/data")
    assert "/prepared/data: the prepared data is still there, please remove it" in capsys.readouterr().err


def test_what_fit_knows_is_refused_before_the_rows_are_prepared(frame: DataFrame, tmp_path: Path) -> None:
    work: dict[str, Any] = {"workDir": f"{tmp_path}/work"}
    with pytest.raises(ConfigError, match="early_stop: needs validation rows; set validation or"):
        SparkSplitClassifier(featuresCol="x", early_stop={"patience": 2}, **work).fit(frame)
    with pytest.raises(ConfigError, match=r'model\.build: mlp needs one tensor .*; use model="tabular"'):
        SparkSplitClassifier(featuresCol=["x", "city"], **work).fit(frame)
    assert not list((tmp_path / "work").glob("*/data"))


def test_an_empty_name_is_no_column(frame: DataFrame) -> None:
    rows, roles = SparkSplitClassifier(featuresCol="x", weightCol="", validationIndicatorCol="")._selected(frame)
    assert rows.columns == ["x", "label"] and roles["input"]["weight"] is None and "cut" not in roles
