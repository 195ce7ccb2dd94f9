"""Every format, from files that other tools wrote, through preprocess, and predict with the model of one of them.

All formats hold the same rows, so what comes out must be the same rows, and one model serves all: that of CSV files.
Images have a model of their own. text and idx have tests of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest
from PIL import Image
from pyspark.sql import DataFrame, SparkSession

from sparksplit.commands import predict, preprocess
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.prepare.formats import DATAFRAME, FORMATS
from tests.forked import Zygote, nodes_of
from tests.packages import avro_jar
from tests.prepare.tfrecords import example, write
from tests.training.runs import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = 120
TABLE = pd.DataFrame(
    {
        "a": np.arange(ROWS) / 4,
        "b": np.arange(ROWS)[::-1] ** 2 / 2,
        "c": (np.arange(ROWS) * 7 % 13).astype(float),
        "kind": (np.arange(ROWS) % 3).astype("i8"),
        "id": [f"row {number}" for number in range(ROWS)],
    }
)


def _hive_text(rows: DataFrame, place: Path) -> dict[str, Any]:
    """As Hive leaves it: ^A, no header, and an empty part."""
    rows.write.csv(f"{place}", sep="\x01", header=False)
    (place / "000000_0").touch()
    return {"path": f"{place}", "columns": "[a, b, c, kind, id]"}


def _parquet(rows: DataFrame, place: Path) -> dict[str, Any]:
    """Its label is a partition column."""
    rows.write.partitionBy("kind").parquet(f"{place}")
    return {"path": f"{place}"}


def _orc(rows: DataFrame, place: Path) -> dict[str, Any]:
    rows.write.orc(f"{place}")
    return {"path": f"{place}/part-*.orc"}


def _json(rows: DataFrame, place: Path) -> dict[str, Any]:
    rows.write.json(f"{place}", compression="gzip")
    return {"path": json.dumps([str(path) for path in sorted(place.glob("part-*"))])}


def _avro(rows: DataFrame, place: Path) -> dict[str, Any]:
    """In sub-folders that name no columns, in two orders of columns."""
    rows.sparkSession.sql(f"ADD JAR '{avro_jar()}'")
    rows.where("kind < 2").write.format("avro").save(f"{place}/2024/1")
    rows.where("kind = 2").select("id", "kind", "c", "b", "a").write.format("avro").save(f"{place}/2024/2")
    return {"path": f"{place}"}


def _tfrecord(rows: DataFrame, place: Path) -> dict[str, Any]:
    place.mkdir()
    records = [
        example(a=[row.a], b=[row.b], c=[row.c], kind=[row.kind], id=[row.id.encode()])
        for row in TABLE.itertuples()
    ]  # fmt: skip
    write(place / "part-0.tfrecord", records[:50])
    write(place / "part-1.tfrecord.gz", records[50:], "GZIP")
    return {"path": f"{place}"}


def _table(rows: DataFrame, place: Path) -> dict[str, Any]:
    """Hive's own text files, in its metastore."""
    rows.createOrReplaceTempView("fresh")
    spark = rows.sparkSession
    spark.sql(f"CREATE TABLE clients STORED AS TEXTFILE LOCATION '{place.as_uri()}' AS SELECT * FROM fresh")
    assert spark.sql("DESCRIBE FORMATTED clients").where("data_type LIKE '%LazySimpleSerDe'").count() == 1
    return {"table": "default.clients"}


def _sql(rows: DataFrame, place: Path) -> dict[str, Any]:
    rows.write.parquet(f"{place}")
    return {"query": f"SELECT a, b, c, kind, id FROM parquet.`{place.as_uri()}` WHERE a >= 0"}


WRITERS: dict[str, Callable[[DataFrame, Path], dict[str, Any]]] = {
    "hive-text": _hive_text,
    "parquet": _parquet,
    "orc": _orc,
    "json": _json,
    "avro": _avro,
    "tfrecord": _tfrecord,
    "table": _table,
    "sql": _sql,
}


