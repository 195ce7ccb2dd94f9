"""The programs of docs/spark-ml.md run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml import PipelineModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from sklearn.datasets import load_iris

PAGE = (Path(__file__).parent.parent.parent / "docs" / "spark-ml.md").read_text()


@pytest.fixture(scope="module")
def frames(spark: SparkSession) -> dict[str, DataFrame]:
    """The DataFrames that the programs have, by name."""
    values, labels = load_iris(return_X_y=True)
    rows = [(list(map(float, row)), float(label)) for row, label in zip(values, labels, strict=True)]
    irises = spark.createDataFrame(rows, "features array<double>, label double").coalesce(1)
    flowers = irises.select(
        sql.col("features")[2].alias("length"), sql.col("features")[3].alias("width"), sql.expr("string(label) species")
    )
    random = np.random.default_rng(1)
    built = [
        (str(random.choice(["Ulm", "Bonn"])), int(random.integers(1, 9)), f"{year}-05-01") for year in range(1900, 2000)
    ]
    houses = spark.createDataFrame(
        [(*row, 10.0 * row[1]) for row in built], "city string, rooms int, built string, price double"
    )
    return {
        "irises": irises,
        "flowers": flowers,
        "houses": houses.withColumn("built", sql.to_date("built")).coalesce(1),
    }


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_the_programs_run(
    own_session: None, frames: dict[str, DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found: list[dict[str, Any]] = []
    for program in programs():
        names: dict[str, Any] = dict(frames)
        # Spark's JVM takes a relative path from the folder that it was started in.
        exec(compile(program.replace('"models/', f'"{tmp_path}/models/'), "docs/spark-ml.md", "exec"), names)
        found.append(names)
    first, pipeline, mixed, search = found
    assert first["predicted"].where("label = prediction").count() > 100
    loaded = PipelineModel.load(f"{tmp_path}/models/flowers")
    assert loaded.transform(frames["flowers"]).where("label = prediction").count() > 100
    assert mixed["predicted"].where("abs(prediction - price) < 30").count() > 60
    assert search["best"].numClasses == 3 and pipeline["model"].stages[-1].run.record.ledger.exact
