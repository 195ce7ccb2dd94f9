"""Keys of a Python call without their section, and `train` on a DataFrame."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.ml.functions import array_to_vector
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from sklearn.datasets import load_diabetes, load_digits, load_iris

import sparksplit
from sparksplit import ConfigError, UsageError
from sparksplit.api import functions
from sparksplit.api.frames import in_sections, remove_data, to_prepare

ROOT = Path(__file__).parent.parent.parent


def test_keys_of_a_dataframe_need_no_section() -> None:
    keys = {"label": "y", "features": ("a", "b"), "validation": "split", "dtype": "float64", "lanes": 4}
    section, rest = in_sections(keys, {"keep": ["id"]})
    assert section == {"keep": ["id"], "label": "y", "dtype": "float64", "features": ["a", "b"]}
    assert rest == {"lanes": 4, "cut": {"by": "column", "column": "split"}}
    same = {"features": {"a": "text"}, "validation": 0.2, "test": 0.1, "format": "csv"}
    assert in_sections(same, None) == ({}, same)
    assert in_sections({"keep": ["id"]}, None, own=["keep"]) == ({}, {"keep": ["id"]})


def test_a_key_with_a_dot_is_in_its_section() -> None:
    dotted = {"input": {"missing": "mean"}, "label": "y"}
    section, rest = in_sections(dotted, {"label_type": "integer"})
    assert section == {"missing": "mean", "label_type": "integer", "label": "y"} and rest == {}
    data, rest = to_prepare(dotted, None, "runs/a")
    assert (data.input.missing, data.input.label, rest) == ("mean", "y", {})
    with pytest.raises(ConfigError, match=r"input\.missing: is also in input; give it once"):
        in_sections(dotted, {"missing": "error"})


def test_predict_takes_every_way_of_writing_a_key(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    """And looks for a DataFrame's label only if it is named."""
    seen: list[dict[str, Any]] = []

    def stop(config: Any, *_: Any) -> None:
        seen.append(config.input if isinstance(config.input, str) else config.input.model_dump(exclude_unset=True))
        raise UsageError("seen")

    monkeypatch.setattr(functions.inference, "predict", stop)
    frame = spark.createDataFrame([(1.0, 2)], "x double, y int")
    calls: list[tuple[Any, dict[str, Any]]] = [
        (frame, {"missing": "mean"}),
        (frame, {"input.missing": "mean", "label": "y"}),
        (frame, {}),
        ("rows.csv", {"input.format": "csv", "input": {"missing": "mean"}}),
        ("data", {}),
    ]
    for rows, keys in calls:
        with pytest.raises(UsageError, match="seen"):
            sparksplit.predict("run", rows, "out", **keys)
    assert seen == [
        {"label": None, "missing": "mean"},
        {"label": "y", "missing": "mean"},
        {"label": None},
        {"format": "csv", "missing": "mean", "path": "rows.csv"},
        "data",
    ]