def test_every_format_is_here() -> None:
    assert set(WRITERS) == set(FORMATS) - {"csv", "idx", "text", "images", DATAFRAME}


@pytest.fixture(scope="module")
def through(
    spark: SparkSession, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[PreparedDataSet, pd.DataFrame]]:
    """(what preprocess made of an input section, what predict said of its rows with a model: one that two nodes train
    on them, if none is given)."""

    def go(name: str, section: dict[str, Any], model: Path | None = None) -> tuple[PreparedDataSet, pd.DataFrame]:
        folder = tmp_path_factory.mktemp(name)
        inputs = [word for key, value in section.items() for word in ("--set", f"input.{key}={value}")]
        sets = [*inputs, "--set", f"output={folder}/data", "--set", "validation=0.2", "--set", "scaling=standard"]
        assert preprocess.main(sets) == 0
        data = PreparedDataSet.open(f"{folder}/data")
        if model is None:
            model = folder / "run"
            with nodes_of(zygote, spark=True):
                keys = {"epochs": 1, "batch_size": 32, "model": {"build": "mlp", "params": {"hidden": [4]}}}
                record = run(folder / "data", model, nodes=2, **keys)
            assert record["ledger"]["exact"] and record["ledger"]["rows"] == data.manifest.splits["train"].rows
        sets = [*inputs, "--set", f"model={model}", "--set", f"output={folder}/predictions"]
        assert predict.main(sets) == 0
        return data, ds.dataset(f"{folder}/predictions", exclude_invalid_files=True).to_table().to_pandas()

    return go


@pytest.fixture(scope="module")
def wanted(
    spark: SparkSession, through: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[PreparedDataSet, pd.DataFrame]:
    """The table as CSV files: the data set, and its rows."""
    path = tmp_path_factory.mktemp("csv") / "raw"
    spark.createDataFrame(TABLE).repartition(2).write.csv(f"{path}", header=True)
    return through("csv", {"format": "csv", "path": path, "label": "kind", "keep": "[id]"})


def test_csv(wanted: tuple[PreparedDataSet, pd.DataFrame]) -> None:
    data, predictions = wanted
    assert data.manifest.tensors[0].columns == ["a", "b", "c"]
    assert sum(facts.rows for facts in data.manifest.splits.values()) == ROWS
    assert sorted(predictions.id) == sorted(TABLE.id)


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_rows_from_every_format(
    name: str, spark: SparkSession, through: Any, wanted: tuple[PreparedDataSet, pd.DataFrame], tmp_path: Path
) -> None:
    source = WRITERS[name](spark.createDataFrame(TABLE).repartition(2), tmp_path / "raw")
    model = Path(wanted[0].path).parent / "run"
    data, predictions = through(name, {"format": name, **source, "label": "kind", "keep": "[id]"}, model)
    splits = {split: (facts.rows, facts.checksum) for split, facts in data.manifest.splits.items()}
    assert splits == {split: (facts.rows, facts.checksum) for split, facts in wanted[0].manifest.splits.items()}
    assert data.manifest.tensors == wanted[0].manifest.tensors
    assert len(predictions) == ROWS
    both = [found.set_index("id")[["row_id", "prediction"]].to_dict() for found in (predictions, wanted[1])]
    assert both[0] == both[1]


def test_images(spark: SparkSession, through: Any, tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (40, 9, 7, 3), dtype=np.uint8)
    for number, one in enumerate(pixels):
        place = tmp_path / "raw" / ("cat" if number % 4 else "dog") / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(one).save(place)
    section = {"format": "images", "path": f"{tmp_path}/raw", "size": "[4, 4]", "channels": 1, "keep": "[path]"}
    data, predictions = through("images", section)
    assert data.manifest.label.classes == ["cat", "dog"] and data.manifest.tensors[0].shape == [4, 4, 1]
    assert sum(facts.rows for facts in data.manifest.splits.values()) == len(predictions) == 40
    assert sorted(int(path.rpartition("/")[2].removesuffix(".png")) for path in predictions.path) == list(range(40))
