"""Formats from a real HDFS, where other tools wrote the files, to predictions there."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pyspark.sql import SparkSession

from hdfs_io import filesystem
from sparksplit.commands import predict, preprocess
from sparksplit.dataset.prepared import PreparedDataSet
from tests.forked import Zygote, nodes_of
from tests.hadoop.cluster import HadoopCluster
from tests.prepare.tfrecords import example, write
from tests.training.runs import run

pytestmark = pytest.mark.slow

ROWS = 60
A, B, KIND = np.arange(ROWS) / 4, np.arange(ROWS)[::-1] / 2, np.arange(ROWS) % 3


@pytest.fixture(scope="module")
def hdfs(hadoop: HadoopCluster) -> Iterator[str]:
    """A new folder on HDFS."""
    path = f"{hadoop.uri}/formats-{uuid.uuid4().hex}"
    yield path
    filesystem.remove(path)


def _parquet(spark: SparkSession, place: str, folder: Path) -> dict[str, Any]:
    rows = [(float(a), float(b), int(kind)) for a, b, kind in zip(A, B, KIND, strict=True)]
    spark.createDataFrame(rows, "a double, b double, kind int").write.partitionBy("kind").parquet(place)
    return {"path": place, "label": "kind"}


def _tfrecord(spark: SparkSession, place: str, folder: Path) -> dict[str, Any]:
    records = [example(a=[float(a)], b=[float(b)], kind=[int(kind)]) for a, b, kind in zip(A, B, KIND, strict=True)]
    for name, some, compression in (("a", records[:20], ""), ("b.gz", records[20:], "GZIP")):
        filesystem.write_bytes(f"{place}/{name}", write(folder / name, some, compression).read_bytes())
    return {"path": f"{place}/*", "label": "kind"}


def _images(spark: SparkSession, place: str, folder: Path) -> dict[str, Any]:
    for number, kind in enumerate(KIND.tolist()):
        stream = io.BytesIO()
        Image.fromarray(np.full((5, 5), 4 * number, np.uint8)).save(stream, "PNG")
        filesystem.write_bytes(f"{place}/{kind}/{number}.png", stream.getvalue())
    return {"path": place, "size": "[2, 2]", "channels": 1, "label_type": "integer"}


@pytest.mark.parametrize(("name", "put"), [("parquet", _parquet), ("tfrecord", _tfrecord), ("images", _images)])
def test_from_hdfs_to_predictions(
    name: str, put: Any, hdfs: str, spark: SparkSession, zygote: Zygote, tmp_path: Path
) -> None:
    section = put(spark, f"{hdfs}/{name}/raw", tmp_path)
    inputs = [word for key, value in section.items() for word in ("--set", f"input.{key}={value}")]
    inputs += ["--set", f"input.format={name}"]
    place = f"{hdfs}/{name}"
    assert preprocess.main([*inputs, "--set", f"output={place}/data", "--set", "validation=0.2"]) == 0
    manifest = PreparedDataSet.open(f"{place}/data").manifest
    assert sum(facts.rows for facts in manifest.splits.values()) == ROWS
    assert manifest.label is not None and manifest.label.classes == ["0", "1", "2"]
    with nodes_of(zygote, spark=True):
        keys = {"epochs": 1, "batch_size": 16, "model": {"build": "mlp", "params": {"hidden": [4]}}}
        record = run(f"{place}/data", f"{place}/run", nodes=2, **keys)
    assert record["ledger"]["exact"] and record["ledger"]["rows"] == manifest.splits["train"].rows
    assert predict.main([*inputs, "--set", f"model={place}/run", "--set", f"output={place}/out"]) == 0
    assert filesystem.read_json(f"{place}/out/metrics.json")["rows"] == ROWS
