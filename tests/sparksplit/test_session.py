"""The Spark session: what it gives to executors, what it refuses, and that it leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pyspark.sql import SparkSession

from sparksplit.errors import InputError
from sparksplit.session import spark_session


def test_executors_import_the_project_and_the_tests(spark: SparkSession) -> None:
    def names(_rows: Iterator[int]) -> Iterator[tuple[str, str]]:
        yield InputError.__name__, os.environ["PYSPARK_PYTHON"]

    got = spark.sparkContext.parallelize(range(3), 3).mapPartitions(names).collect()
    assert [name for name, _ in got] == ["InputError"] * 3


def test_an_inner_session_is_the_outer_one(spark: SparkSession) -> None:
    with spark_session("inner", executors=1) as inner:
        assert inner.sparkContext is spark.sparkContext
    assert spark.range(5).count() == 5
