"""Predictions as a partition of a table's folder, TABLE/ds=2026-11-22/. Hive, Spark and other readers read it as a
table.

The partition is a separate output: it appears by rename, and is replaced alone. Readers of tables skip names that begin
with `_` or `.`. In the partition, names of files that hold no rows begin with `_`. While the partition is filled, names
beside it begin with `.`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hdfs_io import filesystem
from hdfs_io.listing import is_hidden
from sparksplit.inference.predict_config import PredictConfig


def folder_of(config: PredictConfig) -> str:
    """Return the folder of the predictions: the output, or the partition's folder in the output."""
    parts = (f"{column}={value}" for column, value in (config.partition or {}).items())
    return filesystem.join(config.output, *parts)


def check(config: PredictConfig, columns: Sequence[str]) -> None:
    """Raise ConfigError if the content of the output is not partitioned by these columns.

    Raise ConfigError also if the predictions have a column of the same name. columns: the columns of the predictions.
    """
    folder = filesystem.absolute(config.output)
    taken = {name.lower() for name in columns}
    for column, value in (config.partition or {}).items():
        if column.lower() in taken:
            raise config.error(
                f"partition.{column}",
                "is also a column of the predictions; choose another name, or list only other columns in `keep`",
            )
        for name, facts in filesystem.entries(folder).items():
            if not is_hidden(name) and (facts is not None or name.partition("=")[:2] != (column, "=")):
                raise config.error("partition", f"{folder}: holds {name}, which is not a partition of {column}")
        folder = filesystem.join(folder, f"{column}={value}")
