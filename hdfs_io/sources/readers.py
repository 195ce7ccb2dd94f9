"""What Spark reads, with its own readers: each gives a DataFrame of raw columns, from which columns.py makes rows.

To add a format: a function like `files` here (or in a file beside this one) and a line in hdfs_io/formats.py. Nothing
else needs to know it: finding files, parts, labels, kept columns, types, bad rows and digests are columns.py's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hdfs_io import filesystem
from hdfs_io.config import InputConfig
from hdfs_io.filesystem import FileFacts
from hdfs_io.formats import format_of
from hdfs_io.listing import Found, find, is_nested
from hdfs_io.sources.cells import Cells
from hdfs_io.sources.failures import is_sparks, said
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METADATA = "_metadata.file_path"
"""The file that a row came from, in what Spark's readers of files give."""
_COUNT = 10_000
"""Paths that Spark is asked about at a time."""


@dataclass(frozen=True)
class RawFrame:
    """Raw columns. frame: all of them, and no others but `broken`. file: the SQL expression of the file that a row came
    from; None where there is none. broken: the column with the text of a record that does not fit the columns, and
    null in every other; cells: how to read the cells. These two where all columns are texts."""

    frame: DataFrame
    file: str | None = None
    broken: str | None = None
    cells: Cells | None = None

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return [name for name in self.frame.columns if name != self.broken]


Read = Callable[["SparkSession", InputConfig, Found], RawFrame]
"""Reads what was found at the paths of one part (nothing, for a table or a query)."""


@dataclass(frozen=True)
class Raw:
    """The raw columns of every part: train, and validation and test where they have files of their own.

    files: (path, facts) of each file, by part; empty where there are none to look at.
    """

    parts: dict[str, RawFrame]
    files: dict[str, list[tuple[str, FileFacts]]] = field(default_factory=dict)

    @property
    def digest(self) -> str | None:
        """A hash of the files' names, bytes and times of change; None where there are no files."""
        facts = [[part, path, one.bytes, one.modified] for part, files in self.files.items() for path, one in files]
        return digest(facts) if facts else None


def read(spark: SparkSession, config: InputConfig) -> Raw:
    """What `config` names, read by the reader of its format.

    Raises InputError where there is nothing to read, or where Spark cannot read it.
    """
    reader = format_of(config.format).load_reader()
    keys = {"train": "path", "validation": "validation", "test": "test"}
    with as_input_error(config.place):
        if not config.paths_of("path"):
            raw = reader(spark, config, Found([], [], False))
            files = facts_of_files(spark, raw.frame.inputFiles())
            return Raw({"train": raw}, {"train": files} if files else {})
        found = {part: found_at(spark, config.paths_of(key)) for part, key in keys.items() if config.paths_of(key)}
        parts = {part: reader(spark, config, place) for part, place in found.items()}
    return Raw(parts, {part: place.files for part, place in found.items()})


def files(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Files whose columns have names and types: the format's name is Spark's."""
    reader = spark.read.format(config.format).option("recursiveFileLookup", str(found.nested).lower())
    return RawFrame(reader.load(found.roots), METADATA)


def table(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """A table of the session's catalog."""
    assert config.table is not None
    return RawFrame(spark.table(config.table), "input_file_name()")


def query(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """The rows of a query."""
    assert config.query is not None
    return RawFrame(spark.sql(config.query))


def found_at(spark: SparkSession, paths: Sequence[str]) -> Found:
    """What `paths` name, wherever they are."""
    ours = [path for path in paths if filesystem.is_known(path)]
    parts = [find(ours)] if ours else []
    parts += [_found_by_spark(spark, path) for path in paths if not filesystem.is_known(path)]
    return Found(
        [root for part in parts for root in part.roots],
        [file for part in parts for file in part.files],
        any(part.nested for part in parts),
    )


def _found_by_spark(spark: SparkSession, path: str) -> Found:
    """As listing.find, for a path that only Spark's Hadoop file systems reach; it may be a pattern."""
    files = [file for file in _facts(spark, [path]) if file[1].bytes]
    if not files:
        raise InputError(f"{path}: holds no rows")
    depth = len(path.rstrip("/").split("/"))
    names = ["/".join(file.split("/")[depth:]) for file, _ in files]
    return Found([path], files, is_nested("", names))


def facts_of_files(spark: SparkSession, uris: Sequence[str]) -> list[tuple[str, FileFacts]]:
    """(path, facts) of the files at these addresses, as a DataFrame's `inputFiles` gives them."""
    plain = sorted(escaped(unquote(uri)) for uri in uris)
    return [file for start in range(0, len(plain), _COUNT) for file in _facts(spark, plain[start : start + _COUNT])]


def _facts(spark: SparkSession, paths: Sequence[str]) -> list[tuple[str, FileFacts]]:
    """What Spark's listing knows of the files at `paths`, which it does not open."""
    listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(paths))
    rows = listed.selectExpr("path", "length", "unix_micros(modificationTime) AS modified").collect()
    return sorted((plain_path(row.path), FileFacts(row.length, row.modified * 1000)) for row in rows)


def for_spark(path: str) -> str:
    """One file as Spark's readers take it."""
    return filesystem.for_spark(path) if filesystem.is_known(path) else escaped(path)


def escaped(path: str) -> str:
    """`path` with the characters of Spark's patterns escaped."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def plain_path(uri: str) -> str:
    """The path at an address that Spark gives (`file:/a%20b`), as users write it."""
    scheme, colon, rest = uri.partition(":")
    return unquote(f"/{rest.lstrip('/')}" if scheme == "file" and colon else uri)


@contextmanager
def as_input_error(place: str) -> Iterator[None]:
    """Turn what Spark says about input that it cannot read into an InputError that names `place`."""
    try:
        yield
    except Exception as error:
        if not is_sparks(error):
            raise
        raise InputError(f"{place}: {said(error)}") from error
