"""What Spark calls surely good, so that a row need not carry its file and number: none that is bad."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from sparksplit.base.config import parse as parse_config
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.features.feature_config import FeatureConfig
from sparksplit.features.table import Column, Table
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import open_with_spark
from sparksplit.prepare.tables.selection import _good
from sparksplit.prepare.tables.table_rows import TableReader
from tests.prepare.sources.raw_columns import bad_of, rows_of

WHOLE = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
FLOATS = {"float": pa.float32(), "double": pa.float64()}
FITTED = ("int16", "int32", "int64", "float16", "float32", "float64")


def _values(kind: pa.DataType) -> list[Any]:
    if pa.types.is_floating(kind):
        ends = [2.0**31 - 128, 2.0**31, -(2.0**31), 2.0**63, 1e38, math.inf]
        return [None, math.nan, 0.0, 1.0, 1.5, *ends, *([1e300] if kind == pa.float64() else [])]
    limits = np.iinfo(kind.to_pandas_dtype())
    ends = [2**15 - 1, 2**15, -(2**15), 2**31 - 1, 2**31, -(2**31)]
    return [None, 0, limits.min, limits.max, *(end for end in ends if limits.min <= end <= limits.max)]


def test_no_row_is_surely_good_that_is_bad_whatever_its_column_was_when_it_was_fitted(spark: SparkSession) -> None:
    """An int of one day may be a bigint or a double of the next."""
    for kind, arrow in {**WHOLE, **FLOATS, "boolean": pa.bool_()}.items():
        values = [None, True, False] if kind == "boolean" else _values(arrow)
        columns = [Column("x", "int", "number", FeatureConfig(), dtype) for dtype in FITTED]
        frame = spark.createDataFrame([(value,) for value in values], f"x {kind}")
        good = [_good(column, sql.col("x"), kind).alias(column.dtype) for column in columns]
        found = frame.select("x", *good).collect()
        for column in columns:
            reader = TableReader(Table((column,)), ("",), True)
            given = [None if row.x is None else int(row.x) if kind == "boolean" else row.x for row in found]
            wrong = reader([pa.array(given, pa.int8() if kind == "boolean" else arrow)], len(given)).wrong[:, 0]
            sure = [bool(row[str(column.dtype)]) for row in found]
            assert not (wrong & np.array(sure)).any(), (kind, column.dtype)
            assert sure[1 if kind == "boolean" or kind in WHOLE else 2], (kind, column.dtype)


def test_a_models_booleans_that_became_floats_are_read_as_its_classes_and_a_gap_is_no_label(
    spark: SparkSession, tmp_path: Path
) -> None:
    label = LabelSpec(dtype="int64", classes=["false", "true"], kind="text")
    x = TensorSpec(name="x", dtype="float32", shape=[1], columns=["x"])
    description = Description(tensors=[x], label=label, preprocessing=FittedPreprocessing(), label_name="y")
    config = parse_config(InputConfig, {"format": "parquet", "path": str(tmp_path), "label": "y"})
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "y": [0.0, 1.0, math.nan]}), tmp_path / "a")
    opened = open_with_spark(spark, config, description)
    assert rows_of(spark, opened) == [(0, 1.0, "false"), (0, 2.0, "true")]
    assert len(bad_of(spark, opened, 1)) == 1


def test_a_time_of_day_is_no_day(spark: SparkSession) -> None:
    rows = [(datetime.datetime(2024, 1, 1, 12), datetime.date(2024, 1, 1))]
    frame = spark.createDataFrame(rows, "x timestamp, y date")
    day, moment = (Column("x", "date", "date", FeatureConfig(), dtype) for dtype in ("int32", "int64"))
    found = frame.select(
        _good(day, sql.col("x"), "timestamp"), _good(moment, sql.col("x"), "timestamp"),
        _good(day, sql.col("y"), "date"), _good(moment, sql.col("y"), "date"),
        _good(moment, sql.col("y").cast("string"), "string"),
        _good(day, sql.date_add("y", 365 * 8000), "date"),
    )  # fmt: skip
    assert list(found.collect()[0]) == [False, True, True, True, False, False]
