"""Files that do not have the same columns: none is left out, and none read as what it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from hdfs_io.sources.same_columns import unlike
from sparksplit.base.errors import InputError
from tests.hdfs_io.sources.raw_columns import rows_of, source

WRITERS = {"parquet": pq.write_table, "orc": orc.write_table}


@pytest.mark.parametrize("kind", WRITERS)
def test_files_that_lack_a_column_or_have_another_type(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    def put(name: str, **columns: object) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        WRITERS[kind](pa.table(columns), f"{tmp_path}/{name}")

    for few, full in ("ab", "ba"):
        put(f"{few}/{few}", y=[1, 0], a=[0.5, 1.5])
        put(f"{few}/{full}", y=[1, 0], a=[2.5, 3.5], b=[7.0, 8.0])
        opened = source(spark, format=kind, path=f"{tmp_path}/{few}", missing="mean")
        assert sorted(opened.tensors[0].columns or []) == ["a", "b"]
        found = [{"a": row[1], "b": row[2]} if opened.tensors[0].columns == ["a", "b"] else {"a": row[2], "b": row[1]}
                 for row in rows_of(spark, opened)]  # fmt: skip
        assert {str(row) for row in found} == {
            "{'a': 0.5, 'b': nan}", "{'a': 1.5, 'b': nan}", "{'a': 2.5, 'b': 7.0}", "{'a': 3.5, 'b': 8.0}",
        }  # fmt: skip
        (tmp_path / few / "nothing").touch()
        assert len(rows_of(spark, source(spark, format=kind, path=f"{tmp_path}/{few}", missing="mean"))) == 4
        (tmp_path / few / full).write_bytes((tmp_path / few / full).read_bytes()[:-9])
        with pytest.raises(InputError, match=f"^{tmp_path}/{few}/{full}: .* damaged") as damaged:
            source(spark, format=kind, path=f"{tmp_path}/{few}")
        assert str(damaged.value).count(f"{tmp_path}") == 1
        put(f"{few}{few}/{few}", y=[1, 0], a=[1, 2])
        put(f"{few}{few}/{full}", y=[1, 0], a=[2.5, 3.5])
        put(f"{few}{few}/c", y=[1, 0], a=[2.5, 3.5])
        with pytest.raises(InputError, match=f"/{few}{few}/{few}: column 'a' is int64 there, double in other files$"):
            source(spark, format=kind, path=f"{tmp_path}/{few}{few}")


def test_summary_files_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0], "y": [0]}), tmp_path / "a")
    pq.write_table(pa.table({"x": [2.0], "y": [1]}), tmp_path / "_b=c")
    for name in ("_metadata", "_common_metadata"):
        old = pa.schema([("x", pa.int32()), ("old", pa.float64()), ("y", pa.int64())])
        pq.write_metadata(old, f"{tmp_path}/{name}")
        assert rows_of(spark, source(spark, path=f"{tmp_path}")) == [(0, 1.0, 0), (0, 2.0, 1)]
        (tmp_path / name).write_bytes(b"nothing of Parquet's")
        assert len(rows_of(spark, source(spark, path=f"{tmp_path}"))) == 2


def test_columns_that_differ_in_case_and_type(
    spark: SparkSession, tmp_path: Path, elsewhere: Callable[[Path, str], str]
) -> None:
    for name, column, kind in (("a", "x", pa.int64()), ("b", "X", pa.int32()), ("c", "x", pa.int64())):
        (tmp_path / "raw").mkdir(exist_ok=True)
        pq.write_table(pa.table({column: pa.array([1], kind), "y": [0]}), tmp_path / "raw" / name)
    with pytest.raises(InputError, match=f"^{tmp_path}/raw/b: column 'x' is int32 there, int64 in other files$"):
        source(spark, path=f"{tmp_path}/raw")
    place = elsewhere(tmp_path, "raw")
    with pytest.raises(InputError, match=f"^{re.escape(place)}: column 'x' is .*int in some files, .*int in others$"):
        source(spark, path=place)


def test_which_file_is_unlike_the_others() -> None:
    files = {"a": {"x": "int64"}, "b": {"x": "double"}, "c": {}, "d": {"x": "double"}}
    assert unlike(files, ["y", "x"]) == "a: column 'x' is int64 there, double in other files"
    assert unlike(files, ["y"]) is unlike({}, ["x"]) is None
