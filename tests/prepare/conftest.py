"""What tests of several formats share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def elsewhere(spark: SparkSession) -> Callable[[Path, str], str]:
    """The address of a name in a local folder, by a scheme that only Spark's Hadoop configuration knows: viewfs."""

    def address(folder: Path, name: str) -> str:
        table = folder.name.replace("_", "-").lower()
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        hadoop.set(f"fs.viewfs.mounttable.{table}.link./data", folder.as_uri())
        return f"viewfs://{table}/data/{name}"

    return address
