"""`fit` where the labels are a column of a DataFrame."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import sparksplit
from sparksplit import ConfigError
from sparksplit.api.fit_frames import arrays_of, check_classes, frame_of
from sparksplit.api.fit_rows import SPARSE, Target
from sparksplit.dataset.description import LabelSpec

CLASSES = Target(SPARSE, (3,), ["in"])
NUMBERS = Target("mean_squared_error", (1,), ["in"])
RANDOM = np.random.default_rng(2)
X = RANDOM.normal(size=(160, 2)).astype(np.float32)
TABLE = pd.DataFrame(X, columns=["a", "b"]).assign(w=1.0 + np.arange(160) % 2, y=np.arange(160) % 3)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    columns = [sql.col(name).cast("float") for name in "ab"]
    return spark.createDataFrame(TABLE).select(*columns, "w", sql.col("y").cast("int").alias("y")).coalesce(2)


def classifier() -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3, "softmax")])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), SPARSE, metrics=["acc"])
    return model


def test_columns_of_pandas_become_arrays() -> None:
    held = TABLE[["y", "w", "b", "a"]].head(7)
    x, y, weight, validation = arrays_of(TABLE, "y", "w", (held, "y", "w"))
    assert list(x.columns) == list(validation[0].columns) == ["a", "b"]
    assert (y.to_list(), weight.to_list()) == (TABLE["y"].to_list(), TABLE["w"].to_list())
    assert validation[1].to_list() == [0, 1, 2, 0, 1, 2, 0] and validation[2].to_list() == [1, 2, 1, 2, 1, 2, 1]
    others = X[:3], np.zeros(3)
    assert arrays_of(TABLE, "y", None, others)[3] is others
    assert list(arrays_of(TABLE, "y", None, None)[0].columns) == ["a", "b", "w"]


@pytest.mark.parametrize(
    ("x", "y", "weight", "validation", "said"),
    [
        (X, "y", None, None, r"y: is the column 'y', so x must be a DataFrame of Spark or pandas \(is ndarray\)"),
        (TABLE, "yy", None, None, r"x: has no column 'yy'; it has a, b, w, y; did you mean 'y'\?"),
        (TABLE, "y", "weight", None, "x: has no column 'weight'"),
        (TABLE, "y", None, (X, "y"), r"validation_data: its x must be a pandas frame, as x is \(is ndarray\)"),
        (TABLE, "y", None, (TABLE[["a", "y"]], "y"), r"must have the columns of x; .* alone: \['b', 'w'\]"),
    ],
)
def test_frames_of_pandas_that_do_not_fit(x: Any, y: Any, weight: Any, validation: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        arrays_of(x, y, weight, validation)


def test_keys_of_a_frame_of_spark(frame: DataFrame) -> None:
    rows, keys = frame_of(frame, "y", CLASSES, sample_weight="w", validation_split=0.2)
    assert rows is frame and keys == {
        **{"label": "y", "label_type": "integer", "weight": "w", "validation": 0.2, "label_scaling": "none"}
    }
    rows, keys = frame_of(frame.where("w > 1"), "y", NUMBERS, validation_data=(frame.where("w = 1"), "y"))
    assert keys["label_type"] == "number" and keys["validation"] == "sparksplit_split"
    assert rows.columns == [*frame.columns, "sparksplit_split"]


@pytest.mark.parametrize(
    ("y", "more", "said"),
    [
        (TABLE["y"], {}, r"y: must be the name of the label's column, because x is a DataFrame \(is Series\)"),
        ("z", {}, "x: has no column 'z'; it has a, b, w, y"),
        ("y", {"shuffle": False}, "shuffle: must be True, because rows of Spark have no order; give arrays"),
        ("y", {"class_weight": {0: 2}}, "class_weight: must be left out, .* name a column as sample_weight"),
        ("y", {"sample_weight": TABLE["w"]}, r"sample_weight: must be the name of a column, .* \(is Series\)"),
        ("y", {"validation_data": (X, "y")}, r"validation_data: must be \(a DataFrame of Spark, 'y'\)"),
        ("y", {"sample_weight": "w", "validation_data": ("x", "y")}, r"\(a DataFrame of Spark, 'y', 'w'\)"),
    ],
)
def test_what_a_frame_of_spark_cannot_do(frame: DataFrame, y: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        frame_of(frame, y, CLASSES, **more)


def test_validation_rows_have_the_same_columns(frame: DataFrame) -> None:
    with pytest.raises(ConfigError, match=r"validation_data: x: must have the columns of x; .* alone: \['w'\]"):
        frame_of(frame, "y", CLASSES, validation_data=(frame.drop("w"), "y"))
    texts = frame.withColumn("a", sql.col("a").cast("string"))
    with pytest.raises(ConfigError, match="column 'a' is string, but in x it is float"):
        frame_of(frame, "y", CLASSES, validation_data=(texts, "y"))


@pytest.mark.parametrize("classes", [["0", "2"], ["1", "2", "3"], None])
def test_classes_are_the_numbers_of_the_outputs(classes: Any) -> None:
    def manifest(classes: Any) -> Any:
        return SimpleNamespace(label=LabelSpec(dtype="int64", classes=classes))

    check_classes(manifest(["0", "1", "2"]), CLASSES)
    check_classes(manifest(classes), NUMBERS)
    with pytest.raises(ConfigError, match=r"y: the training labels must be .* from 0 to 2, and each must occur \(they"):
        check_classes(manifest(classes), CLASSES)


@pytest.mark.slow
def test_rows_of_spark_give_the_weights_of_the_same_arrays(fed: None, frame: DataFrame, tmp_path: Path) -> None:
    models = [classifier() for _ in range(4)]
    keys: dict[str, Any] = {"epochs": 2, "batch_size": 16, "validation_data": (frame.where("a > 1").drop("w"), "y")}
    plain = TABLE[["a", "b", "y"]].astype({"y": np.int32})
    held = plain[plain["a"] > 1], "y"
    arrays = sparksplit.fit(models[0], plain, "y", **{**keys, "validation_data": held})
    rows = sparksplit.fit(models[1], frame.drop("w"), "y", output=f"{tmp_path}/run", **keys)
    assert rows.history == arrays.history and list(rows.history) == ["loss", "acc", "val_loss", "val_acc"]
    for found, wanted in zip(models[1].get_weights(), models[0].get_weights(), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert (rows.epoch, rows.params["steps"]) == ([0, 1], 10)
    again = sparksplit.fit(models[2], frame.drop("w"), "y", output=f"{tmp_path}/run", **keys)
    assert again.history == rows.history
    data = sparksplit.PreparedDataSet.open(f"{tmp_path}/run-data")
    assert data.manifest.splits["validation"].rows == len(held[0])
    with pytest.raises(ConfigError, match="epoch: unknown key; did you mean 'epochs'"):
        sparksplit.fit(models[3], frame, "y", output=f"{tmp_path}/no", epoch=3)
    assert not (tmp_path / "no-data").exists()
