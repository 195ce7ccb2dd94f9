"""Raw rows of every format behind one small interface. The table of formats is sparksplit/prepare/formats.py.

prepare/source.py  the interface `Source`: a DataFrame, and a reader that makes rows of it in executors
idx, text          the formats whose files only our own tasks read (text_tokens: the tokens of a text)
csv, json_lines    formats that Spark reads
tfrecord, images   formats that Spark finds and our own tasks parse (examples: tf.train.Example)
windows            rows over time to windows (window_places: where windows begin)
contents, snappy   whether a file is what its name says
raw                the rows that predict starts from
prepare/tables/    the other readers, and raw columns to rows; also for a DataFrame of a program or a user's function
prepare/passes/    rows with their hashes, kept and packed, numbered, counted, and cut into splits
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from hdfs_io.listing import expand, files_in, find, is_hidden
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError
from sparksplit.dataset.description import WEIGHT, Description
from sparksplit.features.feature_config import Features
from sparksplit.prepare.config_checks import check_apart, check_input
from sparksplit.prepare.cut_config import CutConfig
from sparksplit.prepare.formats import PATHS, format_of
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.source import BadRow, FileSource, ParsedRows, Source, Task
from sparksplit.prepare.sources import contents, snappy
from sparksplit.prepare.sources.windows import WindowSource
from sparksplit.prepare.tables.columns import DataFrameSource
from sparksplit.prepare.tables.raw_frame import RawFrame
from sparksplit.prepare.tables.readers import Raw, read
from sparksplit.prepare.tables.roles import columns_asked_for
from sparksplit.prepare.tables.vectors import with_arrays
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
    "open_raw",
    "open_source",
    "open_with_spark",
    "raw_digest",
]


def raw_digest(config: InputConfig) -> str | None:
    """Return a hash of what is known of the raw files without opening them: names, bytes, modification times.

    Return None if the files are gone, so nothing could have changed since. Also return None if only Spark can list
    them.

    Raise InputError if the folder holds something that cannot be read.
    """
    if not config.listed:
        return None
    format_ = format_of(config.format)
    paths = [path for key in PATHS for path in config.paths_of(key)]
    roots = [root for path in paths for root in (expand(path) if format_.patterns else [filesystem.absolute(path)])]
    if not roots or not all(filesystem.exists(root) for root in roots):
        return None
    # A pattern may match other folders with the same file names, so hash the whole path.
    whole = len(roots) > len(paths)
    listings = [files_in(root) if format_.patterns else format_.load().facts(root, config) for root in roots]
    return digest(
        [
            [[path if whole else path.removeprefix(root), one.bytes, one.modified] for path, one in files]
            for root, files in zip(roots, listings, strict=True)
        ]
    )


_PACKED = (".zip", ".xz", ".lzma", ".7z", ".rar", ".Z", ".lzo", ".tar", ".tgz", ".tar.gz", ".tar.bz2")
"""Endings of packed files that Spark's readers would read as plain text."""


def check_paths(config: InputConfig) -> None:
    """Raise InputError if a path for Spark's readers matches nothing, or names a file that Spark leaves out.

    Also raise InputError if two keys name one file, or if a file of text is packed or binary.

    Paths that only Spark can list are not checked.
    """
    if not config.listed:
        return
    files = {key: [path for path, _ in find(paths).files] for key in PATHS if (paths := config.paths_of(key))}
    check_apart(config, files)
    for path in (path for paths in files.values() for path in paths):
        if is_hidden(filesystem.name(path)):  # only a path of its own, or a pattern, names such a file
            why = "it begins with _ or ., or ends with ._COPYING_"
            raise InputError(f"{path}: Spark's readers leave out a file with this name: {why}; rename it")
    for paths in files.values() if format_of(config.format).lines else ():
        for path in paths:
            if path.endswith(_PACKED):
                raise InputError(f"{path}: Spark cannot read this kind of archive; unpack it, or pack it with gzip")
        contents.check(paths, config.encoding)


