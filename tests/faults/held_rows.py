"""A source of rows that keeps the job that reads them for ever."""

import time
from pathlib import Path


def rows(spark, path):
    """One row. Its task makes the file `begun` in the folder `path`, and does not end."""

    def held(batches):
        Path(path, "begun").touch()
        time.sleep(3600)
        yield from batches

    return spark.range(1).selectExpr("double(id) AS x", "id AS label").mapInPandas(held, "x double, label long")
