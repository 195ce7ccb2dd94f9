"""Columns of pyspark.ml's vectors, dense and sparse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.feature import StringIndexer
from pyspark.ml.linalg import Vectors
from pyspark.mllib.linalg import Vectors as OldVectors
from pyspark.sql import DataFrame, SparkSession

import sparksplit
from sparksplit import UsageError
from sparksplit.base.config import parse
from sparksplit.dataset.description import Description
from sparksplit.prepare.preprocess_config import DataFrameInput
from sparksplit.prepare.sources import open_frame
from sparksplit.prepare.sources.raw import raw_rows
from sparksplit.prepare.tables.raw_frame import RawFrame
from sparksplit.prepare.tables.vectors import with_arrays

ARRAYS: list[list[float] | None] = [[1.5, 0.0, -2.0], [0.0, 0.0, 3.0], None]


@pytest.fixture(scope="module")
def vectors(spark: SparkSession) -> DataFrame:
    """The vectors of `ARRAYS`, beside columns whose names differ only in case."""
    dense, sparse = Vectors.dense(1.5, 0.0, -2.0), Vectors.sparse(3, {2: 3.0})
    rows = [("x", dense, OldVectors.dense([0.0]), 1), ("y", sparse, None, 2), ("x", None, None, 3)]
    frame = spark.createDataFrame(rows, ["city", "v", "old", "V"])
    return StringIndexer(inputCol="city", outputCol="label").fit(frame).transform(frame)


def test_a_vector_is_an_array_and_other_columns_stay(vectors: DataFrame) -> None:
    raw = RawFrame(vectors)
    made = with_arrays(raw)
    assert dict(made.types) == {
        "city": "string", "v": "array<double>", "old": "array<double>", "V": "bigint", "label": "double"
    }  # fmt: skip
    rows = [tuple(row) for row in made.frame.collect()]
    assert rows == [("x", ARRAYS[0], [0.0], 1, 0.0), ("y", ARRAYS[1], None, 2, 1.0), ("x", None, None, 3, 0.0)]
    marks = [frame.schema["label"].metadata for frame in (vectors, made.frame)]
    assert marks[0] == marks[1] and "ml_attr" in marks[0]  # so label numbers are classes
    plain = RawFrame(vectors.select("city", "label"))
    assert with_arrays(plain) is plain


def table(spark: SparkSession, vector: bool) -> DataFrame:
    """60 rows of a text, a number and a vector (dense, sparse, null), or the vector as an array."""
    rows: list[Any] = []
    for place in range(60):
        values = [float(place), 0.0, place / 7]
        dense, sparse = Vectors.dense(values), Vectors.sparse(3, [0, 2], [values[0], values[2]])
        one: Any = (dense if place % 2 else sparse) if vector else values
        rows.append((f"c{place % 4}", place / 3, None if place % 10 == 3 else one, place % 2))
    kinds = "city string, age double, v array<double>, y int"
    if not vector:
        return spark.createDataFrame(rows, kinds)
    return spark.createDataFrame(rows, ["city", "age", "v", "y"]).selectExpr("city", "age", "v", "int(y) AS y")


def stored(frame: DataFrame, description: Description) -> dict[int, tuple[bytes, ...]]:
    """The stored tensors of a DataFrame's rows, by row id, as `predict` makes them."""
    opened = open_frame(frame, parse(DataFrameInput, {"label": "y"}), description)
    with raw_rows(frame.sparkSession, opened, description) as raw:
        rows = raw.frames["train"].collect()
        return {row["row_id"]: tuple(row[tensor.name] for tensor in description.tensors) for row in rows}


@pytest.mark.slow
def test_vectors_beside_other_columns_are_stored_as_the_arrays_of_their_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    """In a table, and by `predict`, which stores the bytes that the model was trained on."""
    keys: dict[str, Any] = {"input": {"label": "y"}, "validation": 0.2, "lanes": 4}
    made = [
        sparksplit.preprocess(table(spark, vector), f"{tmp_path}/{vector}", **keys).manifest for vector in (True, False)
    ]
    assert made[0].splits == made[1].splits and made[0].features == made[1].features
    assert [(feature.column, feature.values) for feature in made[0].features] == [("city", 1), ("age", 1), ("v", 3)]
    data = sparksplit.PreparedDataSet.open(f"{tmp_path}/True")
    found = stored(table(spark, True), data.description)
    assert len(found) == 60
    rows = spark.read.parquet(*(f"{data.path}/{split}" for split in ("train", "validation"))).collect()
    names = [tensor.name for tensor in data.description.tensors]
    assert {row["row_id"]: tuple(row[name] for name in names) for row in rows} == found


@pytest.mark.slow
def test_a_vector_alone_is_one_tensor_and_files_may_hold_it(spark: SparkSession, tmp_path: Path) -> None:
    frame = table(spark, True).select("v", "y")
    frame.where("v IS NOT NULL").coalesce(1).write.parquet(f"{tmp_path}/good")
    keys: dict[str, Any] = {"validation": 0.0, "lanes": 4}
    parquet = {"format": "parquet", "label": "y"}
    data = sparksplit.preprocess(f"{tmp_path}/good", f"{tmp_path}/out", input=parquet, **keys)
    assert (data.manifest.tensors[0].shape, data.manifest.splits["train"].rows) == ([3], 54)
    filled = sparksplit.preprocess(frame, f"{tmp_path}/filled", input={"label": "y", "missing": "mean"}, **keys)
    assert filled.manifest.splits["train"].rows == 60
    fitted = np.array(filled.manifest.preprocessing.tensors["x"].impute)
    np.testing.assert_allclose(fitted, np.mean([[p, 0, p / 7] for p in range(60) if p % 10 != 3], axis=0), rtol=1e-6)
    frame.coalesce(1).write.parquet(f"{tmp_path}/bad")
    with pytest.raises(UsageError, match=r"bad/part-\S+: a row: column 'v': is null; input\.missing: mean fills"):
        sparksplit.preprocess(f"{tmp_path}/bad", f"{tmp_path}/no", input=parquet, **keys)


@pytest.mark.slow
def test_vectors_and_arrays_that_will_not_do(spark: SparkSession, tmp_path: Path) -> None:
    def message(frame: DataFrame, **keys: Any) -> str:
        with pytest.raises(UsageError) as caught:
            sparksplit.preprocess(frame, f"{tmp_path}/out", input={"label": "y"}, validation=0.0, **keys)
        return str(caught.value)

    unlike = spark.createDataFrame([(1.0, Vectors.dense(1, 2), 0), (2.0, Vectors.dense(7.5), 1)], ["x", "v", "y"])
    wanted = r"the DataFrame: a row: column 'v': has 1 values, 2 are needed (x: 2, v: [7.5], y: 1)"
    assert message(unlike.coalesce(1)).startswith(wanted)
    nested = spark.createDataFrame([(1.0, [[1.0]], 0)], "x double, v array<array<double>>, y int")
    wanted = "the DataFrame: column 'v' is array<array<double>>, which cannot be a feature. Convert it to numbers"
    assert message(nested).startswith(wanted)
    wanted = "the DataFrame: column 'v' holds array<double>; features must be numbers"
    assert message(nested.select("v", "y")) == wanted
    assert list(tmp_path.iterdir()) == []
