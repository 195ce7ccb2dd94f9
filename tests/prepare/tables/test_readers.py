"""What Spark's readers give: parts, partition columns, kept columns, bad rows with their files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from sparksplit.base.config import parse as parse_config
from sparksplit.base.errors import InputError
from sparksplit.prepare import bad_rows
from sparksplit.prepare.passes.parse import parse
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.tables.readers import read
from tests.commands.preprocessing import run
from tests.prepare.sources.raw_columns import bad_of, rows_of, source


def write(place: Path, **columns: Any) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), place)
    return place


def test_folders_of_partition_columns_parts_and_bad_rows(spark: SparkSession, tmp_path: Path) -> None:
    raw = tmp_path / "raw [1]"
    write(raw / "day=2" / "a.parquet", x=[1.5, 2.5], y=[0, 1], id=["p", "q"])
    write(raw / "day=1" / "b c.parquet", x=[3.5, None], y=[1, 1], id=["r", "s"])
    (raw / "_SUCCESS").touch()
    for name in ("held", "test"):
        write(tmp_path / name / "1" / "c.parquet", y=[1], id=["t"], x=[4.5], day=[3])
    paths = {"path": f"{raw}", "validation": [f"{tmp_path}/held"], "test": f"{tmp_path}/h?ld/*/*.parquet"}
    with pytest.raises(InputError, match=f"^{tmp_path}/held/1/c.parquet: is in input.validation and in input.test, so"):
        source(spark, keep=["id", "day"], **paths)
    paths["test"] = f"{tmp_path}/t?st/*/*.parquet"
    opened = source(spark, keep=["id", "day"], max_bad_rows=1, **paths)
    assert opened.parts() == ["train", "validation", "test"] and opened.has_test
    assert opened.tensors[0].columns == ["x"] and len(opened.files) == 4
    assert rows_of(spark, opened) == [
        (0, 1.5, 0, "p", "2"), (0, 2.5, 1, "q", "2"), (0, 3.5, 1, "r", "1"), (1, 4.5, 1, "t", "3"),
        (2, 4.5, 1, "t", "3"),
    ]  # fmt: skip
    tally = bad_rows.tally(bad_rows.of(parse(spark, opened)))
    reason = "a row: column 'x': is null; input.missing: mean fills missing values (x: null, y: 1)"
    assert str(tally.first) == f"{raw}/day=1/b c.parquet: {reason}" and tally.counts == {"column 'x': is null": 1}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "orc", "json", "csv", "hive-text"])
def test_a_partition_column_that_the_files_have_too(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    columns = pa.table({"x": [1, 2], "y": [0, 1]})
    for folder in ("x=9", *([] if kind in ("csv", "hive-text") else ["X=9"])):
        place = tmp_path / "in=1" / folder / "a=b"
        place.parent.mkdir(parents=True)
        if kind in ("parquet", "orc"):
            {"parquet": pq.write_table, "orc": orc.write_table}[kind](columns, f"{place}")
            (place.parent / "empty").touch()
        else:
            texts = {"json": '{"x": 1, "y": 0}\n', "csv": "x,y\n1,0\n", "hive-text": "1\x010\n"}
            place.write_text(texts[kind])
        keys: dict[str, Any] = {"columns": ["x", "y"]} if kind == "hive-text" else {}
        name = folder.partition("=")[0]
        for path in ("", "in=1"):
            said = rf"^{tmp_path}/in=1/{folder}: the folder name gives column '{name}', but its files"
            with pytest.raises(InputError, match=said):
                source(spark, format=kind, path=f"{tmp_path}/{path}", **keys)
        assert source(spark, format=kind, path=f"{tmp_path}/in=1/{folder}", **keys).tensors[0].columns == ["x"]
        shutil.rmtree(place.parent)


def test_parts_may_have_other_kinds_of_numbers_and_nothing_is_rounded(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", x=pa.array([0.5], pa.float32()), y=[1])
    write(tmp_path / "b.parquet", x=[16777217, 2], y=[0, 0])
    opened = source(spark, path=f"{tmp_path}/a.parquet", validation=f"{tmp_path}/b.parquet", max_bad_rows=1)
    assert rows_of(spark, opened) == [(0, 0.5, 1), (1, 2, 0)]
    bad = bad_rows.tally(bad_rows.of(parse(spark, opened))).first
    assert bad.reason.startswith("column 'x': '16777217' is 16777216 in float32, the default")


def test_every_part_is_read_by_its_own_types(spark: SparkSession, tmp_path: Path) -> None:
    big = 9007199254740993
    write(tmp_path / "a.parquet", flag=[True], whole=[5], big=[big], y=[1])
    decimals = pa.array([Decimal("2.50")], pa.decimal128(10, 2))
    write(tmp_path / "b.parquet", flag=[300], whole=decimals, big=[0.5], y=[0])
    paths = {"path": f"{tmp_path}/a.parquet", "validation": f"{tmp_path}/b.parquet"}
    opened = source(spark, **paths, max_bad_rows=1)
    assert rows_of(spark, opened) == [(1, 300, 2.5, 0.5, 0)]
    bad = bad_rows.tally(bad_rows.of(parse(spark, opened))).first
    assert bad.reason.startswith(f"column 'big': '{big}' is 9007199254740992 in float32, the default")
    write(tmp_path / "a.parquet", flag=[True], whole=[5], big=[7], y=[1])
    assert rows_of(spark, source(spark, **paths)) == [(0, 1, 5, 7, 1), (1, 300, 2.5, 0.5, 0)]


def test_whole_numbers_that_are_doubles_in_one_part(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", x=[2**53 + 1], y=[1])
    write(tmp_path / "b.parquet", x=[3.0, 1e7, -(2.0**60), 0.5, 1e19, 4.0], y=[0.0, 1.0, 2.0, 3.0, 4.0, 0.5])
    paths = {"path": f"{tmp_path}/a.parquet", "validation": f"{tmp_path}/b.parquet"}
    opened = source(spark, **paths, dtype="int64", max_bad_rows=3)
    rows = parse(spark, opened).where("bad is null").collect()
    assert sorted((int.from_bytes(row.tensor_0, "little", signed=True), row.label) for row in rows) == [
        (-(2**60), 2), (3, 0), (10**7, 1), (2**53 + 1, 1),
    ]  # fmt: skip
    assert {row.path for row in bad_of(spark, opened, 3)} == {f"{tmp_path}/b.parquet"}


def test_files_that_only_sparks_hadoop_knows(
    spark: SparkSession, tmp_path: Path, elsewhere: Callable[[Path, str], str]
) -> None:
    for part in ("day=1", "day=2"):
        write(tmp_path / "raw" / part / "a.parquet", x=[int(part[-1])], y=[0])
    opened = source(spark, path=elsewhere(tmp_path, "raw"), keep=["day"])
    assert rows_of(spark, opened) == [(0, 1, 0, "1"), (0, 2, 0, "2")] and len(opened.files) == 2
    one = source(spark, path=elsewhere(tmp_path, "r*/day=2/*.parquet"))
    assert rows_of(spark, one) == [(0, 2, 0)]


@pytest.mark.slow
def test_tables_and_queries(spark: SparkSession, tmp_path: Path) -> None:
    spark.createDataFrame([(1.0, 2, 0), (2.0, 3, 1)], "a double, b int, y int").createOrReplaceTempView("things")
    whole = source(spark, format="table", table="things")
    assert rows_of(spark, whole) == [(0, 1, 2, 0), (0, 2, 3, 1)] and whole.files == []
    some = source(spark, format="sql", query="SELECT a, y FROM things WHERE b > 2")
    assert rows_of(spark, some) == [(0, 2, 1)]
    with pytest.raises(InputError, match=r"^nothings: Spark's catalog has no table or view nothings\."):
        source(spark, format="table", table="nothings")
    with pytest.raises(InputError, match=r"^the query: .*`c` cannot be resolved"):
        source(spark, format="sql", query="SELECT c FROM things")


@pytest.mark.slow
def test_a_query_over_files_is_another_where_it_asks_for_other_rows(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", a=[1, 2, 3], y=[0, 1, 0])
    files = f"parquet.`{tmp_path}/a.parquet`"

    def digest(query: str) -> str | None:
        found = read(spark, parse_config(InputConfig, {"format": "sql", "query": query, "label": "y"}))
        return found.digest

    def view(rows: str) -> str | None:
        spark.sql(f"CREATE OR REPLACE TEMP VIEW some AS SELECT a, y FROM {files} WHERE {rows}")
        return digest("SELECT * FROM some")

    first = view("a > 1")
    assert first is not None and first == view("a > 1") != view("a > 2")
    spark.createDataFrame([(1,)], "b int").createOrReplaceTempView("elsewhere")
    assert digest(f"SELECT f.* FROM {files} f JOIN elsewhere ON a = b") is None
    assert digest(f"SELECT * FROM {files} WHERE rand() > 0.5") is None
    many = ", ".join(f"a + {number} AS c{number}" for number in range(60))
    assert digest(f"SELECT {many}, y FROM {files}") != digest(
        f"SELECT {many.replace('a + 59 ', 'a + 61 ')}, y FROM {files}"
    )


@pytest.mark.slow
def test_the_same_again_needs_no_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sparksplit.prepare import preprocess

    write(tmp_path / "raw" / "a.parquet", x=list(range(20)), y=[0, 1] * 10)
    write(tmp_path / "held.parquet", x=[0.5], y=[0])
    settings = [f"input.path={tmp_path}/raw/*.parquet", f"input.validation={tmp_path}/held.parquet"]
    settings += ["input.format=parquet", "input.label=y"]
    assert run(tmp_path, *settings) == 0
    assert "validation            1 rows" in capsys.readouterr().out
    monkeypatch.setattr(preprocess, "session_with_executors", lambda *_, **__: pytest.fail("Spark was started"))
    assert run(tmp_path, *settings) == 0
    assert "is up to date" in capsys.readouterr().err
    write(tmp_path / "raw" / "b.parquet", x=[1], y=[0])
    assert run(tmp_path, *settings) == 2
    assert "its input has changed" in capsys.readouterr().err
