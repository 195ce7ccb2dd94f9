"""The classifier on a real cluster: in a Pipeline, validated, saved and loaded, and equal to train and predict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import StringIndexer
from pyspark.sql import DataFrame, SparkSession
from sklearn.datasets import load_iris

from sparksplit.ml import SparkSplitClassifier

KEYS = {"epochs": 3, "batch_size": 16, "optimizer": {"name": "adam", "learning_rate": 0.05}}


@pytest.fixture(scope="module")
def irises(spark: SparkSession) -> DataFrame:
    values, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    rows = [(row.tolist(), str(name), number) for number, (row, name) in enumerate(zip(values, names, strict=True))]
    return spark.createDataFrame(rows, "features array<double>, species string, number int").repartition(2)


@pytest.mark.slow
def test_pipeline(fed: None, irises: DataFrame, tmp_path: Path) -> None:
    classifier = SparkSplitClassifier(numNodes=2, strategy="batch", workDir=f"{tmp_path}/work", **KEYS)
    model = Pipeline(stages=[StringIndexer(inputCol="species", outputCol="label"), classifier]).fit(irises)
    found = model.transform(irises)
    assert found.columns == [*irises.columns, "label", "rawPrediction", "probability", "prediction"]
    rows = found.orderBy("number").collect()
    assert np.mean([row.label == row.prediction for row in rows]) > 0.8
    model.write().overwrite().save(f"{tmp_path}/saved")
    again = PipelineModel.load(f"{tmp_path}/saved").transform(irises).orderBy("number").collect()
    assert rows == again
