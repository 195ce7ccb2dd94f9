"""Reads Parquet and ORC with Spark's readers, with the columns of all files. By default, Spark takes the columns of any
one file.

A column that this file lacks would be no feature. A column with whole numbers in this file would lose the fractions in
other ORC files. The files' footers show the columns. unlike_files.py reads files that differ in more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hdfs_io import filesystem
from hdfs_io.listing import Found
from sparksplit.base.errors import InputError
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.tables import unlike_files
from sparksplit.prepare.tables.each_file import each_file, in_executors
from sparksplit.prepare.tables.folders import EVERY_FOLDER
from sparksplit.prepare.tables.input_failures import is_sparks, problem, said
from sparksplit.prepare.tables.raw_frame import RawFrame
from sparksplit.prepare.tables.readers import DATA_FILES, METADATA, as_written, for_spark
from sparksplit.prepare.tables.unlike_files import Footer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
"""The key of Spark's schema in a Parquet file."""
_MARK = "ml_attr"
"""The key of pyspark.ml's marks in a column's metadata. Other keys, such as those of char and varchar, change how Spark
reads a column."""
Marks = dict[str, dict[str, Any]]
"""The metadata of columns that pyspark.ml has marked, by name."""
_UNLIKE = re.compile(r'\[CANNOT_MERGE_SCHEMAS\][^"]*"(STRUCT<.*?>)"[^"]*"(STRUCT<.*?>)"\.', re.DOTALL)


def rows(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Read files with their types. A column that a file lacks is null there.

    Raise InputError if a file is damaged, or has a column whose type does not fit the other files.
    """
    options = {**DATA_FILES, **EVERY_FOLDER, **as_written(spark, config.format)}
    paths = [path for path, _ in found.files]
    footers, marks = _footers(spark, config.format, paths)
    if footers is not None and (unlike := unlike_files.merged(footers, config.place)) is not None:
        return unlike_files.read(spark, config.format, options, unlike, marks)
    reader = spark.read.format(config.format).options(**options, mergeSchema=True)
    try:
        return RawFrame(reader.load(found.roots), METADATA)
    except Exception as error:
        if not is_sparks(error):
            raise
        file, reason = problem(str(error)) or (None, "")
        if file is None or file in paths:
            raise _meant(spark, config, paths, error, file, reason) from error
    # The file is empty, and not in `paths`. Without it, Spark can find the columns.
    schema = reader.load([for_spark(path) for path in paths]).schema
    return RawFrame(reader.schema(schema).load(found.roots), METADATA)


def _meant(
    spark: SparkSession, config: InputConfig, paths: Sequence[str], error: Exception, file: str | None, reason: str
) -> Exception:
    """Return the exception to raise for an error of Spark. file, reason: what `problem` says about the error"""
    known = [path for path in paths if filesystem.is_known(path)]
    if schemas := _UNLIKE.search(str(error)):
        one, other = (_fields(schema) for schema in schemas.groups())
        names = [name for name, kind in one.items() if other.get(name, kind) != kind]
        kinds = "; ".join(f"column {name!r} is {one[name]} in some files, {other[name]} in others" for name in names)
        of_file = _unlike(spark, config.format, known, names) if known and names else None
        return InputError(of_file or f"{config.place}: {kinds or said(error)}")
    if reason and file is None:
        types = in_executors(spark, known, partial(_types, config.format))
        file = next(iter(types.filter(lambda of: of[1] is None).keys().take(1)), None)
    return InputError(f"{file}: {reason}") if file else error


def _fields(schema: str) -> dict[str, str]:
    """Return the columns of a schema in Spark's SQL, with their types. Names are in lower case, because Spark ignores
    case."""
    from pyspark.sql.types import StructType, _parse_datatype_string

    parsed = _parse_datatype_string(schema)
    assert isinstance(parsed, StructType)
    return {field.name.lower(): field.dataType.simpleString() for field in parsed.fields}


def _unlike(spark: SparkSession, kind: str, paths: Sequence[str], names: Sequence[str]) -> str | None:
    """Return a message about the first file in which a column has another type than in most files, or None.

    names: of the columns, in lower case. kind: parquet or orc
    """
    files = in_executors(spark, paths, partial(_types, kind)).collect()
    return unlike_files.unlike({path: _of(types or {}, names) for path, types in files}, names)


def _of(types: Footer, names: Sequence[str]) -> dict[str, str]:
    """Return the columns in `names`, by these names (lower case), with their types."""
    return {name.lower(): str(kind) for name, kind in types.items() if name.lower() in names}


def _footers(spark: SparkSession, kind: str, paths: Sequence[str]) -> tuple[dict[str, Footer] | None, list[Marks]]:
    """Return (each file's columns, the files' marks). Executors read them if there are many files.

    The columns are None if a file is damaged, or cannot be read without Spark.
    """
    if not all(map(filesystem.is_known, paths)):
        return None, []
    files = [(path, footer) for path, footer in each_file(spark, paths, partial(_footer, kind)) if footer is not None]
    footers = {path: types for path, (types, _) in files}
    return footers if len(footers) == len(paths) else None, [marks for _, (_, marks) in files if marks]


def _types(kind: str, path: str) -> Footer | None:
    """Return the columns of a file with Arrow's types, or None if the file is damaged. kind: parquet or orc"""
    footer = _footer(kind, path)
    return None if footer is None else footer[0]


def _marks(metadata: Mapping[bytes, bytes]) -> Marks:
    """Return the marks in a Parquet file's metadata, as Spark has written them."""
    try:
        fields = json.loads(metadata.get(_SCHEMA, b"{}")).get("fields", [])
        return {field["name"]: {_MARK: field["metadata"][_MARK]} for field in fields if _MARK in field["metadata"]}
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}


def _footer(kind: str, path: str) -> tuple[Footer, Marks] | None:
    """Return (the columns of a file with Arrow's types, its marks), or None if the file is damaged. kind: parquet or
    orc
    """
    from pyarrow import orc, parquet

    try:
        with filesystem.open_input(path) as file:
            if kind == "orc":
                schema, moments, marks = orc.ORCFile(file).schema, None, Marks()
            else:
                footer = parquet.ParquetFile(file)
                schema, marks = footer.schema_arrow, _marks(footer.metadata.metadata or {})
                places = map(footer.schema.column, range(len(footer.schema)))
                moments = {column.path for column in places if column.physical_type == "INT96"}
    except (pa.ArrowException, OSError):
        return None
    # Arrow takes ORC's timestamps, and Parquet's old ones (INT96), for nanoseconds. Spark's reader knows their types.
    corrected = {
        field.name: pa.timestamp("us", "UTC")
        for field in schema
        if pa.types.is_timestamp(field.type) and (moments is None or field.name in moments)
    }
    return {field.name: corrected.get(field.name, field.type) for field in schema}, marks