def test_what_stands_in_the_way_of_training_is_said_before_the_rows_are_prepared(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([(1.0, "a", 2), (2.0, "b", 3)], "x double, city string, y int")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("")
    with pytest.raises(UsageError, match="mine: exists and is not an output of sparksplit"):
        sparksplit.train(frame, f"{tmp_path}/mine", label="y", model="tabular")
    with pytest.raises(ConfigError, match=r"model\.build: mlp needs one tensor .* model\.build: tabular"):
        sparksplit.train(frame, f"{tmp_path}/run", label="y")
    with pytest.raises(ConfigError, match="optimizer"):
        sparksplit.train(frame, f"{tmp_path}/run", label="y", model="tabular", optimizer={"name": "nadamm"})
    with pytest.raises(ConfigError, match=r"nodes: 5 nodes need 5 executors, and the settings allow 4"):
        sparksplit.train(frame, f"{tmp_path}/run", label="y", model="tabular", nodes=5, strategy="batch")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("keys", "section", "message"),
    [
        ({"label": "y"}, {"label": "z"}, "label: is also in input; give it once"),
        ({"features": ["a"]}, {"features": ["a"]}, "features: is also in input; give it once"),
        (
            {"validation": "split", "cut": {"by": "row"}},
            None,
            r"validation: names a column \('split'\), so leave out cut",
        ),
    ],
)
def test_a_key_that_is_given_twice(keys: dict[str, Any], section: dict[str, Any] | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        in_sections(keys, section)


def test_a_key_of_both_commands_is_the_trainings() -> None:
    keys = {"label": "y", "test": 0.2, "seed": 7, "dtype": "float64", "nodes": 2, "queue_timeout": 5.0, "lanes": 4}
    data, rest = to_prepare(keys, {"dtype": "float32"}, "runs/a/")
    assert (data.output, data.input.label, data.test, data.lanes) == ("runs/a-data", "y", 0.2, 4)
    assert (data.seed, data.input.dtype, data.queue_timeout) == (1, "float32", 5.0)
    assert rest == {"seed": 7, "dtype": "float64", "nodes": 2, "queue_timeout": 5.0}
    with pytest.raises(ConfigError, match=r"test: must be below 1 \(is 2\)"):
        to_prepare({"test": 2}, None, "runs/a")


def test_a_data_set_is_removed_and_other_files_stay(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "train").mkdir(parents=True)
        for file in ("_SUCCESS", "_CONFIG", "manifest.json", "train/x.parquet"):
            (tmp_path / name / file).write_text("")
    (tmp_path / "b" / "notes.txt").write_text("mine")
    for name in ("a", "b"):
        remove_data(f"{tmp_path}/{name}")
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["b", "b/notes.txt"]


def test_keys_for_a_dataframe_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cleanup: is only for data that is a DataFrame"):
        sparksplit.train("data", "run", cleanup=True)
    with pytest.raises(ConfigError, match="input: is only for data that is a DataFrame"):
        sparksplit.train("data", "run", input={"label": "y"})
    with pytest.raises(ConfigError, match=r"label: unknown key"):
        sparksplit.train("data", "run", label="y")
    with pytest.raises(ConfigError, match=r"data: must be a prepared data set, its folder or .* one of pandas: spark"):
        sparksplit.train(pd.DataFrame(), "run")


@pytest.fixture(scope="module")
def clients(spark: SparkSession) -> DataFrame:
    """200 rows of mixed columns, with gaps and vectors. `left` is whether the vector's first value is positive."""
    rng = np.random.default_rng(1)
    rows: list[Any] = []
    for place in range(200):
        values = [round(value, 3) for value in rng.normal(size=2)]
        vector = Vectors.dense(values) if place % 2 else Vectors.sparse(2, [0, 1], values)
        city = None if place % 9 == 4 else f"c{place % 5}"
        rows.append((f"id {place}", city, place % 7, vector, place % 10 == 0, 1.0 + place % 2, int(values[0] > 0)))
    names = ["client", "city", "age", "v", "held", "worth", "left"]
    return spark.createDataFrame(rows, names).coalesce(2)


@pytest.mark.slow
def test_listed_columns_are_the_features_in_their_order(clients: DataFrame, tmp_path: Path) -> None:
    def prepared(name: str, **keys: Any) -> sparksplit.PreparedDataSet:
        return sparksplit.preprocess(clients, f"{tmp_path}/{name}", label="left", lanes=4, **keys)

    numbers = prepared("numbers", features=["worth", "age"], validation="held")
    assert numbers.manifest.tensors[0].columns == ["worth", "age"] and not numbers.manifest.features
    splits = {name: split.rows for name, split in numbers.manifest.splits.items()}
    assert splits == {"train": 180, "validation": 20, "test": 0}
    mixed = prepared("mixed", features=["v", "city"], keep=["client"], weight="worth", validation=0.0)
    assert [feature.column for feature in mixed.manifest.features] == ["v", "city"]
    assert mixed.manifest.keep == ["client"]
    for features, message in (
        (["age", "towns"], r"input\.features: the DataFrame has no column 'towns'"),
        (["age", "age"], r"input\.features: lists a column twice"),
        (["age", "left"], r"input\.features: lists 'left', which is the label, the weight, kept or used by `cut`"),
        ([], r"input\.features: must have at least 1 entries"),
    ):
        with pytest.raises(UsageError, match=message):
            prepared("no", features=features)
    with pytest.raises(UsageError, match=r"input\.features: must be left out: the features are those of the earlier"):
        prepared("no", features=["age", "worth"], fitted=numbers.path)


@pytest.mark.slow
def test_a_dataframe_is_trained_on_in_one_call(
    fed: None, spark: SparkSession, clients: DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keys: dict[str, Any] = {
        **{"label": "left", "features": ["city", "age", "v"], "keep": ["client"], "weight": "worth"},
        **{"validation": "held", "lanes": 4, "model": {"build": "tabular"}, "epochs": 2},
    }

    def trained(frame: DataFrame, name: str, **more: Any) -> sparksplit.TrainedRun:
        return sparksplit.train(frame, f"{tmp_path}/{name}", **keys, **more)

    run = trained(clients, "run")
    assert f"{tmp_path}/run-data: the DataFrame is prepared here, for {tmp_path}/run" in capfd.readouterr().err
    files = [tmp_path / "run-data/manifest.json", tmp_path / "run/run.json"]
    before = [file.stat().st_mtime_ns for file in files]
    again = trained(clients.orderBy("client"), "run")
    assert again.record == run.record and [file.stat().st_mtime_ns for file in files] == before
    with pytest.raises(UsageError, match=r"run-data: .*its input has changed since it was made"):
        trained(clients.where("age > 1"), "run")

    other = trained(clients, "other", cleanup=True)
    assert other.record.weights == run.record.weights
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".") == ["other", "run", "run-data"]

    found = sparksplit.predict(run, clients, f"{tmp_path}/found").pandas().sort_values("client")
    assert len(found) == 200
    with_label = sparksplit.predict(run, clients, f"{tmp_path}/scored", label="left", weight="worth")
    assert with_label.metrics is not None and with_label.metrics["accuracy"] > 0
    import tensorflow as tf

    served = tf.saved_model.load(f"{run.path}/saved_model/1").signatures["serving_default"]
    rows = clients.orderBy("client").collect()
    outputs = served(
        city=tf.constant([row.city or "" for row in rows]),
        age=tf.constant([float(row.age) for row in rows], tf.float64),
        v=tf.constant([row.v.toArray().tolist() for row in rows], tf.float64),
    )["outputs"]
    np.testing.assert_allclose(outputs.numpy(), np.stack(found["probabilities"]), rtol=1e-5, atol=1e-7)


def churn(rows: int, seed: int) -> pd.DataFrame:
    """Mixed columns with gaps. A row is `yes` in `churned` if the plan is basic and the vector's sum is positive."""
    rng = np.random.default_rng(seed)
    plan, vector = rng.choice(["basic", "plus", "family"], rows), rng.normal(size=(rows, 4)).round(3)
    table = pd.DataFrame(
        {
            "client": [f"client {place}" for place in range(rows)],
            "plan": plan,
            "city": rng.choice([f"c{place}" for place in range(50)], rows),
            "age": rng.integers(18, 80, rows).astype(float),
            "opened": [date(2024, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 300, rows)],
            "usage": vector.tolist(),
            "churned": np.where((plan == "basic") & (vector.sum(axis=1) > 0), "yes", "no"),
        }
    ).astype(object)
    for name in ("city", "age", "opened", "usage"):
        table.loc[rng.random(rows) < 0.03, name] = None
    return table


def programs() -> list[str]:
    page = (ROOT / "docs" / "python.md").read_text().partition("## From a DataFrame to predictions")[2]
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]


