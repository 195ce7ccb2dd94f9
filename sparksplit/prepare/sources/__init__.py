"""Raw rows of every format behind one small interface; sparksplit/prepare/formats.py is their table.

base.Source     what each gives: a DataFrame, and what makes rows of it in executors
readers         what Spark reads: a DataFrame of raw columns for each format; csv, json_lines, same_columns and
                unlike_files (Parquet and ORC), tfrecord and images have files of their own
folders         the columns that the names of folders give
contents        whether a file of lines is what its name says
label_kinds     whether labels are classes or numbers to predict
columns         raw columns to rows; also for a program's own DataFrame, or what a user's function returns
idx, csv, text  the formats whose files our own tasks read
windows         rows over time to rows of arrays
parse           rows with their hashes; identify gives them their numbers, row_ids and splits
passes, kept    rows that are parsed once and kept, packed, while they are numbered, counted and cut
raw             the DataFrame that predict starts from
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from hdfs_io.listing import expand, files_in, find
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError
from sparksplit.dataset.description import WEIGHT, Description
from sparksplit.features.config import Features
from sparksplit.prepare.config import InputConfig
from sparksplit.prepare.config_checks import check_input
from sparksplit.prepare.cut_config import CutConfig
from sparksplit.prepare.formats import format_of
from sparksplit.prepare.source import BadRow, FileSource, ParsedRows, Source, Task
from sparksplit.prepare.sources import contents, snappy
from sparksplit.prepare.sources.windows import WindowSource
from sparksplit.prepare.tables.columns import DataFrameSource, columns_asked_for
from sparksplit.prepare.tables.raw_frame import RawFrame
from sparksplit.prepare.tables.readers import Raw, read
from sparksplit.spark.batches import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BadRow",
    "FileSource",
    "ParsedRows",
    "Source",
    "Task",
    "check_like",
    "check_paths",
    "open_frame",
    "open_source",
    "open_with_spark",
    "raw_digest",
]


def raw_digest(config: InputConfig) -> str | None:
    """A hash of what can be seen of the raw files without opening them: names, bytes, times of change.

    None where the files are gone, so that nothing could have changed since, and where only Spark can look at them.

    Raises InputError where the folder holds something that cannot be read.
    """
    if not config.listed:
        return None
    format_ = format_of(config.format)
    paths = [path for key in ("path", "validation", "test") for path in config.paths_of(key)]
    roots = [root for path in paths for root in (expand(path) if format_.patterns else [filesystem.absolute(path)])]
    if not roots or not all(filesystem.exists(root) for root in roots):
        return None
    # A pattern may match other folders with the same files in them, so there the whole path counts.
    whole = len(roots) > len(paths)
    found = [files_in(root) if format_.patterns else format_.load().facts(root, config) for root in roots]
    return digest(
        [
            [[path if whole else path.removeprefix(root), one.bytes, one.modified] for path, one in files]
            for root, files in zip(roots, found, strict=True)
        ]
    )


_PACKED = (".zip", ".xz", ".lzma", ".7z", ".rar", ".Z", ".lzo", ".tar", ".tgz", ".tar.gz", ".tar.bz2")
"""How files of text end that Spark's readers would take for text as they are."""


def check_paths(config: InputConfig) -> None:
    """Raise InputError where a path of files that Spark is to read names nothing, or something packed or binary in
    place of text, as far as we can see without it."""
    format_ = format_of(config.format)
    for key in ("path", "validation", "test") if config.listed else ():
        found = find(config.paths_of(key)).files if config.paths_of(key) else []
        if format_.lines:
            for path, _ in found:
                if path.endswith(_PACKED):
                    raise InputError(f"{path}: Spark cannot read this kind of archive; unpack it, or pack it with gzip")
            contents.check([path for path, _ in found], config.encoding)


def open_source(
    config: InputConfig, description: Description | None = None, *, validation: float = 0.0, test: float = 0.0
) -> FileSource:
    """The source of files that our own tasks read, checked on the driver as far as that is cheap.

    description: of the data set that a model was trained on, where rows are to be predicted: they must match it.
    validation, test: the shares that a text cuts off itself, since it is not cut by a hash

    Raises ConfigError and InputError.
    """
    source: FileSource = format_of(config.format).load().of(config, description, validation, test)
    if description is not None:
        check_like(source, description, source.place)
    return source


