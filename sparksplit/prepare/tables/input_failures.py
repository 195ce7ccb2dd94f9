"""Finds in Spark's errors what is wrong with the input: which file, and why."""

from __future__ import annotations

import bz2
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hdfs_io import filesystem
from sparksplit.base.errors import InputError
from sparksplit.prepare.source import GZIP_ERRORS, gzip_problem, open_raw
from sparksplit.spark.reasons import NO_METASTORE, spark_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAMAGED = "is compressed, and truncated or damaged"
_FOUND = (
    (
        r"Illegal Parquet type: (?P<found>.*?)\.?(?:\n|$)",
        "has a column of type {found}, which Spark does not read: leave the column out, or write it as another type",
    ),
    (
        r"READ_ANCIENT_DATETIME",
        "has dates before 1582 or timestamps before 1900, but does not say which calendar they use. Set "
        "spark.sql.parquet.datetimeRebaseModeInRead and spark.sql.parquet.int96RebaseModeInRead (Avro: "
        "spark.sql.avro.datetimeRebaseModeInRead) to CORRECTED, or to LEGACY for files of Spark 2 or Hive",
    ),
    (
        r"Header length: (?P<found>\d+), schema size: (?P<wanted>\d+)\nCSV file: (?P<file>.*)",
        "its header has {found} columns, but the other files have {wanted}",
    ),
    (
        r"Expected: (?P<wanted>.*?) but found: (?P<found>.*?)\nCSV file: (?P<file>.*)",
        "its header differs from the other files: it has {found!r} instead of {wanted!r}",
    ),
    (
        r"Could not read footer for file: \w*FileStatus\{path=(?P<path>[^\n]+?); isDirectory=",
        "is not in the format that input.format names, or is damaged",
    ),
    (
        r"Could not read footer for file: (?P<path>[^\n]+?)(?:\. Please|\n|$)",
        "is not in the format that input.format names, or is damaged",
    ),
    (r"RuntimeException: (?P<path>\S.*) is not a Parquet file", "is not a Parquet file, or is damaged"),
    (
        r"column cannot be converted in file (?P<file>.*?)\. Column: \[(?P<name>.*?)\], Expected: (?P<wanted>.*?), "
        r"Found: (?P<found>\w+)",
        "column {name!r} is {found} in this file, but {wanted} in other files",
    ),
    (
        r"(?:Encountered error while reading file (?P<file>.*?)\. )?(?s:.*)"
        r"Unsupported(?:Charset|Encoding)Exception: (?P<found>\S+)",
        "Java has no encoding {found!r}; see input.encoding",
    ),
    (
        r"ChecksumException: Checksum error: (?P<path>.*?) at \d+ exp",
        "is damaged: its content does not match the checksums in the .crc file beside it",
    ),
    (
        r"Encountered error while reading file (?P<file>.*?)\. (?s:.*)Caused by: (?:[\w$]+\.)+[\w$]+: (?P<found>.*)",
        "cannot be read: {found}",
    ),
    (r"Encountered error while reading file (?P<file>.*?)\. ", "cannot be read: it is damaged"),
    (
        r"native (?P<found>\w+) library not available",
        "is compressed with {found}, which needs Hadoop's native library on every node",
    ),
    (
        r"univocity(?s:.*)(?:maximum number of columns|Index \d+ out of bounds for length \d+)",
        "has a line with more than twice as many columns as the others",
    ),
    (
        r"java\.io\.EOFException|java\.util\.zip\.\w+Exception|invalid (?:block|stored|distance|code|bit)"
        r"|not a gzip file|incorrect (?:header|data)|stream not found|compressed stream|bad block header"
        r"|crc error|CRC failure|IOException: (?:unexpected end of stream|stream corrupted)",
        _DAMAGED,
    ),
    (r"InvalidProtocolBufferException|Malformed ORC file", "is not an ORC file, or is damaged"),
    (
        r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (?P<table>`.*?`) cannot be found",
        "Spark's catalog has no table or view {table}. For tables of a Hive metastore, put hive-site.xml into "
        "SPARK_CONF_DIR or HADOOP_CONF_DIR, or set spark.hadoop.hive.metastore.uris",
    ),
)
"""Patterns of messages of Spark, Hadoop and their libraries, each with what is wrong. The first that matches counts.

file: an address with encoded characters. path: a path without encoded characters.
"""
_UNPACKING = re.compile(
    r"\bat (?:\S+/)?(?:org\.apache\.hadoop\.io\.compress|java\.util\.zip|org\.apache\.(?:orc|parquet|avro))\."
)
"""A line of a Java trace in code that unpacks files. Other code unpacks the blocks of a shuffle."""
_NO_FILE = re.compile(
    r"Python worker|PythonException|FetchFailed|org\.apache\.hadoop\.ipc\.|End of File Exception between"
)
"""A lost connection to a Python worker, an executor or a NameNode, or an error in a user's function."""


