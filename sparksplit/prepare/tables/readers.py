"""Reads raw columns with Spark's own readers. Each reader returns a DataFrame, from which columns.py makes rows.

To add a format, add a function like `files` (here, or in prepare/sources/) and a line in prepare/formats.py. No other
module needs to know the format. This module finds files and parts. columns.py handles labels, kept columns, types and
bad rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hdfs_io import filesystem
from hdfs_io.filesystem import FileFacts
from hdfs_io.listing import Found, alike, check_once, find, folder_columns
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError
from sparksplit.prepare.config_checks import check_apart
from sparksplit.prepare.formats import format_of
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.tables.folders import EVERY_FOLDER, like_folders, with_folders
from sparksplit.prepare.tables.input_failures import is_sparks, problem, said
from sparksplit.prepare.tables.raw_frame import RawFrame
from sparksplit.spark.batches import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METADATA = "_metadata.file_path"
DATA_FILES = {"pathGlobFilter": "{[^_]*,_*=*}"}
"""Options that keep Spark from taking columns from `_metadata` and `_common_metadata`, which may be out of date."""
_COUNT = 10_000
"""Number of paths to ask Spark about at a time."""


Read = Callable[["SparkSession", InputConfig, Found], RawFrame]
"""Reads the files that were found at the paths of one part. A table or a query has no files."""


@dataclass(frozen=True)
class Raw:
    """The raw columns of every part: train, and validation and test if they have files of their own.

    files: (path, facts) of each file, by part. Empty if there are none, or if the rows also depend on something else.
    plan: what Spark does with the files' rows. "": the rows are taken as they are.
    """

    parts: dict[str, RawFrame]
    files: dict[str, list[tuple[str, FileFacts]]] = field(default_factory=dict)
    plan: str = ""

    @property
    def digest(self) -> str | None:
        """A hash of the files' names, bytes and modification times, and of the plan. None: there are no files."""
        facts = [[part, path, one.bytes, one.modified] for part, files in self.files.items() for path, one in files]
        return digest([*facts, self.plan] if self.plan else facts) if facts else None


def read(spark: SparkSession, config: InputConfig, asked: Collection[str] = ()) -> Raw:
    """Return the raw columns of the input in `config`, from the reader of its format. asked: columns
    that the configuration names; the reader must give them

    Raise InputError if there is nothing to read, or if Spark cannot read it.
    """
    reader = format_of(config.format).load_reader()
    keys = {"train": "path", "validation": "validation", "test": "test"}
    with as_input_error(config.place):
        if not config.paths_of("path"):
            raw = reader(spark, config, Found([], []))
            plan = plan_of_files(raw.frame)
            files = [] if plan is None else facts_of_files(spark, raw.frame.inputFiles())
            return Raw({"train": raw}, {"train": files} if files else {}, plan or "")
        places = {part: found_at(spark, config.paths_of(key)) for part, key in keys.items() if config.paths_of(key)}
        check_apart(config, {keys[part]: [path for path, _ in place.files] for part, place in places.items()})
        parts = {
            part: with_folders(reader(spark, config, place), place, METADATA, asked) for part, place in places.items()
        }
    parts = {part: like_folders(raw, parts["train"]) for part, raw in parts.items()}
    return Raw(parts, {part: place.files for part, place in places.items()})


def as_written(spark: SparkSession, kind: str) -> dict[str, str]:
    """Return reader options that take old dates and timestamps of Parquet and Avro as they are.

    Without them, Spark 3 refuses these values if the session's settings name no calendar.
    """
    keys = {
        "parquet": {"datetimeRebaseMode": "datetimeRebaseModeInRead", "int96RebaseMode": "int96RebaseModeInRead"},
        "avro": {"datetimeRebaseMode": "datetimeRebaseModeInRead"},
    }.get(kind, {})
    modes = {option: spark.conf.get(f"spark.sql.{kind}.{key}") for option, key in keys.items()}
    return {option: "CORRECTED" for option, mode in modes.items() if mode == "EXCEPTION"}


