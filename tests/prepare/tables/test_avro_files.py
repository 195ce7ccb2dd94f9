"""The columns of Avro files, without Spark's package."""

from __future__ import annotations

import json
from pathlib import Path

import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, DoubleType, LongType, MapType, StringType, StructField, StructType

from sparksplit.base.errors import InputError
from sparksplit.prepare.formats import avro_package, format_of
from sparksplit.prepare.tables.avro_files import joined, schema_of

SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}).encode()


def long(value: int) -> bytes:
    """As Avro's specification writes a number."""
    value, written = value << 1 ^ value >> 63, b""
    while value > 0x7F:
        value, written = value >> 7, written + bytes([value & 0x7F | 0x80])
    return written + bytes([value])


def text(value: bytes) -> bytes:
    return long(len(value)) + value


def header(*blocks: dict[bytes, bytes], sized: bool) -> bytes:
    """sized: whether each block begins with its size in bytes."""
    written = b"Obj\x01"
    for block in blocks:
        content = b"".join(text(name) + text(value) for name, value in block.items())
        written += long(-len(block)) + long(len(content)) if sized else long(len(block))
        written += content
    return written + long(0) + b"synchronization."


@given(
    before=st.dictionaries(st.binary(max_size=9), st.binary(max_size=300), min_size=1, max_size=3),
    codec=st.binary(max_size=200),
    sized=st.booleans(),
)
def test_the_schema_is_found_among_other_entries(
    tmp_path_factory: pytest.TempPathFactory, before: dict[bytes, bytes], codec: bytes, sized: bool
) -> None:
    file = tmp_path_factory.mktemp("avro") / "x.avro"
    file.write_bytes(header(before, {b"avro.codec": codec, b"avro.schema": SCHEMA}, sized=sized))
    assert schema_of(str(file)) == SCHEMA


@pytest.mark.parametrize("cut", [0, 3, 4, 5, 9, 40])
def test_what_is_no_avro_file_has_no_schema(tmp_path: Path, cut: int) -> None:
    """Spark reports it."""
    file = tmp_path / "x.avro"
    file.write_bytes(header({b"avro.schema": SCHEMA}, sized=False)[:cut])
    assert schema_of(str(file)) is None


@pytest.mark.parametrize("size", [-1, 1 << 40, (1 << 63) - 1])
def test_a_damaged_length_is_damage(tmp_path: Path, size: int) -> None:
    file = tmp_path / "x.avro"
    file.write_bytes(b"Obj\x01" + long(1) + long(size) + b"some bytes")
    assert schema_of(str(file)) is None


def of(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_all_columns_of_all_files_are_read() -> None:
    files = {"x": of(a=LongType(), b=StringType()), "y": of(c=DoubleType(), B=StringType())}
    assert joined(files) == of(a=LongType(), b=StringType(), c=DoubleType())


def test_files_may_differ_in_where_nulls_are_allowed() -> None:
    def with_nulls(allowed: bool) -> StructType:
        inner = StructType([StructField("x", MapType(StringType(), LongType(), allowed), allowed)])
        return of(a=ArrayType(LongType(), allowed), b=inner)

    assert joined({"x": with_nulls(False), "y": with_nulls(True)}) == with_nulls(True)


def test_a_column_of_two_types_names_both_files() -> None:
    with pytest.raises(InputError, match="y: column 'a' is double in this file, but bigint in x"):
        joined({"x": of(a=LongType()), "y": of(a=DoubleType())})


@pytest.mark.parametrize(
    ("spark", "package"),
    [("3.5.9", "2.12:3.5.9"), ("4.1.4", "2.13:4.1.1"), ("4.3.0", "2.13:4.2.0"), ("5.0", "2.13:4.2.0")],
)
def test_each_spark_has_the_package_of_its_scala(spark: str, package: str) -> None:
    assert avro_package(spark) == f"org.apache.spark:spark-avro_{package}"


def test_a_session_that_is_started_for_avro_brings_its_package() -> None:
    assert format_of("avro").session_settings() == {"spark.jars.packages": avro_package(pyspark.__version__)}
    assert format_of("csv").session_settings() == {}
