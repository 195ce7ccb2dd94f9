"""Packages that Spark is to fetch: which, and what is said where it cannot."""

from __future__ import annotations

import pytest

from sparksplit.base import packages

AVRO = "org.apache.spark:spark-avro_2.12:3.5.9"


@pytest.mark.parametrize(
    ("configured", "jars", "wanted"),
    [
        ({}, ["spark-core_2.12-3.5.9.jar"], AVRO),
        ({}, ["spark-avro_2.12-3.5.1.jar"], ""),
        ({"spark.jars": "/some/spark-avro_2.12-3.5.1.jar"}, [], ""),
        (
            {"spark.jars.packages": "org.apache.spark:spark-avro_2.12:3.5.1"},
            [],
            "org.apache.spark:spark-avro_2.12:3.5.1",
        ),
        ({"spark.jars.packages": "com.acme:roadrunner:1.0"}, [], f"com.acme:roadrunner:1.0,{AVRO}"),
    ],
)
def test_packages_that_are_there_are_not_fetched(configured, jars, wanted):
    assert packages.wanted(AVRO, configured, jars) == wanted
    assert packages.wanted("", configured, jars) == configured.get("spark.jars.packages", "")
