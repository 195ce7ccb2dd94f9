"""Parquet and ORC by Spark's readers, with the columns of all files: Spark itself takes those of any one of them.

A column that this one lacks would be no feature; one that has whole numbers there, and fractions in other ORC files,
would lose the fractions. The files' footers tell, and executors read them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hdfs_io import filesystem
from hdfs_io.config import InputConfig
from hdfs_io.listing import Found
from hdfs_io.sources.failures import is_sparks, problem, said
from hdfs_io.sources.folders import EVERY_FOLDER
from hdfs_io.sources.readers import DATA_FILES, METADATA, RawFrame, for_spark
from sparksplit.base.errors import InputError

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

_UNLIKE = re.compile(r'\[CANNOT_MERGE_SCHEMAS\][^"]*"(STRUCT<.*?>)"[^"]*"(STRUCT<.*?>)"\.', re.DOTALL)


def rows(spark: SparkSession, config: InputConfig, found: Found) -> RawFrame:
    """Files with their types. A column that a file lacks is null there.

    Raises InputError for a file that is damaged, or that has a column with another type than most.
    """
    reader = spark.read.format(config.format).options(**DATA_FILES, **EVERY_FOLDER, mergeSchema=True)
    paths = [path for path, _ in found.files]
    try:
        return RawFrame(reader.load(found.roots), METADATA)
    except Exception as error:
        if not is_sparks(error):
            raise
        file, reason = problem(str(error)) or (None, "")
        if file is None or file in paths:
            raise _meant(spark, config, paths, error, file, reason) from error
    # It is an empty file, which is left out: without it Spark knows the columns.
    schema = reader.load([for_spark(path) for path in paths]).schema
    return RawFrame(reader.schema(schema).load(found.roots), METADATA)


def _meant(
    spark: SparkSession, config: InputConfig, paths: Sequence[str], error: Exception, file: str | None, reason: str
) -> Exception:
    """What to raise for an error of Spark's. file, reason: what `problem` says of it"""
    known = [path for path in paths if filesystem.is_known(path)]
    if schemas := _UNLIKE.search(str(error)):
        one, other = (_fields(schema) for schema in schemas.groups())
        names = [name for name, kind in one.items() if other.get(name, kind) != kind]
        kinds = "; ".join(f"column {name!r} is {one[name]} in some files, {other[name]} in others" for name in names)
        of_file = _unlike(spark, config.format, known, names) if known and names else None
        return InputError(of_file or f"{config.place}: {kinds or said(error)}")
    if reason and file is None:
        file = next(iter(_each(spark, config.format, known).filter(lambda of: of[1] is None).keys().take(1)), None)
    return InputError(f"{file}: {reason}") if file else error


def _fields(schema: str) -> dict[str, str]:
    """The columns of a schema in Spark's SQL, with their types; in lower case, as Spark takes `X` and `x` for one."""
    from pyspark.sql.types import StructType, _parse_datatype_string

    parsed = _parse_datatype_string(schema)
    assert isinstance(parsed, StructType)
    return {field.name.lower(): field.dataType.simpleString() for field in parsed.fields}


def _unlike(spark: SparkSession, kind: str, paths: Sequence[str], names: Sequence[str]) -> str | None:
    """Which file has one of the columns `names` with a type that it has in few others.

    names: in lower case. kind: parquet or orc
    """
    files = _each(spark, kind, paths).mapValues(lambda types: _of(types or {}, names)).collect()
    return unlike(dict(files), names)


def _of(types: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Those of the columns that `names`, in lower case, say, by these names."""
    return {name.lower(): kind for name, kind in types.items() if name.lower() in names}


def unlike(files: Mapping[str, Mapping[str, str]], names: Sequence[str]) -> str | None:
    """The first of `files`, as far as these are known, in which one of `names` has another type than in most."""
    for name in names:
        counts = Counter(types[name] for types in files.values() if name in types).most_common(1)
        for path, types in files.items():
            if name in types and types[name] != counts[0][0]:
                return f"{path}: column {name!r} is {types[name]} there, {counts[0][0]} in other files"
    return None


def _each(spark: SparkSession, kind: str, paths: Sequence[str]) -> RDD[tuple[str, dict[str, str] | None]]:
    """Each file's path and columns with their types, as executors find them."""
    places = spark.sparkContext.parallelize(paths, max(1, min(len(paths), 1000)))
    return places.map(lambda path: (path, _types(kind, path)))


def _types(kind: str, path: str) -> dict[str, str] | None:
    """The columns of a file with their types, as Arrow calls them; None of a damaged file. kind: parquet or orc"""
    from pyarrow import orc, parquet

    try:
        with filesystem.open_input(path) as file:
            schema: pa.Schema = parquet.read_schema(file) if kind == "parquet" else orc.ORCFile(file).schema
    except (pa.ArrowException, OSError):
        return None
    return {field.name: str(field.type) for field in schema}
