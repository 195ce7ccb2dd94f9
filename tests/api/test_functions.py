"""A PySpark program: its own session and DataFrames, and the commands as functions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from sklearn.datasets import load_digits

import sparksplit
from sparksplit import ConfigError, RunError, UsageError
from sparksplit.dataset.arrays import from_arrays

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    images, labels = load_digits(return_X_y=True)
    table = pd.DataFrame(images, columns=[f"pixel_{place}" for place in range(64)])
    return table.assign(digit=labels, name=[f"n{place}" for place in range(len(labels))])


@pytest.fixture(scope="module")
def frame(spark: SparkSession, table: pd.DataFrame) -> DataFrame:
    return spark.createDataFrame(table.drop(columns="name"))


def readme_example() -> str:
    (found,) = re.findall(r"```python\n(import sparksplit\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(found)


@pytest.mark.slow
def test_the_readmes_example(
    fed: None,
    spark: SparkSession,
    frame: DataFrame,
    table: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    new = table.drop(columns=["name", "digit"]).head(50)
    # Features go by their names, whatever their order.
    names = {"frame": frame, "new_rows": spark.createDataFrame(new[sorted(new.columns)])}
    exec(compile(readme_example(), "README.md", "exec"), names)
    run = names["run"]
    assert isinstance(run, sparksplit.TrainedRun)
    assert run.test["accuracy"] > 0.9 and run.record.ledger.exact
    assert list(run.history.index) == list(range(1, run.record.epochs + 1))
    assert list(run.history.columns) == [
        *("train_loss", "train_accuracy", "validation_loss", "validation_accuracy"),
        *("updates", "rows", "seconds", "rows_per_second"),
    ]
    found = sparksplit.Predictions.open(f"{tmp_path}/predictions/digits").pandas()
    assert len(found) == 50
    assert np.mean(found["prediction"].astype(int).value_counts()) > 0
    fitted = sparksplit.PreparedDataSet.open(f"{tmp_path}/prepared/digits").manifest.preprocessing
    pixels = new.to_numpy()
    ours = np.argmax(run.model().predict(fitted.apply("x", pixels.astype("f4")), verbose=0), axis=1)
    assert sorted(ours) == sorted(found["prediction"].astype(int))
    few = run.predict_rows(new[sorted(new.columns)])
    assert list(few["prediction"]) == list(ours) and list(few.index) == list(new.index)
    # As many rows at once as a partition has: some processors' kernels round the last bit by that.
    both = (np.array(sorted(map(tuple, each["probabilities"]))) for each in (few, found))
    np.testing.assert_allclose(*both, rtol=1e-5)
    assert spark.range(3).count() == 3  # the session is the program's


@pytest.mark.slow
def test_a_dataframe_is_prepared_as_the_csv_file_of_its_rows(
    spark: SparkSession, table: pd.DataFrame, tmp_path: Path
) -> None:
    few = table.head(300)
    few.to_csv(tmp_path / "digits.csv", index=False)
    keys = {"validation": 0.2, "test": 0.1, "scaling": "standard", "lanes": 4}
    section = {"label": "digit", "keep": ["name"]}
    by_file = sparksplit.preprocess(
        f"{tmp_path}/digits.csv", f"{tmp_path}/csv", input={"format": "csv", **section}, **keys
    )
    rows = spark.createDataFrame(few.sample(frac=1, random_state=1)).repartition(5)
    data = sparksplit.preprocess(rows, f"{tmp_path}/frame", input=section, **keys)
    for name, split in data.manifest.splits.items():
        other = by_file.manifest.splits[name]
        assert (split.rows, split.checksum, split.lane_rows) == (other.rows, other.checksum, other.lane_rows)
        for lane, found in data.segments(name).items():
            crc32 = [segment.crc32.tolist() for segment in by_file.segments(name)[lane]]
            assert [segment.crc32.tolist() for segment in found] == crc32
    assert data.manifest.preprocessing == by_file.manifest.preprocessing

    before = Path(data.path, "manifest.json").stat().st_mtime_ns
    sparksplit.preprocess(rows.orderBy("name"), f"{tmp_path}/frame", input=section, **keys)
    assert Path(data.path, "manifest.json").stat().st_mtime_ns == before
    changed = spark.createDataFrame(few.assign(name=[f"m{place}" for place in range(300)]))
    with pytest.raises(UsageError, match="its input has changed since it was made; overwrite=True replaces it"):
        sparksplit.preprocess(changed, f"{tmp_path}/frame", input=section, **keys)
    assert sparksplit.preprocess(changed, data.path, input=section, overwrite=True, **keys).manifest.keep == ["name"]


@pytest.mark.slow
def test_columns_that_will_not_do(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1.0, "a", [1.0, 2.0], 0)], "x double, t string, v array<double>, y int")

    def message(rows: DataFrame, **section: object) -> str:
        with pytest.raises(UsageError) as caught:
            sparksplit.preprocess(rows, f"{tmp_path}/out", input=section, validation=0.0)
        return str(caught.value)

    assert message(frame) == "input.label: must be the label's column, or None (there are x, t, v, y)"
    assert message(frame, label="Y").endswith("has no column 'Y'; it has x, t, v, y; did you mean 'y'?")
    maps = frame.selectExpr("x", "map(t, x) AS m", "y")
    assert message(maps, label="y").startswith(
        "the DataFrame: column 'm' is map<string,double>; features must be numbers"
    )
    assert message(maps.selectExpr("*", "'a' AS t"), label="y").startswith(
        "the DataFrame: column 'm' is map<string,double>, which cannot be a feature"
    )
    assert message(frame.select("x", "t"), label="t", label_type="number").startswith(
        "input.label: column 't' is string"
    )
    assert message(frame.select("v", "y"), label="y", shape=[3]).startswith(
        "the DataFrame: a row: column 'v': has 2 values, 3 are needed"
    )
    assert message(frame.select("x", "x"), label=None) == "the DataFrame: has two columns 'x'"
    with pytest.raises(ConfigError, match=r"input\.unit: is for text; the format is dataframe"):
        sparksplit.preprocess(frame, f"{tmp_path}/out", input={"label": "y", "unit": "words"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_columns_whose_names_differ_in_case_alone(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(float(place), 2.0, place % 2) for place in range(20)], "A double, a double, y int")
    data = sparksplit.preprocess(frame, f"{tmp_path}/out", input={"label": "y"}, validation=0.0)
    assert data.manifest.splits["train"].rows == 20


def test_a_dataframe_that_fails_is_an_error_of_the_products(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(9).selectExpr("array(double(assert_true(id < 0, 'too large'))) as v")
    with pytest.raises(RunError, match="too large"):
        sparksplit.preprocess(rows, f"{tmp_path}/out", input={"label": None})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_complete_data_set_is_returned_for_the_same_rows_only(spark: SparkSession, tmp_path: Path) -> None:
    """Not where what they keep has moved to another column, bad rows have come, or columns have other names."""
    good = [(float(place), float(-place), place % 2, None, "x") for place in range(20)]
    frame = spark.createDataFrame(good, "a double, b double, y int, k string, l string")

    def prepared(rows: DataFrame) -> sparksplit.PreparedDataSet:
        return sparksplit.preprocess(rows, f"{tmp_path}/out", input={"label": "y", "keep": [-2, -1]}, validation=0.0)

    before = prepared(frame)
    assert prepared(frame.repartition(3)).manifest == before.manifest
    for other in (
        frame.select("a", "b", "y", frame.l.alias("k"), frame.k.alias("l")),
        frame.union(frame.selectExpr("null", "b", "y", "k", "l")),
        frame.toDF("a", "b", "y", "k", "m"),
    ):
        with pytest.raises(UsageError, match="its input has changed since it was made"):
            prepared(other)


@pytest.mark.slow
def test_rows_of_a_users_own_function(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def rows(spark, path):\n    return spark.read.parquet(path).select('a', 'b', 'kind')\n"
        "def wrong(spark, path):\n    return path\n"
    )
    table = pd.DataFrame({"a": range(40), "b": [[1.0, 2.0]] * 40, "kind": ["cat", "dog"] * 20})
    spark.createDataFrame(table[["b", "kind"]].assign(a=table["a"])).write.parquet(f"{tmp_path}/raw")
    section = {"format": f"{tmp_path}/mine.py:rows", "label": "kind", "keep": ["a"], "shape": [2, 1]}
    data = sparksplit.preprocess(f"{tmp_path}/raw", f"{tmp_path}/out", input=section, validation=0.0)
    assert data.manifest.tensors[0].shape == [2, 1] and data.manifest.keep == ["a"]
    assert data.manifest.label is not None and data.manifest.label.classes == ["cat", "dog"]
    assert data.manifest.splits["train"].rows == 40
    again = sparksplit.preprocess(f"{tmp_path}/raw", f"{tmp_path}/out", input=section, validation=0.0)
    assert again.manifest == data.manifest
    with pytest.raises(ConfigError, match=r"input\.format: .*mine\.py:wrong returned str, not a DataFrame"):
        sparksplit.preprocess("x", f"{tmp_path}/no", input={**section, "format": f"{tmp_path}/mine.py:wrong"})


def test_the_answer_of_a_comparison_is_looked_at_before_spark_starts(tmp_path: Path) -> None:
    x = np.arange(40).reshape(-1, 1)
    data = from_arrays(f"{tmp_path}/data", {"train": (x, x[:, 0] % 2)}, lanes=4)
    for keys, problem in (({}, "needs strategy: auto"), ({"strategy": "auto"}, "not a complete comparison")):
        with pytest.raises(ConfigError, match=f"comparison: .*{problem}"):
            sparksplit.train(data, f"{tmp_path}/run", comparison=f"{tmp_path}/none", **keys)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
