"""The classifier on a real cluster: in a Pipeline, validated, saved and loaded, and equal to train and predict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from pyspark.ml import Pipeline
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.ml.tuning import ParamGridBuilder, TrainValidationSplit
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from sklearn.datasets import load_iris

import sparksplit
from sparksplit import InputError
from sparksplit.ml import SparkSplitClassifier, SparkSplitClassifierModel

ROOT = Path(__file__).parent.parent.parent
KEYS: dict[str, Any] = {"epochs": 3, "batch_size": 16, "optimizer": {"name": "adam", "learning_rate": 0.05}}

NEW_SESSION = """
import sys
from pyspark.ml import PipelineModel
from pyspark.sql import SparkSession

saved, rows, out = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
found = PipelineModel.load(saved).transform(spark.read.parquet(rows))
found.select("number", "prediction", "probability", "rawPrediction").write.parquet(out)
spark.stop()
"""


@pytest.fixture(scope="module")
def irises(spark: SparkSession) -> DataFrame:
    values, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    rows = [(*map(float, row), str(name), number) for number, (row, name) in enumerate(zip(values, names, strict=True))]
    return spark.createDataFrame(rows, "a double, b double, c double, d double, species string, number int").coalesce(1)


@pytest.mark.slow
def test_a_pipeline_is_loaded_in_a_new_session(fed: None, irises: DataFrame, tmp_path: Path) -> None:
    classifier = SparkSplitClassifier(numNodes=2, strategy="batch", workDir=f"{tmp_path}/work", **KEYS)
    stages = [
        StringIndexer(inputCol="species", outputCol="label"),
        VectorAssembler(inputCols=["a", "b", "c", "d"], outputCol="features"),
        classifier,
    ]
    model = Pipeline(stages=stages).fit(irises)
    found = model.transform(irises)
    assert found.columns == [*irises.columns, "label", "features", "rawPrediction", "probability", "prediction"]
    assert found.schema["label"].metadata["ml_attr"]["vals"][0] == "setosa"  # other stages read it
    rows = found.orderBy("number").collect()
    assert np.mean([row.label == row.prediction for row in rows]) > 0.8
    for row in rows:
        assert row.prediction == np.argmax(row.probability)
        np.testing.assert_allclose(np.exp(row.rawPrediction), row.probability, rtol=1e-5, atol=1e-12)
    (work,) = (tmp_path / "work").iterdir()
    assert [each.name for each in work.iterdir()] == ["run"]  # the prepared data is gone

    model.save(f"{tmp_path}/saved")
    work.rename(tmp_path / "away")  # what is saved needs nothing else
    irises.write.parquet(f"{tmp_path}/rows")
    arguments = [f"{tmp_path}/saved", f"{tmp_path}/rows", f"{tmp_path}/out"]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    new = subprocess.run(
        [sys.executable, "-c", NEW_SESSION, *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert new.returncode == 0, new.stderr[-2000:]
    names = ["number", "prediction", "probability", "rawPrediction"]
    again = irises.sparkSession.read.parquet(f"{tmp_path}/out").orderBy("number").collect()
    assert [tuple(row) for row in again] == [tuple(row[name] for name in names) for row in rows]


@pytest.mark.slow
def test_a_fit_is_train_and_a_transform_is_predict(fed: None, irises: DataFrame, tmp_path: Path) -> None:
    """Weights and predictions are equal bit for bit, also for a model that is an object."""
    own = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax", name="species")]
    )
    labelled = irises.withColumn("label", sql.expr("double(int(number / 50))")).drop("species")
    columns = ["a", "b", "c", "d"]
    frame = labelled.select(*columns, "label")
    keys = {**KEYS, "model": own}
    classifier = SparkSplitClassifier(featuresCol=columns, scaling="standard", workDir=f"{tmp_path}/work", **keys)
    model = classifier.fit(labelled)
    section = {"label": "label", "label_type": "integer"}
    data = sparksplit.preprocess(frame, f"{tmp_path}/data", input=section, validation=0.0, scaling="standard")
    run = sparksplit.train(data, f"{tmp_path}/run", **keys)
    assert [layer.name for layer in model.run.model().layers][-1] == "species"
    assert model.run.record.weights == run.record.weights
    assert model.run.record.config_hash == run.record.config_hash

    theirs = sparksplit.predict(
        run, labelled.select(*columns, "number"), f"{tmp_path}/out", input={"label": None, "keep": ["number"]}
    )
    expected = theirs.pandas().sort_values("number", key=lambda number: number.astype(int))
    found = model.transform(labelled).select("number", "prediction", vector_to_array("probability").alias("p"))
    ours = found.orderBy("number").collect()
    assert [row.prediction for row in ours] == expected["prediction"].astype(float).tolist()
    both = ([row.p for row in ours], expected["probabilities"].tolist())
    np.testing.assert_array_equal(*(np.array(values, np.float32) for values in both))

    kept = SparkSplitClassifierModel(model.folder)
    kept.setParams(featuresCol=columns)
    kept.save(f"{tmp_path}/model")
    loaded = SparkSplitClassifierModel.load(f"{tmp_path}/model")
    assert loaded.classes == [0.0, 1.0, 2.0] and loaded.numClasses == 3 and loaded.uid == kept.uid
    assert list(loaded.run.history.index) == [1, 2, 3]
    with pytest.raises(InputError, match="holds the model itself"):
        loaded.write().overwrite().save(f"{tmp_path}/model")
    with pytest.raises(InputError, match="exists already"):
        kept.save(f"{tmp_path}/model")
    kept.write().overwrite().save(f"{tmp_path}/model")
    with pytest.raises(InputError, match="has a column 'rawPrediction' already"):
        loaded.transform(loaded.transform(labelled))
    with pytest.raises(InputError, match="the DataFrame: has no column 'a'"):
        loaded.transform(labelled.drop("a"))
    few = loaded.copy({loaded.predictionCol: "p", loaded.probabilityCol: "", loaded.rawPredictionCol: ""})
    assert few.transform(labelled).columns == [*labelled.columns, "p"]
    bad = labelled.withColumn("a", sql.when(sql.col("number") != 3, sql.col("a")))
    tracker = bad.sparkSession.sparkContext.statusTracker()
    jobs = len(tracker.getJobIdsForGroup(None))
    found = few.transform(bad)
    assert len(tracker.getJobIdsForGroup(None)) == jobs  # nothing is computed yet
    with pytest.raises(Exception, match="column 'a': is null"):
        found.collect()


@pytest.mark.slow
def test_a_fit_beside_another_finds_what_it_finds_alone(own_session: None, irises: DataFrame) -> None:
    rows = irises.select(sql.array("a", "b", "c", "d").alias("features"), sql.expr("int(number / 50)").alias("label"))
    classifier = SparkSplitClassifier(numNodes=2, strategy="batch", **KEYS)
    search = TrainValidationSplit(
        estimator=classifier,
        estimatorParamMaps=ParamGridBuilder().addGrid(classifier.epochs, [4, 1, 4]).build(),
        evaluator=MulticlassClassificationEvaluator(metricName="logLoss"),
        parallelism=2,
        seed=7,
    )
    found = search.fit(rows)
    together, short, alone = found.validationMetrics
    assert short > together == alone and found.bestModel.run.record.epochs == 4
