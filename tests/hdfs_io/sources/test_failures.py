"""What Spark's errors say about the input."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from hdfs_io.sources.failures import gzip_damage, problem

SAID = {
    "java.lang.IllegalArgumentException: CSV header does not conform to the schema.\n Header: x, t\n Schema: t, x\n"
    "Expected: t but found: x\nCSV file: file:///raw/b%20c.csv\n\tat org.apache": (
        "/raw/b c.csv", "its header is not that of the other files: it has 'x' in place of 't'",
    ),
    "Number of column in CSV header is not equal to number of fields in the schema:\n"
    " Header length: 2, schema size: 3\n"
    "CSV file: hdfs://nn:8020/m/2.csv\n": (
        "hdfs://nn:8020/m/2.csv", "its header has 2 columns, those of the other files 3",
    ),
    "[CANNOT_READ_FILE_FOOTER] Could not read footer for file: file:/a.parquet. Please ensure that the file is": (
        "/a.parquet", "is not a file of this format, or a damaged one",
    ),
    "Parquet column cannot be converted in file file:///a/b.parquet. Column: [x], Expected: int, Found: BINARY.": (
        "/a/b.parquet", "column 'x' is BINARY there, int in other files",
    ),
    "Encountered error while reading file s3a://b/x.orc. Details:\n\tat x\nCaused by: java.lang.RuntimeException: \n"
    "Caused by: java.io.IOException: Malformed ORC file": ("s3a://b/x.orc", "cannot be read: Malformed ORC file"),
    "java.io.EOFException: Unexpected end of input stream\n\tat": (None, "is compressed, and truncated or damaged"),
    "java.lang.RuntimeException: native zStandard library not available: this version of libhadoop was built": (
        None, "is compressed with zStandard, which needs Hadoop's native library on every node",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SAID.items())
def test_the_file_and_what_is_wrong(text: str, expected: tuple[str | None, str]) -> None:
    assert problem(text) == expected


def test_other_errors_are_none_of_the_inputs() -> None:
    assert problem("Job aborted: ExecutorLostFailure (executor 1 exited) java.lang.OutOfMemoryError") is None


def test_gzip_files_are_read_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    whole = gzip.compress(bytes(range(256)) * 100, mtime=0)
    path.write_bytes(whole)
    assert gzip_damage(f"{path}") is None
    path.write_bytes(whole[:-9])
    assert gzip_damage(f"{path}") == "is truncated: the gzip stream has no end"
