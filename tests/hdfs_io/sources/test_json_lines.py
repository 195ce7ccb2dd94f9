"""JSON as Spark reads it: lines that are no objects are bad rows, each with its file, line and text."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hdfs_io.sources.line_numbers import assigned, find_lines
from sparksplit.base.errors import InputError
from tests.hdfs_io.sources.raw_columns import bad_of, rows_of, source


def test_a_line_that_is_no_object_is_a_bad_row(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "good.json").write_text('{"x": 1.5, "y": 1}\n')
    good, latin = '{"x": 2.5, "y": 0}\n', '{"x": 1, "y": "é"}\n'.encode("latin-1")
    (tmp_path / "a" / "mixed.json").write_bytes((good + '{"x": \t"\\\n\n  \nnone\n' + good).encode() + latin)
    opened = source(spark, format="json", path=f"{tmp_path}/a", max_bad_rows=3)
    assert opened.tensors[0].columns == ["x"] and opened.label_kind == "integer"
    assert rows_of(spark, opened) == [(0, 1.5, 1), (0, 2.5, 0), (0, 2.5, 0)]
    bad = bad_of(spark, opened, 3)
    told = assigned(bad, find_lines(spark, [(row.path, row.row) for row in bad]))
    assert sorted((Path(row.path).name, row.row, row.text, row.reason) for row in told) == [
        ("mixed.json", 2, '{"x": \t"\\', "is no JSON object"),
        ("mixed.json", 5, "none", "is no JSON object"),
        ("mixed.json", 7, '{"x": 1, "y": "\ufffd"}', "is no JSON object"),
    ]


def test_a_file_without_objects_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "one.json").write_text('{\n "x": 1,\n "y": 1\n}\n')
    with pytest.raises(
        InputError, match=r"^\S+: no line is a JSON object; each row must be one, on a line of its own$"
    ):
        source(spark, format="json", path=f"{tmp_path}")