@pytest.mark.slow
def test_the_programs_of_the_page(
    fed: None, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vectors(table: pd.DataFrame, kinds: str) -> DataFrame:
        """The column `usage` as a vector."""
        frame = spark.createDataFrame(table, kinds)
        others = [name for name in frame.columns if name != "usage"]
        return frame.select(
            *others, sql.when(sql.col("usage").isNotNull(), array_to_vector(sql.col("usage"))).alias("usage")
        )

    monkeypatch.chdir(tmp_path)
    kinds = "client string, plan string, city string, age double, opened date, usage array<double>, churned string"
    iris = load_iris(as_frame=True)
    species = iris.frame["target"].map(dict(enumerate(iris.target_names)))
    pixels, digits = load_digits(return_X_y=True)
    known = {
        "sparksplit": sparksplit,
        "clients": vectors(churn(100_000, 1), kinds),
        "new_clients": vectors(churn(500, 2), kinds),
        "irises": spark.createDataFrame(iris.data.assign(species=species)),
        "digits": spark.createDataFrame(
            [(place, int(digits[place]), Vectors.dense(values)) for place, values in enumerate(pixels)],
            ["number", "digit", "pixels"],
        ),
        "patients": spark.createDataFrame(load_diabetes(as_frame=True).frame.rename(columns={"target": "progression"})),
    }
    for program in programs():
        exec(compile(program, "docs/python.md", "exec"), known)
    runs = {name: sparksplit.TrainedRun.open(f"runs/{name}") for name in ("clients", "irises", "digits", "patients")}
    tests = {name: {key: value or 0.0 for key, value in run.test.items()} for name, run in runs.items()}
    assert tests["clients"]["accuracy"] > 0.9 and runs["clients"].record.nodes == 2, tests
    assert tests["irises"]["accuracy"] > 0.8 and tests["digits"]["accuracy"] > 0.8, tests
    assert tests["patients"]["mean_absolute_error"] < 55, tests
    predictions = known["predictions"]
    assert isinstance(predictions, pd.DataFrame)
    truth = churn(500, 2).set_index("client").loc[predictions["client"], "churned"]
    assert np.mean(predictions["prediction_name"].to_numpy() == truth.to_numpy()) > 0.9
    # A vector alone is found beside the other columns that it was trained without.
    found = sparksplit.predict(runs["digits"], known["digits"], "predictions/digits", label="digit")  # type: ignore[arg-type]
    assert found.metrics is not None and found.metrics["rows"] == len(digits)
