"""Raw rows, one module for each format behind one small interface.

base.Source     what each gives: tasks on the driver, rows in executors
idx, csv, text  the formats
frame           the DataFrame of row_id, tensors and label that preprocess and predict start from
"""

from __future__ import annotations

from hdfs_io import filesystem
from hdfs_io.config import InputConfig, check_input
from hdfs_io.preprocessing import TOKENS, Description
from hdfs_io.sources.base import BadRow, Rows, Source, Task, input_facts
from hdfs_io.sources.csv import CsvSource
from hdfs_io.sources.idx import IdxSource, idx_facts
from hdfs_io.sources.text import TextSource
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError

__all__ = ["BadRow", "Rows", "Source", "Task", "open_source", "raw_digest"]


def raw_digest(config: InputConfig) -> str | None:
    """A hash of what can be seen of the raw files without opening them: names, bytes, times of change.

    None where there are none any more, and so nothing that what was made of them could differ from.

    Raises InputError where the folder holds what cannot be read.
    """
    folders = [filesystem.absolute(path) for path in (config.path, config.test) if path is not None]
    if not all(filesystem.exists(folder) for folder in folders):
        return None
    seen = []
    for folder in folders:
        found = idx_facts(folder, config.label is not None) if config.format == "idx" else input_facts(folder)
        seen.append([[path.removeprefix(folder), facts.bytes, facts.modified] for path, facts in found])
    return digest(seen)


def open_source(
    config: InputConfig, description: Description | None = None, *, validation: float = 0.0, test: float = 0.0
) -> Source:
    """The source that `config` names, checked on the driver as far as that is cheap.

    description: of the data set that a model was trained on, where rows are to be predicted: they must be like it.
    validation, test: the shares that a text, which is not cut by a hash, cuts off itself

    Raises ConfigError and InputError.
    """
    label = None if description is None else description.label
    if config.format == "text":
        check_input(config)
        source: Source = TextSource(config, validation, test) if description is None else _like(config, description)
    else:
        if label is not None and config.label is not None and label.kind in TOKENS:
            raise config.error("format", f"must be text: the model predicts the next of a text's {label.kind}")
        if label is not None and config.label_type == "auto" and label.kind not in TOKENS:
            config = config.model_copy(update={"label_type": label.kind})
        check_input(config)
        source = IdxSource(config, description is None) if config.format == "idx" else CsvSource(config)
    if description is not None:
        for found, trained in zip(source.tensors, description.tensors, strict=True):
            if (found.dtype, found.shape) != (trained.dtype, trained.shape):
                raise InputError(
                    f"{config.path}: rows are {found.dtype} {found.shape}, "
                    f"the model was trained on {trained.dtype} {trained.shape}"
                )
    return source


def _like(config: InputConfig, description: Description) -> TextSource:
    """The text of `config` in sequences of the tokens that a model was trained on."""
    label = description.label
    if label is None or label.kind not in TOKENS or label.classes is None:
        raise config.error("format", "is text, but the model was not trained on one")
    known = len(label.classes) - 1
    if config.vocabulary is not None and config.vocabulary < known:
        raise config.error("vocabulary", f"must be at least {known}, the tokens of the model (is {config.vocabulary})")
    own = {"unit": label.kind, "length": description.tensors[0].shape[0]}
    for key, value in own.items():
        if key in config.model_fields_set and getattr(config, key) != value:
            raise config.error(key, f"must be {value}, as the model was trained (is {getattr(config, key)})")
    return TextSource(config.model_copy(update=own), vocabulary=label.classes)
