"""Java's properties files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sparksplit.spark.settings import properties

TRICKY = r"""
# a comment
  ! another, \
spark.a   b c
spark.b=c=d
spark.c : e
spark.d
spark.e\:f\=g\ h i
spark.f -Da=b \
    -Dc=d \

spark.g C:\\folder\\
spark.h caf\u00e9 \u20ac\
#no comment
spark.i=
spark.a last
=without a key
spark.j\tk \ trailing   """


def test_lines_are_read_as_java_reads_them() -> None:
    assert properties.read(TRICKY) == {
        "spark.a": "last",
        "spark.b": "c=d",
        "spark.c": "e",
        "spark.d": "",
        "spark.e:f=g h": "i",
        "spark.f": "-Da=b -Dc=d ",
        "spark.g": "C:\\folder\\",
        "spark.h": "café €#no comment",
        "spark.i": "",
        "": "without a key",
        "spark.j\tk": " trailing   ",
    }


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_every_end_of_a_line_counts(end: str) -> None:
    assert properties.read(end.join(["a 1", "b 2\\", "  3", ""])) == {"a": "1", "b": "23"}


TEXT = st.text(st.characters(codec="utf-8"))


@given(st.dictionaries(TEXT, TEXT, max_size=4))
def test_what_is_written_is_read_again(pairs: dict[str, str]) -> None:
    text = properties.written(pairs)
    assert text.isascii()
    assert properties.read(text) == pairs


def test_java_agrees(spark: SparkSession) -> None:
    def in_java(text: str) -> dict[str, str]:
        found = spark._jvm.java.util.Properties()
        found.load(spark._jvm.java.io.StringReader(text))
        return dict(found)

    assert in_java(TRICKY) == properties.read(TRICKY)
    pairs = {"spark.a b": " c\\d=\t\n#!:", "é": "€ 😀", "=": ""}
    assert in_java(properties.written(pairs)) == pairs