def problem(text: str) -> tuple[str | None, str] | None:
    """Return (the file or None, what is wrong with it) if an error's text is about the input, otherwise None."""
    for pattern, meaning in _FOUND:
        match = re.search(pattern, text)
        if match and (meaning != _DAMAGED or (_UNPACKING.search(text) and not _NO_FILE.search(text))):
            parts = match.groupdict()
            file = parts.get("path") or unquote(parts.get("file") or "")
            table = parts.get("table", "").replace("`", "")
            return _without_scheme(file.strip()) or None, meaning.format(**parts | {"table": table})
    return None


def _without_scheme(path: str) -> str:
    return f"/{path[5:].lstrip('/')}" if path.startswith("file:") else path


@contextmanager
def input_failures(spark: SparkSession, place: str, files: Sequence[str]) -> Iterator[None]:
    """Turn Spark's errors about the input into InputErrors, which name the file.

    place: what the error names if no file is known. files: the files that are read
    """
    try:
        yield
    except Exception as error:
        if not is_sparks(error):
            raise
        cause = problem(str(error))
        if cause is None:
            raise
        file, reason = cause
        if file is None:
            file, reason = _damaged(spark, files) or (files[0] if len(files) == 1 else place, reason)
        else:  # Spark 4 names the file, but its reason does not say that the file is packed
            file, reason = _damaged(spark, [file]) or (file, reason)
        raise InputError(f"{file}: {reason}") from error


def is_sparks(error: Exception) -> bool:
    """Return whether an error came from Spark, and may be about the input. An unreachable metastore is not about the
    input."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j") and NO_METASTORE not in str(error)


def said(error: Exception) -> str:
    """Return an error of Spark in one line. If it is about the input, return what is wrong with the input."""
    cause = problem(str(error))
    if cause is not None:
        return f"{cause[0]}: {cause[1]}" if cause[0] else cause[1]
    return re.split("; (?:line |')", spark_reason(str(error)))[0]


def _damaged(spark: SparkSession, files: Sequence[str]) -> tuple[str, str] | None:
    """Return (the first gzip or bzip2 file that cannot be read to its end, why), or None. Executors read the files."""
    packed = [path for path in files if path.endswith((".gz", ".bz2")) and filesystem.is_known(path)]
    if not packed:
        return None
    checked = spark.sparkContext.parallelize(packed, min(len(packed), 1000)).map(lambda path: (path, damage(path)))
    return next(((path, why) for path, why in checked.collect() if why is not None), None)


def damage(path: str) -> str | None:
    """Return what is wrong with a gzip or bzip2 file, or None if it can be read to its end."""
    with open_raw(path) as (stream, gzipped):
        unpacked = stream if gzipped else bz2.BZ2File(stream)
        try:
            while unpacked.read(1024 * 1024):
                pass
        except (*GZIP_ERRORS, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # an error of the file system
                raise
            return gzip_problem(error, "gzip" if gzipped else "bzip2")
    return None
