"""What the columns that a cut goes by come to."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.prepare.cut_config import CutConfig, moment
from sparksplit.prepare.tables.cut_columns import CutColumns

NONE: Any = SimpleNamespace()
"""No frame: nothing has to be looked at."""


def columns(cut: dict[str, Any], names: list[str], types: list[str], frame: Any = NONE) -> CutColumns:
    return CutColumns.of(parse(CutConfig, cut), names, types, frame)


@pytest.mark.parametrize(
    ("cut", "found", "words"),
    [
        (
            {"by": "column", "column": "s"},
            "int",
            "column: 's' is int, but must be text .train, validation or test",
        ),
        ({"by": "time", "column": "s"}, "double", "'s' is double, but must hold times, dates or whole numbers; cast"),
        (
            {"by": "time", "column": "s", "test_from": "2024-05-01"},
            "bigint",
            "test_from: must be a whole number, because column 's' is bigint .is '2024-05-01'.",
        ),
        (
            {"by": "time", "column": "s", "validation_from": 20240501},
            "date",
            "validation_from: must be a date or a time, because column 's' is date .is 20240501.",
        ),
    ],
)
def test_a_column_that_cannot_be_cut_by_is_one_line(cut: dict[str, Any], found: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        columns(cut, ["s"], [found])


@pytest.mark.parametrize(
    ("cut", "found", "kind"),
    [
        ({"by": "key", "columns": ["s"]}, "double", "key"),
        ({"by": "column", "column": "s"}, "string", "split"),
        ({"by": "column", "column": "s"}, "boolean", "split"),
        ({"by": "time", "column": "s"}, "date", "time"),
        ({"by": "time", "column": "s"}, "smallint", "number"),
        ({"by": "time", "column": "s", "test_from": "2024-05-01"}, "string", "time"),
        ({"by": "time", "column": "s", "test_from": 5}, "string", "number"),
    ],
)
def test_the_type_says_what_a_column_holds(cut: dict[str, Any], found: str, kind: str) -> None:
    assert columns(cut, ["s"], [found]) == CutColumns(("s",), kind)  # type: ignore[arg-type]


def test_a_row_is_bad_for_a_reason_with_its_value_and_one_without() -> None:
    time = CutColumns(("day",), "time")
    subject = "column 'day' of the cut"
    assert time.problem(", soon") == (f"{subject}: 'soon' is not a time or date", f"{subject}: not a time or date")
    assert time.problem(None) == (f"{subject}: is null", f"{subject}: is null")
    assert CutColumns(("a", "b")).problem(None)[0] == "columns 'a', 'b', cut.columns: is null"
    assert CutColumns(("s",), "split").problem(", x")[0].endswith("'x' is not train, validation, test, true or false")


def test_values_are_the_same_whatever_the_columns_type(spark: SparkSession) -> None:
    """And whatever the session's time zone."""
    noon = datetime(2024, 5, 1, 12, 0, 0, 500000)
    wanted = moment(noon.isoformat())
    times: Table = {
        "a timestamp": [(noon.replace(tzinfo=UTC), wanted)],
        "b timestamp_ntz": [(noon, wanted)],
        "c date": [(date(2024, 5, 1), moment("2024-05-01")), (date(1969, 12, 31), -86_400_000_000)],
        "d string": [
            (" 2024-05-01", moment("2024-05-01")),
            ("2024-05-01 12:00:00.5", wanted),
            ("2024-05-01T12:00:00.500", wanted),
            ("2024-05-01T14:00:00.5+02:00", wanted),
            ("2024-05-01T12:00:00.5Z", wanted),
            *((text, None) for text in ("2024-13-01", "12:00", "soon", "")),
        ],
    }
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for session in ("UTC", "America/New_York"):
            spark.conf.set("spark.sql.session.timeZone", session)
            check(spark, times, ["time"] * 4)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    numbers = [("7", 7), (" -7 ", -7), *((text, None) for text in ("7.5", "9" * 19, ""))]
    validation = [(name, 1) for name in ("Validation ", "VALID", "val", "dev")]
    splits = [("train", 0), *validation, ("TEST", 2), ("training", None)]
    splits += [("False", 0), ("TRUE", 1)]  # booleans in a file of texts
    check(
        spark,
        {"a string": numbers, "b string": splits, "c boolean": [(False, 0), (True, 1)]},
        ["number", "split", "split"],
    )
    types = ["string", "int"]
    frame = spark.createDataFrame([("a", 1), ("a", 2), ("a", 1), (None, 1), ("a", None)], "c string, d int")
    key = values(CutColumns(("c", "d")), frame, types)
    assert key[0] == key[2] != key[1] and key[3:] == [None, None]
    assert key[:3] == values(CutColumns(("c", "d")), frame.selectExpr("c", "cast(d as string) d"), ["string"] * 2)[:3]
    frame = spark.createDataFrame([("a",), (" \\N",), ("",)], "c string")
    marked = frame.select(
        CutColumns(("c",)).value(["c"], ["string"], ["\\N", ""]), CutColumns(("c",)).text(["c"], ["\\N", ""])
    )
    assert [(row[0] is None, row[1]) for row in marked.collect()] == [(False, ", a"), (True, None), (True, None)]
    by_time = {"by": "time", "column": "c"}
    for texts, kind in ((["2024-05-01"], "time"), ([None, "20240501"], "number"), ([], "time")):
        frame = spark.createDataFrame([(text,) for text in texts], "c string")
        assert columns(by_time, ["c"], ["string"], frame).kind == kind


Table = dict[str, list[tuple[Any, int | None]]]
"""A column's name and type: its values, and what each comes to."""


def check(spark: SparkSession, table: Table, kinds: list[Any]) -> None:
    """All columns in one Spark job. Each ends with nulls, which come to nulls."""
    known = [*zip_longest(*table.values(), fillvalue=(None, None)), ((None, None),) * len(table)]
    frame = spark.createDataFrame([tuple(value for value, _ in row) for row in known], ", ".join(table))
    cuts = {name: CutColumns((name,), kind) for name, kind in zip(frame.columns, kinds, strict=True)}
    found = frame.select(*(cuts[name].value([name], [type_]).alias(name) for name, type_ in frame.dtypes))
    assert {type_ for _, type_ in found.dtypes} == {"bigint"}
    assert [tuple(row) for row in found.collect()] == [tuple(number for _, number in row) for row in known]
    shown = frame.select(*(cut.text([name]).alias(name) for name, cut in cuts.items()))
    assert {type_ for _, type_ in shown.dtypes} == {"string"}


def values(cut: CutColumns, frame: Any, types: list[str]) -> list[int | None]:
    named = frame.select(cut.value(frame.columns, types).alias("value"), cut.text(frame.columns).alias("text"))
    assert named.schema["value"].dataType.simpleString() == "bigint"
    return [row.value for row in named.collect()]
