"""Sources of raw columns, and the rows that they give."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from hdfs_io.config import InputConfig
from hdfs_io.sources import Source, open_with_spark
from hdfs_io.sources.parse import parse
from sparksplit.base.config import parse as parse_config


def source(spark: SparkSession, **keys: Any) -> Source:
    return open_with_spark(spark, parse_config(InputConfig, {"format": "parquet", "label": "y", **keys}))


def rows_of(spark: SparkSession, opened: Source) -> list[tuple[Any, ...]]:
    """(part, values, label, what is kept) of the good rows."""
    good = parse(spark, opened).where("bad is null").collect()
    return sorted(
        (row.part, *np.frombuffer(row.tensor_0, "<f4").tolist(), row.label, *row[5 : 5 + len(opened.keep)])
        for row in good
    )