def open_with_spark(
    spark: SparkSession,
    config: InputConfig,
    description: Description | None = None,
    cut: CutConfig | None = None,
    features: Features | None = None,
) -> Source:
    """The source of rows that Spark reads; like `open_source`. cut: whose columns are no features. features: what is to
    become of columns, where it is known beforehand."""
    check_input(config)
    config = turned_like(config, description)
    raw = read(spark, config, columns_asked_for(config, description, cut, features))
    snappy.check(spark, [path for files in raw.files.values() for path, _ in files])
    return _opened(config, raw, description, cut, features)


def open_frame(
    frame: DataFrame,
    config: InputConfig,
    description: Description | None = None,
    cut: CutConfig | None = None,
    features: Features | None = None,
) -> Source:
    """The source of the rows of a DataFrame; like `open_with_spark`."""
    return _opened(config, Raw({"train": RawFrame(frame)}), description, cut, features)


def _opened(
    config: InputConfig,
    raw: Raw,
    description: Description | None,
    cut: CutConfig | None,
    features: Features | None,
) -> Source:
    said: list[str] = []
    if description is not None:
        named_by = labelled_by if cut is not None else named_like  # rows to predict are cut by nobody
        config, said = named_by(config, description, raw.parts["train"])
    # Timestamps become text, for keys and what is kept, and their clock time numbers: the same ones everywhere.
    with settings(raw.parts["train"].frame.sparkSession, {"spark.sql.session.timeZone": "UTC"}):
        source: Source
        if config.windows is not None or (description is not None and description.windows is not None):
            source = WindowSource(config, raw, description, cut)
        else:
            source = DataFrameSource(config, raw, description, cut, features)
    source.notes = [*source.notes, *said]
    if description is not None:
        check_like(source, description, source.place)
    return source


def turned_like(config: InputConfig, description: Description | None) -> InputConfig:
    """`config` for images that are turned as those of `description` were; ConfigError where it says otherwise."""
    if description is None or description.exif is None or config.exif == description.exif:
        return config
    if "exif" in config.model_fields_set:
        wanted = str(description.exif).lower()
        raise config.error("exif", f"must be {wanted}, as for the images that the model was trained on, or left out")
    return config.model_copy(update={"exif": description.exif})


def named_like(config: InputConfig, description: Description, raw: RawFrame) -> tuple[InputConfig, list[str]]:
    """(`config` of rows to predict, with the label and the kept columns of the rows that a model was trained on as far
    as it names none and they are there; what to tell of those that are not)."""
    if not (format_of(config.format).columns and raw.named) or description.windows is not None:
        return config, []
    names = {name for name, _ in raw.types}
    own: dict[str, Any] = {}
    said = []
    if "label" not in config.model_fields_set:
        label = description.label_name or raw.label
        own["label"] = label if label in names else None
        why = "input.label names no column" if label is None else f"has no label column {label!r}"
        said += [] if label in names else [f"{why}, so predictions have no metrics"]
    if "keep" not in config.model_fields_set and description.keep:
        own["keep"] = [name for name in description.keep if name in names]
        left = [name for name in description.keep if name not in names]
        said += [f"has no column {name!r}, which the training data kept" for name in left]
    return config.model_copy(update=own), said


def labelled_by(config: InputConfig, description: Description, raw: RawFrame) -> tuple[InputConfig, list[str]]:
    """(`config` of rows to prepare by what is fitted already, with its label where it names none; nothing to tell): the
    last column of a CSV may be another one by now."""
    named = format_of(config.format).columns and raw.named and description.windows is None
    if not named or description.label_name is None or "label" in config.model_fields_set:
        return config, []
    return config.model_copy(update={"label": description.label_name}), []


def check_like(source: Source, description: Description, place: str) -> None:
    """Raise InputError where the tensors are not those that a model was trained on; a table's are, by its features."""
    if source.table is not None:
        return
    own = [tensor for tensor in source.tensors if tensor.name != WEIGHT]
    for found, trained in zip(own, description.model_tensors, strict=True):
        if (found.dtype, found.shape) != (trained.dtype, trained.shape):
            raise InputError(
                f"{place}: rows are {found.dtype} {found.shape}, "
                f"but the model was trained on {trained.dtype} {trained.shape}"
            )
