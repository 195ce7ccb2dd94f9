"""Types of columns of Parquet and ORC: what Spark's reader is asked for, and what has the values of several exactly."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparksplit.prepare.tables.column_types import asked, common, final, is_own, kind_of, value


@pytest.mark.parametrize(
    ("arrow", "kind"),
    [
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.null(), "null"),
        (pa.duration("ns"), "bigint"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.binary(16), "binary"),
        (pa.timestamp("us", "Europe/Berlin"), "timestamp"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.timestamp("ns"), "timestamp_ntz ns"),
        (pa.time32("ms"), "time ms"),
        (pa.time64("ns"), "time ns"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.list_(pa.list_(pa.decimal128(5, 1))), "array<array<decimal(5,1)>>"),
        (pa.map_(pa.string(), pa.int32()), "map<string,int>"),
        (pa.struct([("a`b", pa.int8()), ("{c}", pa.float32())]), "struct<`a``b`:tinyint,`{c}`:float>"),
        (pa.list_(pa.timestamp("ns")), None),
        (pa.float16(), None),
    ],
)
def test_kinds(arrow: pa.DataType, kind: str | None) -> None:
    assert kind_of(arrow) == kind


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        (["int", "bigint", "tinyint"], "bigint"),
        (["float", "double"], "double"),
        (["float", "smallint"], "float"),
        (["float", "int"], "double"),
        (["double", "int"], "double"),
        (["double", "bigint"], None),
        (["null", "double"], "double"),
        (["null"], "null"),
        (["null", "string"], "string"),
        (["null", "time us", "time ms"], "time"),
        (["time us", "double"], None),
        (["timestamp ns", "timestamp"], "timestamp"),
        (["timestamp ns", "timestamp_ntz"], None),
        (["date", "timestamp"], None),
        (["decimal(5,2)", "decimal(4,3)"], "decimal(6,3)"),
        (["decimal(5,2)", "int"], "decimal(12,2)"),
        (["decimal(38,2)", "decimal(38,3)"], None),
        (["decimal(5,2)", "double"], None),
        (["array<int>", "array<bigint>"], "array<bigint>"),
        (["array<int>", "int"], None),
        (["string", "int"], None),
        (["boolean", "int"], None),
    ],
)
def test_the_kind_that_has_all_values(kinds: list[str], found: str | None) -> None:
    assert common(kinds) == common(kinds[::-1]) == found


def test_what_the_reader_is_asked_for() -> None:
    assert [asked(kind) for kind in ("null", "time ms", "time us", "timestamp ns", "date")] == [
        "int", "int", "bigint", "bigint", "date"
    ]  # fmt: skip
    assert (final("time"), final("null"), final("date")) == ("double", "int", "date")
    assert is_own("time ns") and is_own("timestamp ns") and not is_own("null") and not is_own("date")
    assert value("int", "`x`", "bigint") == "CAST(`x` AS bigint)"
    assert value("null", "`x`", "string") == "CAST(NULL AS string)"
    assert value("time ms", "`x`", "time") == "CAST(CAST(`x` AS double) / 1e3D AS double)"
