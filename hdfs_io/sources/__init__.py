"""Raw rows, one module for each format behind one small interface.

base.Source     what each gives: tasks on the driver, rows in executors
idx, csv        the formats
frame           the DataFrame of row_id, tensors and label that preprocess and predict start from
"""

from __future__ import annotations

from hdfs_io.config import InputConfig, check_input
from hdfs_io.preprocessing import Description
from hdfs_io.sources.base import BadRow, Rows, Source, Task
from hdfs_io.sources.csv import CsvSource
from hdfs_io.sources.idx import IdxSource
from sparksplit.errors import InputError

__all__ = ["BadRow", "Rows", "Source", "Task", "open_source"]


def open_source(config: InputConfig, description: Description | None = None) -> Source:
    """The source that `config` names, checked on the driver as far as that is cheap.

    description: of the data set that a model was trained on, where rows are to be predicted: they must be like it.

    Raises ConfigError and InputError.
    """
    if description is not None and description.label is not None and config.label_type == "auto":
        config = config.model_copy(update={"label_type": description.label.kind})
    check_input(config)
    source: Source = IdxSource(config, description is None) if config.format == "idx" else CsvSource(config)
    if description is not None:
        for found, trained in zip(source.tensors, description.tensors, strict=True):
            if (found.dtype, found.shape) != (trained.dtype, trained.shape):
                raise InputError(
                    f"{config.path}: rows are {found.dtype} {found.shape}, "
                    f"the model was trained on {trained.dtype} {trained.shape}"
                )
    return source
