"""The regressor on a real cluster, on columns of several types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import sparksplit
from sparksplit.ml import SparkSplitRegressor


@pytest.fixture(scope="module")
def houses(spark: SparkSession) -> DataFrame:
    """Prices of generated houses: a text, a nullable whole number, a date and a vector decide them."""
    random = np.random.default_rng(3)
    rows = []
    for number in range(300):
        city, rooms, size = str(random.choice(["Ulm", "Bonn"])), int(random.integers(1, 9)), random.random(2)
        price = 100.0 * rooms + (300.0 if city == "Ulm" else 0.0) + 50.0 * float(size.sum())
        known = rooms if number % 10 else None
        rows.append((city, known, f"20{number % 20:02}-05-01", Vectors.dense(size), price, 1.0 + number % 2, number))

    names = ["city", "rooms", "built", "size_of_it", "price", "worth", "number"]
    return spark.createDataFrame(rows, names).withColumn("built", sql.to_date("built")).coalesce(1)


@pytest.mark.slow
def test_mixed_columns_weights_and_a_validation_split(fed: None, houses: DataFrame, tmp_path: Path) -> None:
    columns = ["city", "rooms", "built", "size_of_it"]
    rows = houses.withColumn("held", sql.col("number") % 5 == 0)
    regressor = SparkSplitRegressor(
        featuresCol=columns,
        labelCol="price",
        predictionCol="guess",
        weightCol="worth",
        validationIndicatorCol="held",
        model="tabular",
        epochs=30,
        keepData=True,
        workDir=f"{tmp_path}/work",
        **{"optimizer.name": "adam", "optimizer.learning_rate": 0.02},
    )
    model = regressor.fit(rows)
    (folder,) = (tmp_path / "work").iterdir()
    data = sparksplit.PreparedDataSet.open(f"{folder}/data")
    assert {name: split.rows for name, split in data.manifest.splits.items() if split.rows} == {
        "train": 240,
        "validation": 60,
    }
    assert "validation_loss" in model.run.history.columns
    found = model.transform(rows)
    assert found.columns == [*rows.columns, "guess"]
    assert RegressionEvaluator(labelCol="price", predictionCol="guess", metricName="r2").evaluate(found) > 0.7

    theirs = sparksplit.predict(
        f"{folder}/run", houses.select(*columns, "number"), f"{tmp_path}/out", input={"label": None, "keep": ["number"]}
    ).pandas()
    expected = dict(zip(theirs["number"].astype(int), theirs["prediction"].astype(np.float64), strict=True))
    assert {row.number: row.guess for row in found.collect()} == expected
