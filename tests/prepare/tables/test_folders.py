"""Columns that the names of folders give: the same texts in every format, whichever folders are there."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from pyarrow import orc
from pyspark.sql import SparkSession

from hdfs_io.listing import find, folder_values
from sparksplit.base.config import parse as parse_config
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.dataset.feature_spec import Category, Number
from sparksplit.features.feature_config import FeatureConfig
from sparksplit.prepare.cut_config import CutConfig
from sparksplit.prepare.passes.parse import parse
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import Source, open_with_spark
from sparksplit.prepare.tables.folders import are_whole
from tests.prepare.tfrecords import example, write

INFERRED = "spark.sql.sources.partitionColumnTypeInference.enabled"
NAMES = [
    "00501", "0501", "501", "1.10", "1.1", "K%C3%B6ln", "Jena ö", "a+b", "100%", "%zz", "a%2Fb", "%25C3", "x=y", "true",
    "2024-01-01", "__HIVE_DEFAULT_PARTITION__",
]  # fmt: skip


def picture(value: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((1, 1), value, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


WRITERS: dict[str, Callable[[Path], Any]] = {
    "parquet": lambda place: pq.write_table(pa.table({"x": [1.5], "y": [1]}), place),
    "orc": lambda place: orc.write_table(pa.table({"x": [1.5], "y": [1]}), f"{place}"),
    "json": lambda place: place.write_text(json.dumps({"x": 1.5, "y": 1})),
    "csv": lambda place: place.write_text("x,y\n1.5,1\n"),
    "tfrecord": lambda place: write(place, [example(x=[1.5], y=[1])]),
    "images": lambda place: place.write_bytes(picture(9)),
}


def put(folder: Path, kind: str, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        WRITERS[kind](folder / name / "b c%20")
    return folder


def opened(spark: SparkSession, path: Path, trained: Description | None = None, **keys: Any) -> Source:
    wanted = keys.pop("wanted", None)
    config = parse_config(InputConfig, {"format": "parquet", "path": f"{path}", "label": "y", **keys})
    return open_with_spark(spark, config, trained, features=wanted)


def columns(spark: SparkSession, source: Source, *names: str) -> list[tuple[Any, ...]]:
    rows = parse(spark, source).where("bad is null").select(*names).collect()
    return sorted((tuple(row) for row in rows), key=str)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_value_is_a_folders_text_in_every_format(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    put(tmp_path / "a=b", kind, *(f"zip={name}" for name in NAMES))
    before = spark.conf.get(INFERRED)
    texts = folder_values(find([f"{tmp_path}/a=b"]))["zip"]
    assert len(texts) == len(NAMES) - 1 and {"00501", "0501", "1.10", "Köln", "100%", "a/b", "%C3"} < texts
    own: dict[str, Any] = {"format": kind, **({"size": [1, 1]} if kind == "images" else {})}
    labelled = opened(spark, tmp_path / "a=b", **own | {"label": "zip", "max_bad_rows": 1})
    assert labelled.label_kind == "text"
    assert {label for (label,) in columns(spark, labelled, "label")} == texts  # the one without a value is a bad row
    kept = opened(spark, tmp_path / "a=b", **own | {"label": None, "keep": ["zip"]})
    assert {text for (text,) in columns(spark, kept, "keep_0")} == {*texts, None}
    assert spark.conf.get(INFERRED) == before
    if kind != "images":
        table = opened(spark, tmp_path / "a=b", **own).table
        assert table is not None
        assert [(column.name, column.type, column.kind) for column in table.columns][-1] == (
            "zip",
            "string",
            "category",
        )


def test_a_folders_text_is_no_marker_of_a_missing_value(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "csv", "country=NA", "country=DE")
    own: dict[str, Any] = {"format": "csv", "nulls": ["", "NA"]}
    for keys, column in (({"label": "country"}, "label"), ({"keep": ["country"]}, "keep_0"), ({}, "text_0")):
        found = opened(spark, tmp_path, **own, **keys)
        assert columns(spark, found, column) == [("DE",), ("NA",)]
    config = parse_config(InputConfig, {**own, "path": f"{tmp_path}", "label": "y", "keep": ["country"]})
    by_key = open_with_spark(spark, config, cut=CutConfig(by="key", columns=["country"]))
    assert columns(spark, by_key, "keep_0") == [("DE",), ("NA",)]


def test_labels_are_numbers_where_they_are_written_in_one_way(spark: SparkSession, tmp_path: Path) -> None:
    for names in (["3", "20", "-1"], ["3", "20", "020"]):
        put(tmp_path / names[-1], "parquet", *(f"kind={name}" for name in names))
    keys: dict[str, Any] = {"label": "kind"}
    numbers = opened(spark, tmp_path / "-1", **keys)
    assert numbers.label_kind == "integer"
    assert columns(spark, numbers, "label") == [(-1,), (20,), (3,)]
    assert opened(spark, tmp_path / "020", **keys).label_kind == "text"
    # One part's names decide for all.
    assert opened(spark, tmp_path / "-1", test=f"{tmp_path}/020", **keys).label_kind == "text"
    asked = opened(spark, tmp_path / "020", label_type="integer", **keys)
    assert columns(spark, asked, "label") == [(20,), (20,), (3,)]
    # Rows to be predicted are read as the training rows were.
    trained = Description(
        tensors=[TensorSpec(name="x", dtype="float32", shape=[2], columns=["x", "y"])],
        label=LabelSpec(dtype="int64", classes=["020", "20", "3"], kind="text"),
        preprocessing=FittedPreprocessing(),
    )
    day = opened(spark, tmp_path / "-1", trained, **keys)
    assert day.label_kind == "text" and columns(spark, day, "label") == [("-1",), ("20",), ("3",)]


@pytest.mark.slow
def test_what_a_folder_means_does_not_depend_on_which_are_there(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "all", "parquet", "zip=00501/v=1.10", "zip=501/v=2")
    put(tmp_path / "day", "parquet", "zip=501/v=2")
    pq.write_table(pa.table({"x": [1.5], "y": [1], "zip": [501], "v": [2.5]}), tmp_path / "flat")
    whole = opened(spark, tmp_path / "all", wanted={"v": FeatureConfig(kind="number")}, test=f"{tmp_path}/day")
    assert columns(spark, whole, "text_0") == [("00501",), ("501",), ("501",)]
    assert whole.table is not None
    assert [(column.kind, column.dtype) for column in whole.table.columns] == [
        ("number", "float64"), ("category", None), ("number", "float64"),
    ]  # fmt: skip
    place: dict[str, Any] = {"type": "string", "place": 0}
    trained = Description(
        tensors=[TensorSpec(name="numbers_float64", dtype="float64", shape=[2])],
        label=LabelSpec(dtype="int64", classes=["0", "1"]),
        preprocessing=FittedPreprocessing(),
        features=[
            Category(column="zip", tensor="indices_uint8", vocabulary=["00501", "501"], **place),
            Number(column="v", tensor="numbers_float64", **place | {"place": 1}),
            Number(column="x", tensor="numbers_float64", **place | {"type": "double"}),
        ],
    )
    day = tmp_path / "day"
    for path, value in ((day, 2.0), (day / "zip=501", 2.0), (day / "zip=501/v=2", 2.0), (tmp_path / "flat", 2.5)):
        ((text, numbers),) = columns(spark, opened(spark, path, trained), "text_0", "tensor_0")
        assert text == "501" and value in np.frombuffer(numbers, np.float64)
    # A folder in the path itself is a column only by name.
    one = day / "zip=501/v=2"
    assert [*opened(spark, one, keep=["zip"]).columns] == ["x", "y", "zip"]  # type: ignore[attr-defined]
    assert [*opened(spark, one).columns] == ["x", "y"]  # type: ignore[attr-defined]


def test_numbers_of_a_model_may_come_from_folders(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"month": [2, 3], "x": [0.5, 2.5], "y": [0, 1]}), tmp_path / "flat")
    put(tmp_path / "folders", "parquet", "month=01", "month=12")
    whole = opened(spark, tmp_path / "flat", test=f"{tmp_path}/folders")
    assert whole.table is None and whole.tensors[0].columns == ["month", "x"]
    values = [np.frombuffer(row, "<f4").tolist() for (row,) in columns(spark, whole, "tensor_0")]
    assert sorted(values) == [[1.0, 1.5], [2.0, 0.5], [3.0, 2.5], [12.0, 1.5]]
    trained = Description(
        tensors=[TensorSpec(name="x", dtype="float32", shape=[2], columns=["month", "x"])],
        label=LabelSpec(dtype="int64", classes=["0", "1"]),
        preprocessing=FittedPreprocessing(),
    )
    day = opened(spark, tmp_path / "folders", trained)
    values = [np.frombuffer(row, "<f4").tolist() for (row,) in columns(spark, day, "tensor_0")]
    assert sorted(values) == [[1.0, 1.5], [12.0, 1.5]]


def test_only_one_way_of_writing_makes_a_number() -> None:
    assert are_whole({"0", "-5", "12", "9" * 18})
    for text in ("", "01", "+1", "-0", "1.0", " 1", "1e3", "1_000", "\u0661", "9" * 19, "0x1"):
        assert not are_whole({"1", text})
    assert not are_whole(set())