def open_source(
    config: InputConfig, description: Description | None = None, *, validation: float = 0.0, test: float = 0.0
) -> FileSource:
    """Return the source of files that our own tasks read, after cheap checks on the driver.

    description: of earlier data, such as a model's training data. The rows must match it.
    validation, test: fractions of a text, which is not cut by a hash.

    Raise ConfigError or InputError if a check fails.
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
    """Return the source of rows that Spark reads; like `open_source`.

    cut: its columns are not features. features: what becomes of columns, as far as the user says so
    """
    check_input(config)
    config, said = nulls_like(turned_like(config, description), description)
    raw = read(spark, config, columns_asked_for(config, description, cut, features))
    snappy.check(spark, [path for files in raw.files.values() for path, _ in files])
    source = open_raw(raw, config, description, cut, features)
    source.notes = [*source.notes, *said]
    return source


def open_frame(
    frame: DataFrame,
    config: InputConfig,
    description: Description | None = None,
    cut: CutConfig | None = None,
    features: Features | None = None,
) -> Source:
    """Return the source of the rows of a DataFrame; like `open_with_spark`."""
    return open_raw(Raw({"train": RawFrame(frame)}), config, description, cut, features)


def open_raw(
    raw: Raw,
    config: InputConfig,
    description: Description | None = None,
    cut: CutConfig | None = None,
    features: Features | None = None,
) -> Source:
    """Like `open_frame`, for raw columns of several parts, or with hidden or carried columns."""
    raw = replace(raw, parts={part: with_arrays(frame) for part, frame in raw.parts.items()})
    said: list[str] = []
    if description is not None:
        named_by = labelled_by if cut is not None else named_like  # rows to predict have no cut
        config, said = named_by(config, description, raw.parts["train"])
    # Timestamps become text (for keys and kept columns), and clock times become numbers. UTC makes them equal
    # everywhere.
    with settings(raw.parts["train"].frame.sparkSession, {"spark.sql.session.timeZone": "UTC"}):
        source: Source
        if config.windows is not None or (description is not None and description.windows is not None):
            source = WindowSource(config, raw, description, cut)
        else:
            source = DataFrameSource(config, raw, description, cut, features)
    source.notes = [*source.notes, *said]
    source.nulls = None if description is None else description.nulls
    if config.uses("nulls"):
        source.nulls = config.nulls if "nulls" in config.model_fields_set else None
    if description is not None:
        check_like(source, description, source.place)
    return source


def turned_like(config: InputConfig, description: Description | None) -> InputConfig:
    """Return `config` with the EXIF setting of the training images. Raise ConfigError if `config` sets another
    value."""
    if description is None or description.exif is None or config.exif == description.exif:
        return config
    if "exif" in config.model_fields_set:
        wanted = str(description.exif).lower()
        raise config.error("exif", f"must be {wanted}, as for the images that the model was trained on, or left out")
    return config.model_copy(update={"exif": description.exif})


def nulls_like(config: InputConfig, description: Description | None) -> tuple[InputConfig, list[str]]:
    """Return (`config` with the texts for a missing value of the earlier data, messages for the user). Texts that
    `config` sets stay."""
    if description is None or description.nulls is None or not config.uses("nulls"):
        return config, []
    if "nulls" in config.model_fields_set:
        return config, []
    hive = ["\\N"] if config.format == "hive-text" else []  # Hive writes it, whatever the earlier files had
    nulls = [*dict.fromkeys([*description.nulls, *hive])]
    shown = ", ".join(map(repr, nulls)) or "none"
    said = f"texts for a missing value, as in the training data: {shown} (input.nulls sets other texts)"
    return config.model_copy(update={"nulls": nulls}), [said]


def named_like(config: InputConfig, description: Description, raw: RawFrame) -> tuple[InputConfig, list[str]]:
    """Return (`config` for rows to predict, messages for the user).

    Unset keys for the label and the kept columns get the columns of the training data, if the input has them. Messages
    name the missing columns.
    """
    if not (format_of(config.format).columns and raw.named) or description.windows is not None:
        return config, []
    names = {name for name, _ in raw.types}
    update: dict[str, Any] = {}
    said = []
    if "label" not in config.model_fields_set:
        label = description.label_name or raw.label
        update["label"] = label if label in names else None
        why = "input.label names no column" if label is None else f"has no label column {label!r}"
        said += [] if label in names else [f"{why}, so predictions have no metrics"]
    if "keep" not in config.model_fields_set and description.keep:
        update["keep"] = [name for name in description.keep if name in names]
        left = [name for name in description.keep if name not in names]
        said += [f"has no column {name!r}, which the training data kept" for name in left]
    return config.model_copy(update=update), said


def labelled_by(config: InputConfig, description: Description, raw: RawFrame) -> tuple[InputConfig, list[str]]:
    """Return (`config` with the label column of the fitted data, no messages). A label that `config` sets stays.

    The default label of a CSV, its last column, may now be another column.
    """
    named = format_of(config.format).columns and raw.named and description.windows is None
    if not named or description.label_name is None or "label" in config.model_fields_set:
        return config, []
    return config.model_copy(update={"label": description.label_name}), []


def check_like(source: Source, description: Description, place: str) -> None:
    """Raise InputError if dtypes or shapes of tensors differ from the model's. A table's features already match."""
    if source.table is not None:
        return
    tensors = [tensor for tensor in source.tensors if tensor.name != WEIGHT]
    for given, trained in zip(tensors, description.model_tensors, strict=True):
        if (given.dtype, given.shape) != (trained.dtype, trained.shape):
            raise InputError(
                f"{place}: rows are {given.dtype} {given.shape}, "
                f"but the model was trained on {trained.dtype} {trained.shape}"
            )
