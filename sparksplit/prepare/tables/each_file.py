"""Calls a function for each file: on the driver, or in executors if there are many files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

T = TypeVar("T")

_ON_DRIVER, _THREADS = 64, 16
"""Largest number of files that the driver reads itself, and how many it reads at a time."""


def each_file(spark: SparkSession, paths: Sequence[str], function: Callable[[str], T]) -> list[tuple[str, T]]:
    """Return each file's path with the function's result, in the order of `paths`. function: picklable"""
    if len(paths) > _ON_DRIVER:
        return in_executors(spark, paths, function).collect()
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(zip(paths, pool.map(function, paths), strict=True))


def in_executors(spark: SparkSession, paths: Sequence[str], function: Callable[[str], T]) -> RDD[tuple[str, T]]:
    """Return what `each_file` returns, before anything is read."""
    places = spark.sparkContext.parallelize(paths, max(1, min(len(paths), 1000)))
    return places.map(lambda path: (path, function(path)))
