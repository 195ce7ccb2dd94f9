"""Raw rows, one module for each format behind one small interface; hdfs_io/formats.py is their table.

base.Source     what each gives: a DataFrame, and what makes rows of it in executors
idx, csv, text  the formats that are files
dataframe       rows that come as a DataFrame: a program's own, or what a user's function returns
parse, identify the DataFrame of tensors, label, row_id, lane and split that preprocess starts from
raw             the DataFrame that predict starts from
"""

from __future__ import annotations

from hdfs_io import filesystem
from hdfs_io.config import InputConfig
from hdfs_io.formats import format_of
from hdfs_io.preprocessing import Description
from hdfs_io.sources.base import BadRow, FileSource, ParsedRows, Source, Task
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError

__all__ = ["BadRow", "FileSource", "ParsedRows", "Source", "Task", "check_like", "open_source", "raw_digest"]


def raw_digest(config: InputConfig) -> str | None:
    """A hash of what can be seen of the raw files without opening them: names, bytes, times of change.

    None where the files are gone, so that nothing could have changed since, and where the rows come as a DataFrame.

    Raises InputError where the folder holds something that cannot be read.
    """
    format_ = format_of(config.format)
    if not format_.source:
        return None
    folders = [filesystem.absolute(path) for path in (config.path, config.test) if path is not None]
    if not all(filesystem.exists(folder) for folder in folders):
        return None
    facts = format_.load().facts
    return digest(
        [
            [[path.removeprefix(folder), found.bytes, found.modified] for path, found in facts(folder, config)]
            for folder in folders
        ]
    )


def open_source(
    config: InputConfig, description: Description | None = None, *, validation: float = 0.0, test: float = 0.0
) -> FileSource:
    """The source of files that `config` names, checked on the driver as far as that is cheap.

    description: of the data set that a model was trained on, where rows are to be predicted: they must match it.
    validation, test: the shares that a text cuts off itself, since it is not cut by a hash

    Raises ConfigError and InputError.
    """
    source = format_of(config.format).load().of(config, description, validation, test)
    if description is not None:
        check_like(source, description, config.path)
    return source


def check_like(source: Source, description: Description, place: str) -> None:
    """Raise InputError where the tensors are not those that a model was trained on."""
    for found, trained in zip(source.tensors, description.tensors, strict=True):
        if (found.dtype, found.shape) != (trained.dtype, trained.shape):
            raise InputError(
                f"{place}: rows are {found.dtype} {found.shape}, "
                f"the model was trained on {trained.dtype} {trained.shape}"
            )
