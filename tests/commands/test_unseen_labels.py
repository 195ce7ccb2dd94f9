"""A class that no training row has, from raw rows to predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

import sparksplit
from sparksplit.dataset.description import UNKNOWN


@pytest.mark.slow
def test_rows_of_the_class_unknown_count_as_mistakes_in_training_and_prediction(
    fed: None, spark: SparkSession, tmp_path: Path
) -> None:
    """Two classes that are easily told, and in the latest rows a long tail of labels with a row each."""
    generator = np.random.default_rng(1)
    kinds = generator.integers(0, 2, 400)
    table = pd.DataFrame({"x": kinds * 4 - 2 + generator.normal(0, 0.3, 400), "kind": np.array(["a", "b"])[kinds]})
    table = table.assign(y=generator.normal(size=400), number=range(400))
    table.loc[360:, "kind"] = [f"only {number}" for number in range(40)]
    rows = spark.createDataFrame(table)
    data = sparksplit.preprocess(
        rows,
        f"{tmp_path}/data",
        input={"label": "kind", "keep": ["number"]},
        cut={"by": "time", "column": "number"},
        validation=0.1,
        test=0.2,
        unseen_labels="unknown",
        lanes=4,
    )
    assert data.manifest.label is not None and data.manifest.label.classes == ["a", "b", UNKNOWN]
    assert data.manifest.unseen_labels == {"test": 40}
    run = sparksplit.train(
        data, f"{tmp_path}/run", model={"build": "mlp"}, epochs=20, batch_size=20, optimizer={"learning_rate": 0.1}
    )
    assert run.history["validation_accuracy"].iloc[-1] == 1.0
    assert run.test["accuracy"] == 0.5
    for name, raw in (("prepared", data.path), ("raw", rows.where("number >= 320"))):
        section = {} if name == "prepared" else {"input": {"label": "kind", "keep": ["number"]}}
        metrics = sparksplit.predict(run, raw, f"{tmp_path}/{name}", **section).metrics
        assert metrics is not None and (metrics["rows"], metrics["accuracy"]) == (80, 0.5)
        assert [each["rows"] for each in metrics["by_class"]][2] == 40
        assert [each["predicted"] for each in metrics["by_class"]][2] == 0
