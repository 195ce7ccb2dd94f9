"""Packages that Spark is to fetch: which, and what is said where it cannot."""

from __future__ import annotations

import shutil

import pytest

from sparksplit.spark.settings import packages
from tests.logs import without_times
from tests.packages import AVRO, avro_jar, in_session

NAME = AVRO.split(":")[1]  # with the Scala of this Spark


@pytest.mark.parametrize(
    ("configured", "jars", "wanted"),
    [
        ({}, ["spark-core_2.12-3.5.9.jar"], AVRO),
        ({}, [f"{NAME}-3.5.1.jar"], ""),
        ({"spark.jars": f"/some/{NAME}-3.5.1.jar"}, [], ""),
        (
            {"spark.jars.packages": f"org.apache.spark:{NAME}:3.5.1"},
            [],
            f"org.apache.spark:{NAME}:3.5.1",
        ),
        ({"spark.jars.packages": "com.acme:roadrunner:1.0"}, [], f"com.acme:roadrunner:1.0,{AVRO}"),
    ],
)
def test_packages_that_are_there_are_not_fetched(configured, jars, wanted):
    assert packages.wanted(AVRO, configured, jars) == wanted
    assert packages.wanted("", configured, jars) == configured.get("spark.jars.packages", "")


@pytest.mark.slow
def test_a_session_brings_its_packages_beside_the_users_jars_and_says_nothing_of_it(tmp_path):
    fetched, own = avro_jar(), tmp_path / "own.jar"
    shutil.copy(fetched, own)
    there = "print(spark.sparkContext._jsc.sc().listJars().mkString(' '))"
    ended = in_session(f"print(spark.read.format('avro').load([], schema='a int').count()); {there}", AVRO, str(own))
    assert (ended.returncode, ended.stdout[:2]) == (0, "0\n")
    assert {jar.rpartition("/")[2] for jar in ended.stdout[2:].split()} >= {"own.jar", fetched.name}
    said = [line for line in without_times(ended.stderr).splitlines() if not line.startswith("waiting for Spark")]
    assert said == ["Starting Spark on this machine: local-cluster[1,1,1024]"]


@pytest.mark.slow
def test_a_package_that_cannot_be_fetched_is_named_in_one_line():
    ended = in_session("pass", "org.apache.spark:spark-avro_2.12:3.5.99")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "hdfs_io.errors.RunError: Spark did not start: org.apache.spark:spark-avro_2.12:3.5.99 could not be "
        "downloaded from Maven Central. Without a network, list the jar in spark.jars, or copy it into Spark's "
        "jars folder"
    )


@pytest.mark.slow
def test_a_session_without_a_package_is_told_what_to_add(tmp_path):
    """In a session of its own: other tests bring the package to the one that tests share."""
    (tmp_path / "a.avro").write_bytes(b"Obj")
    code = f"""
    from sparksplit.prepare.preprocess_config import InputConfig
    from sparksplit.prepare.sources import open_with_spark
    open_with_spark(spark, InputConfig(format="avro", path="{tmp_path}/a.avro", label="y"))
"""
    ended = in_session(code.strip(), "")
    assert ended.stderr.splitlines()[-1] == (
        "sparksplit.base.errors.ConfigError: format: avro needs a package that this Spark does not have; "
        f"add --packages {AVRO}"
    )
