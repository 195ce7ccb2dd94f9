"""What the user has told Spark, read before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.spark.settings.user_settings import configured, other_arguments


@pytest.fixture
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path / "spark-defaults.conf"


def test_the_files_values_are_trimmed_as_spark_trims_them(defaults: Path) -> None:
    defaults.write_text("spark.a  b \\\n  c \nspark.hadoop.path C:\\\\x\n", encoding="utf-8")
    assert configured() == {"spark.a": "b c", "spark.hadoop.path": "C:\\x"}
    assert other_arguments() == ["pyspark-shell"]


def test_options_that_are_settings_go_before_the_file(defaults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults.write_text("spark.master yarn\nspark.a file\nspark.b file\n", encoding="utf-8")
    monkeypatch.setenv("MASTER", "local[1]")
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS",
        "--master=spark://h:1 --conf spark.a='b c=d' --jars x.jar -c spark.master=none --executor-memory 2g "
        "--conf=spark.e= pyspark-shell --conf",
    )
    assert configured() == {
        "spark.master": "spark://h:1",
        "spark.a": "b c=d",
        "spark.b": "file",
        "spark.executor.memory": "2g",
        "spark.e": "",
    }
    assert other_arguments() == ["--jars", "x.jar", "pyspark-shell"]


def test_a_properties_file_replaces_the_defaults(defaults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults.write_text("spark.a defaults\n", encoding="utf-8")
    own = defaults.with_name("own.conf")
    own.write_text("spark.b own\n", encoding="utf-8")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {own} pyspark-shell")
    assert configured() == {"spark.b": "own"}
    assert other_arguments() == ["pyspark-shell"]


def test_an_option_that_says_the_same_as_a_key_goes_before_the_file(
    defaults: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults.write_text("spark.yarn.queue default\nspark.driver.extraJavaOptions -Dfile\n", encoding="utf-8")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--queue night --driver-java-options '-Da -Db' pyspark-shell")
    assert configured() == {"spark.yarn.queue": "night", "spark.driver.extraJavaOptions": "-Da -Db"}
    assert other_arguments() == ["pyspark-shell"]


def test_a_properties_file_that_is_not_there_is_named(defaults: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark does, rather than start with other settings, on another cluster."""
    defaults.write_text("spark.master yarn\n", encoding="utf-8")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--properties-file /nowhere/own.conf pyspark-shell")
    with pytest.raises(ConfigError, match=r"^PYSPARK_SUBMIT_ARGS: --properties-file /nowhere/own\.conf: file not"):
        configured()
