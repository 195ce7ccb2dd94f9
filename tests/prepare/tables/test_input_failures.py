"""What Spark's errors say about the input."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from sparksplit.base.errors import InputError
from sparksplit.prepare.tables.input_failures import damage, problem
from sparksplit.prepare.tables.readers import as_input_error

UNPACKING = "\n\tat org.apache.hadoop.io.compress.DecompressorStream.read(DecompressorStream.java:105)\n"
SAID = {
    "(TID 0) (10.0.0.1 executor driver): org.apache.spark.sql.AnalysisException: Illegal Parquet type: INT64 "
    "(TIMESTAMP(NANOS,false)).\n\tat org.apache": (
        None,
        "has a column of type INT64 (TIMESTAMP(NANOS,false)), which Spark does not read: leave the column out, or "
        "write it as another type",
    ),
    "(TID 5) (10.0.0.1 executor driver): org.apache.spark.SparkUpgradeException: [INCONSISTENT_BEHAVIOR_CROSS_VERSION."
    "READ_ANCIENT_DATETIME] You may get a different result due to the upgrading to Spark >= 3.0:\nreading dates": (
        None,
        "has dates before 1582 or timestamps before 1900, but does not say which calendar they use. Set "
        "spark.sql.parquet.datetimeRebaseModeInRead and spark.sql.parquet.int96RebaseModeInRead (Avro: "
        "spark.sql.avro.datetimeRebaseModeInRead) to CORRECTED, or to LEGACY for files of Spark 2 or Hive",
    ),
    "java.lang.IllegalArgumentException: CSV header does not conform to the schema.\n Header: x, t\n Schema: t, x\n"
    "Expected: t but found: x\nCSV file: file:///raw/b%20c.csv\n\tat org.apache": (
        "/raw/b c.csv", "its header differs from the other files: it has 'x' instead of 't'",
    ),
    "Number of column in CSV header is not equal to number of fields in the schema:\n"
    " Header length: 2, schema size: 3\n"
    "CSV file: hdfs://nn:8020/m/2.csv\n": (
        "hdfs://nn:8020/m/2.csv", "its header has 2 columns, but the other files have 3",
    ),
    "[CANNOT_READ_FILE_FOOTER] Could not read footer for file: file:/a.parquet. Please ensure that the file is": (
        "/a.parquet", "is not in the format that input.format names, or is damaged",
    ),
    "Could not read footer for file: FileStatus{path=file:/d/b%41;c.parquet; isDirectory=false; length=9": (
        "/d/b%41;c.parquet", "is not in the format that input.format names, or is damaged",
    ),
    "[CANNOT_READ_FILE_FOOTER] Could not read footer for file: hdfs://n/b%41;c.orc. Please ensure that the file is": (
        "hdfs://n/b%41;c.orc", "is not in the format that input.format names, or is damaged",
    ),
    "Caused by: java.util.zip.ZipException: invalid bit length repeat\n"
    "\tat java.base/java.util.zip.InflaterInputStream.read(InflaterInputStream.java:165)": (
        None, "is compressed, and truncated or damaged",
    ),
    "(TID 150) (10.0.0.1 executor driver): java.lang.RuntimeException: file:/a b.parquet is not a Parquet file. "
    "Expected magic number at tail, but found [12, 37, 2, 24]": (
        "/a b.parquet", "is not a Parquet file, or is damaged",
    ),
    "Parquet column cannot be converted in file file:///a/b.parquet. Column: [x], Expected: int, Found: BINARY.": (
        "/a/b.parquet", "column 'x' is BINARY in this file, but int in other files",
    ),
    "Encountered error while reading file s3a://b/x.orc. Details:\n\tat x\nCaused by: java.lang.RuntimeException: \n"
    "Caused by: java.io.IOException: Malformed ORC file": ("s3a://b/x.orc", "cannot be read: Malformed ORC file"),
    "java.io.EOFException: Unexpected end of input stream" + UNPACKING: (
        None, "is compressed, and truncated or damaged",
    ),
    "Lost task 0.0 (driver): java.io.IOException: gzip stream CRC failure" + UNPACKING: (
        None, "is compressed, and truncated or damaged",
    ),
    "Lost task 0.0 (driver): java.io.IOException: unexpected end of stream" + UNPACKING: (
        None, "is compressed, and truncated or damaged",
    ),
    "Lost task 0.0 (driver): java.io.IOException: stream corrupted" + UNPACKING: (
        None, "is compressed, and truncated or damaged",
    ),
    "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/a/b c.parquet at 512 exp: -11 got: -41\n\tat": (
        "/a/b c.parquet", "is damaged: its content does not match the checksums in the .crc file beside it",
    ),
    "Encountered error while reading file file:///a.csv. Details:\n\tat x\n"
    "Caused by: java.nio.charset.UnsupportedCharsetException: klingon\n\tat": (
        "/a.csv", "Java has no encoding 'klingon'; see input.encoding",
    ),
    "[TABLE_OR_VIEW_NOT_FOUND] The table or view `sales`.`nosuch` cannot be found. Verify the spelling and": (
        None,
        "Spark's catalog has no table or view sales.nosuch. For tables of a Hive metastore, put hive-site.xml into "
        "SPARK_CONF_DIR or HADOOP_CONF_DIR, or set spark.hadoop.hive.metastore.uris",
    ),
    "java.lang.RuntimeException: native zStandard library not available: this version of libhadoop was built": (
        None, "is compressed with zStandard, which needs Hadoop's native library on every node",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SAID.items())
def test_the_file_and_what_is_wrong(text: str, expected: tuple[str | None, str]) -> None:
    assert problem(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Job aborted: ExecutorLostFailure (executor 1 exited) java.lang.OutOfMemoryError",
        "Lost task 0.0: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n"
        "Caused by: java.io.EOFException\n\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:386)",
        f"Python worker exited unexpectedly (crashed)\nCaused by: java.io.EOFException{UNPACKING}",
        'java.io.EOFException: End of File Exception between local host is: "a/1.2.3.4"; destination host is: "n"',
        "FetchFailedException: java.io.EOFException: reached end of stream after reading 0 bytes",
        "FetchFailed(null, shuffleId=0): java.io.IOException: stream corrupted",
        f"PythonException: Traceback: ValueError: incorrect data in my function{UNPACKING}",
        "ValueError: the invalid block 7 of lane 3",
        "java.io.EOFException: Unexpected EOF while trying to read response from server\n\tat org.apache.hadoop.hdfs.x",
    ],
)
def test_other_errors_are_none_of_the_inputs(text: str) -> None:
    assert problem(text) is None


def test_a_metastore_that_is_away_is_none_of_the_inputs() -> None:
    client = "org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClient"
    error = AnalysisException(f"java.lang.RuntimeException: Unable to instantiate {client}")
    with pytest.raises(AnalysisException), as_input_error("sales.clients"):
        raise error
    with pytest.raises(InputError, match=r"^sales\.clients: no such column$"), as_input_error("sales.clients"):
        raise AnalysisException("no such column")


CONTENT = bytes(range(256)) * 100


@pytest.mark.parametrize(
    ("name", "whole"), [("gzip", gzip.compress(CONTENT, mtime=0)), ("bzip2", bz2.compress(CONTENT) * 2)]
)
def test_packed_files_are_read_to_their_end(tmp_path: Path, name: str, whole: bytes) -> None:
    path = tmp_path / "a"
    path.write_bytes(whole)
    assert damage(f"{path}") is None
    path.write_bytes(whole[:-9])
    assert damage(f"{path}") == f"is truncated: the {name} stream has no end"
    path.write_bytes(whole[:40] + b"x" + whole[41:])
    assert str(damage(f"{path}")).startswith(f"is not a readable {name} file: ")
