"""Files that do not have the same columns: none is left out, and none read as what it is not."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from sparksplit.base.errors import InputError
from sparksplit.prepare.tables import same_columns
from tests.prepare.sources.raw_columns import bad_of, rows_of, source

NOMINAL = {"ml_attr": {"vals": ["cat", "dog", "cow"], "type": "nominal", "name": "y"}}
WRITERS = {"parquet": pq.write_table, "orc": orc.write_table}


@pytest.mark.slow
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
        with pytest.raises(
            InputError, match=f"/{few}{few}/{few}: column 'a' is int64 in this file, but double in other files$"
        ):
            source(spark, format=kind, path=f"{tmp_path}/{few}{few}")
    put("wider/a", y=[1], a=pa.array([1], pa.int32()), b=pa.array([0.5], pa.float32()))
    put("wider/b", y=[0], a=[2**24 + 2], b=[0.25])
    wider = source(spark, format=kind, path=f"{tmp_path}/wider")
    assert dict(wider.columns) == {"y": "bigint", "a": "bigint", "b": "double"}
    assert rows_of(spark, wider) == [(0, 1, 0.5, 1), (0, 2**24 + 2, 0.25, 0)]


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
    for name, column, kind in (("a", "amount", pa.int64()), ("b", "Amount", pa.int32()), ("c", "amount", pa.null())):
        (tmp_path / "raw" / "day=1").mkdir(exist_ok=True, parents=True)
        values = [2**53 + 1] if name == "a" else [1] if name == "b" else [None]
        table = pa.table({column: pa.array(values, kind), "y": [0], "z": [float(ord(name))]})
        pq.write_table(table, tmp_path / "raw" / "day=1" / name)
    opened = source(spark, path=f"{tmp_path}/raw", keep=["day", "amount"])
    assert opened.notes == ["columns 'Amount', 'amount' of different files are read as one column, 'amount'"]
    found = rows_of(spark, opened)
    assert {row[-3:] for row in found} == {(0, "1", "9007199254740993"), (0, "1", "1"), (0, "1", None)}
    place = elsewhere(tmp_path, "raw")
    with pytest.raises(
        InputError, match=f"^{re.escape(place)}: column 'amount' is .*int in some files, .*int in others$"
    ):
        source(spark, path=place)


def test_what_pandas_writes(spark: SparkSession, tmp_path: Path) -> None:
    """Nanoseconds, times of day, days before the calendar of today, and the index."""
    nanos = pa.array([1714566600123456789, -1001, None], pa.timestamp("ns"))
    columns = {
        "t": nanos,
        "u": nanos.cast(pa.timestamp("ns", "Europe/Berlin")),
        "time": pa.array([49510500000, 0, None], pa.time64("us")),
        "old": pa.array([dt.date(1500, 1, 2), dt.date(1582, 10, 10), None]),
        "first": pa.array([dt.datetime(1850, 1, 1), dt.datetime(1, 1, 1), None], pa.timestamp("us")),
        "y": [0.0, 1.0, 0.0],
        "__index_level_0__": [2, 0, 1],
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    for folder, keep in (("a.parquet", ["t", "u", "old", "first"]), ("b.parquet", ["first"])):
        opened = source(spark, path=f"{tmp_path}/{folder}", keep=keep, missing="mean")
        assert opened.tensors[0].columns == ["time"] and opened.label_kind == "integer"
        assert [note.partition(" is the index")[0] for note in opened.notes] == [
            "column '__index_level_0__'",
            "the labels (column 'y') are exactly 0.0 and 1.0. They become classes. If they are numbers to predict,"
            " set input.label_type: number",
        ]
        found = sorted(rows_of(spark, opened), key=lambda row: str(row[1]))
        assert [row[2:] for row in found] == [
            (1, *expected[-len(keep) :]) if place == 0 else (0, *expected[-len(keep) :])
            for place, expected in enumerate(
                [
                    ("1969-12-31 23:59:59.999998", "1969-12-31 23:59:59.999998", "1582-10-10", "0001-01-01 00:00:00"),
                    ("2024-05-01 12:30:00.123456", "2024-05-01 12:30:00.123456", "1500-01-02", "1850-01-01 00:00:00"),
                    (None, None, None, None),
                ]
            )
        ]
        assert [row[1] for row in found[:2]] == [0.0, 49510.5]
        # As Hive and Impala write timestamps.
        old = pa.table({name: columns[name] for name in ("time", "first", "y", "__index_level_0__")})
        pq.write_table(old, tmp_path / "b.parquet", use_deprecated_int96_timestamps=True)


def test_the_index_of_pandas_is_no_column_of_windows(spark: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        columns = {"__index_level_0__": [7, 5, 9], "t": [1, 2, 3], "v": [day + 0.5, day + 1.5, day + 2.5]}
        pq.write_table(pa.table(columns), tmp_path / f"day={day}" / "a")
    opened = source(spark, path=f"{tmp_path}", label="v", windows={"window": 2, "order": "t", "by": ["day"]})
    assert opened.tensors[0].columns == ["v"]
    found = [(*row[1:3], *np.frombuffer(row[3], "<f8"), *row[4:]) for row in rows_of(spark, opened)]
    assert found == [(1.5, 2.5, 3.5, "1", "2"), (2.5, 3.5, 4.5, "2", "2")]
    pq.write_table(pa.table({"t": [1, 2], "v": [2**24 + 1, 2**24 + 3]}), tmp_path / "bad")
    opened = source(spark, path=f"{tmp_path}/bad", label="v", windows={"window": 1, "order": "t"})
    with pytest.raises(
        InputError, match=r"no row follows another row.*; there are bad rows, such as .*'v': 1677721\d is"
    ):
        opened.raw(spark)


def test_arrays_of_decimals(spark: SparkSession, tmp_path: Path) -> None:
    values = pa.array(
        [[Decimal("1.50"), Decimal("2.25")], [Decimal("3"), Decimal("16777217")]], pa.list_(pa.decimal128(10, 2))
    )
    pq.write_table(pa.table({"v": values, "y": [1.0, 2.0]}), tmp_path / "a")
    opened = source(spark, path=f"{tmp_path}/a", max_bad_rows=1, label_type="integer")
    assert rows_of(spark, opened) == [(0, 1.5, 2.25, 1)]
    assert bad_of(spark, opened, 1)[0].reason.startswith("column 'v': '16777217.00' is 16777216 in float32")
    assert source(spark, path=f"{tmp_path}/a").label_kind == "number"
    assert "input.label_type: integer" in source(spark, path=f"{tmp_path}/a").notes[0]


def marked(path: Path, table: pa.Table, metadata: str) -> None:
    """Write a file with a column `y` of this metadata, as Spark does."""
    pq.write_table(table.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": metadata}), path)


def spark_schema(**metadata: object) -> str:
    fields = [{"name": name, "type": "double", "nullable": True, "metadata": of} for name, of in metadata.items()]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (spark_schema(x={}, y=NOMINAL), {"y": NOMINAL}),
        (spark_schema(x={}), {}),
        # With the length of a char column, Spark would fill its texts with spaces.
        (spark_schema(x={"__CHAR_VARCHAR_TYPE_STRING": "char(9)"}, y={**NOMINAL, "comment": "c"}), {"y": NOMINAL}),
        ("{", {}),
        ("[]", {}),
        ('{"fields": [{"name": "y"}]}', {}),
        ('{"fields": 3}', {}),
    ],
)
def test_metadata_of_columns_is_read_from_the_footer(tmp_path: Path, metadata: str, found: dict[str, object]) -> None:
    marked(tmp_path / "a", pa.table({"y": [0.5]}), metadata)
    types = {"y": pa.float64()}
    assert same_columns._footer("parquet", f"{tmp_path}/a") == (types, found)
    for kind, write in WRITERS.items():
        write(pa.table({"y": [0.5]}), tmp_path / "b")
        assert same_columns._footer(kind, f"{tmp_path}/b") == (types, {})
    (tmp_path / "c").write_bytes(b"PAR1")
    assert same_columns._footer("parquet", f"{tmp_path}/c") is None


def test_categories_of_pyspark_ml_are_classes_where_files_differ(spark: SparkSession, tmp_path: Path) -> None:
    """Labels 0.0, 1.0, 2.0 became numbers to predict, because a feature was int32 in one file and int64 in another."""
    for name, kind, labels in (("a", pa.int32(), [0.0, 2.0]), ("b", pa.int64(), [1.0, 0.0])):
        table = pa.table({"x.1": pa.array([1, 2], kind), "y": labels})
        marked(tmp_path / name, table, spark_schema(y=NOMINAL))
    # The first of the files that are read together has no mark.
    pq.write_table(pa.table({"x.1": pa.array([], pa.int32()), "y": pa.array([], pa.float64())}), tmp_path / "Z")
    opened = source(spark, format="parquet", path=f"{tmp_path}")
    assert opened.label_kind == "integer" and any("pyspark.ml marks these labels" in note for note in opened.notes)
    assert rows_of(spark, opened) == [(0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 2)]
