"""Sources of raw columns, and the rows that they give."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from sparksplit.base.config import parse as parse_config
from sparksplit.prepare import bad_rows
from sparksplit.prepare.passes.parse import parse
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import BadRow, Source, open_with_spark


def source(spark: SparkSession, **keys: Any) -> Source:
    """label: y, unless it is given, or found without."""
    label = {} if keys.get("format") == "images" else {"label": "y"}
    return open_with_spark(spark, parse_config(InputConfig, {"format": "parquet", **label, **keys}))


def rows_of(spark: SparkSession, opened: Source) -> list[tuple[Any, ...]]:
    """(part, values, label, what is kept) of the good rows."""
    good = parse(spark, opened).where("bad is null").collect()
    return sorted(
        (row.part, *np.frombuffer(row.tensor_0, "<f4").tolist(), row.label, *row[5 : 5 + len(opened.keep)])
        for row in good
    )


def bad_of(spark: SparkSession, opened: Source, limit: int) -> list[BadRow]:
    """The bad rows, by file and row. Raises InputError as `preprocess` does, where there are more than `limit`."""
    bad = bad_rows.of(parse(spark, opened))
    bad_rows.Limit(limit).check(bad_rows.tally(bad), 0)
    return [BadRow(**row.asDict()) for row in bad.orderBy("path", "offset", "row").collect()]