def table(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Read a table of the session's catalog."""
    assert config.table is not None
    return RawFrame(spark.table(config.table), "input_file_name()")


def query(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Read the rows of a query."""
    assert config.query is not None
    return RawFrame(spark.sql(config.query))


def plan_of_files(frame: DataFrame) -> str | None:
    """Return what Spark does with the rows of files to make `frame`, as a text without ids that change.

    Return None if rows also come from elsewhere, or if the same files may give other rows.
    """
    with settings(frame.sparkSession, {"spark.sql.debug.maxToStringFields": str(2**31 - 1)}):
        plan = frame._jdf.queryExecution().optimizedPlan()
        leaves = plan.collectLeaves()
        kinds = {leaves.apply(place).nodeName() for place in range(leaves.size())}
        if not plan.deterministic() or not kinds <= {"LogicalRelation", "HiveTableRelation"}:
            return None
        if not all(_has_files(leaves.apply(place)) for place in range(leaves.size())):
            return None
        return re.sub(r"#\d+L?", "", str(plan.toString()))


def _has_files(relation: Any) -> bool:
    if relation.nodeName() == "HiveTableRelation":
        return True
    from_files: bool = relation.relation().getClass().getSimpleName() == "HadoopFsRelation"
    return from_files


def has_footers(frame: DataFrame) -> bool:
    """Return whether Spark counts the rows of `frame` without reading them: all are columns of Parquet or ORC files."""
    return _has_footers(frame._jdf.queryExecution().optimizedPlan())


def _has_footers(plan: Any) -> bool:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    kind, children = plan.nodeName(), plan.children()
    if kind == "LogicalRelation":
        try:
            return plan.relation().fileFormat().getClass().getSimpleName() in ("ParquetFileFormat", "OrcFileFormat")
        except Py4JError:  # another kind of relation, which has no files
            return False
    inner = [_has_footers(children.apply(place)) for place in range(children.size())]
    return kind in ("Project", "Union") and bool(inner) and all(inner)


def found_at(spark: SparkSession, paths: Sequence[str]) -> Found:
    """Return the files that `paths` name, wherever they are."""
    ours = [path for path in paths if filesystem.is_known(path)]
    parts = [find(ours)] if ours else []
    theirs = {path: _found_by_spark(spark, path) for path in paths if not filesystem.is_known(path)}
    check_once((file, path) for path, part in theirs.items() for file, _ in part.files)
    parts += theirs.values()
    return Found(
        [root for part in parts for root in part.roots],
        [file for part in parts for file in part.files],
        alike([(part.roots[0], part.columns) for part in parts]),
    )


def _found_by_spark(spark: SparkSession, path: str) -> Found:
    """Like listing.find, for a path that only Spark's Hadoop file systems reach. The path may be a pattern."""
    files = [file for file in _facts(spark, [path]) if file[1].bytes]
    if not files:
        raise InputError(f"{path}: holds no rows")
    depth = len(path.rstrip("/").split("/"))
    names = ["/".join(file.split("/")[depth:]) for file, _ in files]
    return Found([path], files, folder_columns("", names))


def facts_of_files(spark: SparkSession, uris: Sequence[str]) -> list[tuple[str, FileFacts]]:
    """Return (path, facts) of the files at these addresses, which come from a DataFrame's `inputFiles`."""
    plain = sorted(escaped(unquote(uri)) for uri in uris)
    return [file for start in range(0, len(plain), _COUNT) for file in _facts(spark, plain[start : start + _COUNT])]


def _facts(spark: SparkSession, paths: Sequence[str]) -> list[tuple[str, FileFacts]]:
    """Return (path, facts) of the files at `paths`, from Spark's listing. No file is opened."""
    listed = spark.read.format("binaryFile").options(**EVERY_FOLDER).load(list(paths))
    rows = listed.selectExpr("path", "length", "unix_micros(modificationTime) AS modified").collect()
    return sorted((hadoop_path(row.path), FileFacts(row.length, row.modified * 1000)) for row in rows)


def for_spark(path: str) -> str:
    """Return the path of one file in the form that Spark's readers take."""
    return filesystem.for_spark(path) if filesystem.is_known(path) else escaped(path)


def escaped(path: str) -> str:
    """Return `path` with the characters of Spark's patterns escaped."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def plain_path(uri: str) -> str:
    """Return the path of an address from Spark (`file:/a%20b`), as users write it."""
    return unquote(hadoop_path(uri))


def hadoop_path(path: str) -> str:
    """Return a path from Hadoop (`file:/a b`, with nothing encoded), as users write it."""
    scheme, _, rest = path.partition(":")
    return f"/{rest.lstrip('/')}" if scheme == "file" else path


@contextmanager
def as_input_error(place: str) -> Iterator[None]:
    """Turn Spark's errors about input that it cannot read into InputErrors. They name the file, or `place` if it is
    unknown."""
    try:
        yield
    except Exception as error:
        if not is_sparks(error):
            raise
        known = problem(str(error))
        named = known is not None and known[0] is not None
        raise InputError(said(error) if named else f"{place}: {said(error)}") from error
