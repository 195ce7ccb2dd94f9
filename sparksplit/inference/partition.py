"""Predictions as a partition of a table's folder, TABLE/ds=2026-11-22/, which Hive, Spark and others read as a table.

The partition is an output of its own: it appears by rename and is replaced alone. What is no row has a name that
readers of tables skip: those in the partition begin with `_`, what is beside it while it is filled with `.`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hdfs_io import filesystem
from hdfs_io.listing import is_hidden
from sparksplit.inference.config import PredictConfig


def folder_of(config: PredictConfig) -> str:
    """Where the predictions of `config` go: its output, or the partition's folder in that."""
    parts = (f"{column}={value}" for column, value in (config.partition or {}).items())
    return filesystem.join(config.output, *parts)


def check(config: PredictConfig, columns: Sequence[str]) -> None:
    """Raise ConfigError where what is in the output already is not partitioned by these columns, or the predictions
    themselves have a column of that name. columns: those of the predictions."""
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
