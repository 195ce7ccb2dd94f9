"""What makes `preprocess` scale: rows are numbered where they are, shuffled once, and exactly by their file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import sparksplit
from sparksplit.base.config import parse
from sparksplit.dataset import plan, row_ids
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.prepared import BlockReader, PreparedDataSet
from sparksplit.prepare import prepare
from sparksplit.prepare.passes import numbering
from sparksplit.prepare.passes import stored_passes as passes
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import open_source
from sparksplit.prepare.sources.raw import raw_rows
from tests.commands.preprocessing import run
from tests.prepare.idx_files import digits, write_folder

pytestmark = pytest.mark.cluster


def ids_of(data: PreparedDataSet, split: str) -> list[int]:
    with BlockReader(data, split) as reader:
        return [
            row_id
            for lane in range(data.manifest.lanes)
            for block in range(data.manifest.blocks(split, lane))
            for row_id in reader.read(lane, block).row_ids.tolist()
        ]


def test_a_partitions_key_is_put_there(spark: SparkSession) -> None:
    keys = [int(key) for key in plan.partition_keys(37)]
    frame = spark.createDataFrame([(key,) for key in keys], "key int").repartition(37, "key")
    found = frame.select("key", sql.spark_partition_id(), sql.hash("key")).collect()
    assert {row[0]: row[1] for row in found} == {key: place for place, key in enumerate(keys)}
    assert [row[2] for row in found] == plan.spark_hash(np.array([row[0] for row in found], np.int32)).tolist()


@pytest.fixture
def shuffled_frames(monkeypatch: pytest.MonkeyPatch) -> list[DataFrame]:
    """The frames that files are written from."""
    found: list[DataFrame] = []
    own = prepare._by_file

    def noted(*arguments: Any) -> DataFrame:
        found.append(own(*arguments))
        return found[-1]

    monkeypatch.setattr(prepare, "_by_file", noted)
    return found


@pytest.mark.slow
def test_rows_are_shuffled_once_and_never_sorted_by_spark(
    spark: SparkSession, tmp_path: Path, shuffled_frames: list[DataFrame]
) -> None:
    folder = write_folder(tmp_path / "raw", digits(600), digits(90))  # the test rows repeat training rows
    settings = ["lanes=8", "validation=0.2", "file_size=1000"]
    assert run(tmp_path, f"input.path={folder}", *settings) == 0
    (frame,) = shuffled_frames
    shown = frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    assert len(re.findall(r"Exchange hashpartitioning\(file", shown)) == len(re.findall("Exchange", shown)) == 1
    assert not any(word in shown for word in ("Window", "Sort"))
    data = PreparedDataSet.open(f"{tmp_path}/out")
    assert frame.rdd.getNumPartitions() == sum(split.files for split in data.manifest.splits.values())
    assert len({row_id for split in data.manifest.splits for row_id in ids_of(data, split)}) == 690


@pytest.mark.slow
def test_raw_rows_to_predict_are_not_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    """Though they are numbered over both parts, the test rows being training rows again."""
    x, y = digits(60)
    folder = write_folder(tmp_path / "raw", (x, y), (x[:20], y[:20]))
    before = spark.conf.get("spark.sql.shuffle.partitions")
    description = from_arrays(f"{tmp_path}/data", {"train": (x, y)}).description
    source = open_source(parse(InputConfig, {"path": f"{folder}"}), description)
    with raw_rows(spark, source, description, parts=["test"]) as raw:
        shown = raw.frames["test"]._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
        assert not any(word in shown for word in ("Exchange", "Window", "Sort"))
        found = [row.row_id for row in raw.frames["test"].collect()]
    assert raw.rows == {"test": 20} and list(raw.frames) == ["test"]
    fixed = np.concatenate([x.reshape(60, -1), y.astype("<i8").view(np.uint8).reshape(60, -1)], axis=1)[:20]
    content = row_ids.content_hash(fixed)
    assert sorted(found) == sorted(row_ids.signed(row_ids.row_id(content[:, 0], np.ones(20, np.int64))).tolist())
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
    assert spark.conf.get("spark.sql.files.minPartitionNum", None) is None


@pytest.mark.slow
def test_too_many_equal_rows_are_numbered_by_spark_with_the_same_result(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few different rows over several partitions, told apart by what they keep."""
    whole: list[bool] = []
    own = numbering.numbering

    def noted(*arguments: Any) -> numbering.Numbering | None:
        found = own(*arguments)
        whole.append(found is None)
        return found

    monkeypatch.setattr(passes, "numbering", noted)
    generator = np.random.default_rng(0)
    rows = [(float(a), int(b), f"{key}") for a, b, key in generator.integers(0, [3, 2, 50], (400, 3)).tolist()]
    frame = spark.createDataFrame(rows, "x double, y int, k string").repartition(5)
    keys: dict[str, Any] = {"input": {"label": "y", "keep": ["k"]}, "validation": 0.3, "lanes": 4}
    one = sparksplit.preprocess(frame, f"{tmp_path}/one", **keys)
    monkeypatch.setattr(numbering, "MAX_ENTRIES", 20)
    two = sparksplit.preprocess(frame.repartition(3), f"{tmp_path}/two", **keys)
    assert whole == [False, True]
    assert one.digest == two.digest
    for split in ("train", "validation"):
        tables = [pq.read_table(f"{data.path}/{split}", columns=["row_id", "k"]) for data in (one, two)]
        found = [sorted(zip(*table.to_pydict().values(), strict=True)) for table in tables]
        assert found[0] == found[1] and len(set(found[0])) == one.manifest.splits[split].rows


@pytest.mark.slow
def test_different_rows_with_the_same_id_get_different_ones(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffled_frames: list[DataFrame]
) -> None:
    monkeypatch.setattr(prepare, "_ID_BITS", 14)
    folder = write_folder(tmp_path / "raw", digits(300))
    assert run(tmp_path, f"input.path={folder}", "lanes=8", "validation=0.2", "file_size=1000") == 0
    assert len(shuffled_frames) > 1
    data = PreparedDataSet.open(f"{tmp_path}/out")
    ids = ids_of(data, "train") + ids_of(data, "validation")
    assert len(set(ids)) == len(ids) == 300 and max(ids) < 2**14
    for split in ("train", "validation"):
        assert row_ids.row_checksum(np.array(ids_of(data, split), np.uint64)) == data.manifest.splits[split].checksum
        names = {file.rpartition("/")[2] for file in data.files(split)}
        assert {path.name for path in Path(data.path, split).iterdir()} == names
