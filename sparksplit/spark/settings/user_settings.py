"""The user's settings for Spark, from spark-submit, or from the files and variables that Spark itself reads."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from sparksplit.base.errors import ConfigError
from sparksplit.spark.settings import properties

_KEYS = {
    "--master": "spark.master",
    "--remote": "spark.remote",
    "--deploy-mode": "spark.submit.deployMode",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-cores": "spark.driver.cores",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-library-path": "spark.driver.extraLibraryPath",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--total-executor-cores": "spark.cores.max",
    "--packages": "spark.jars.packages",
    "--exclude-packages": "spark.jars.excludes",
    "--repositories": "spark.jars.repositories",
    "--queue": "spark.yarn.queue",
    "--principal": "spark.kerberos.principal",
    "--keytab": "spark.kerberos.keytab",
}
"""Options of spark-submit that set a key. Without this table, the file's value of the key would be set after Spark has
read the option, and would replace it.
"""
_CONF, _FILE = ("--conf", "-c"), "--properties-file"


def submitted() -> bool:
    """Whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def configured() -> dict[str, str]:
    """Return the user's keys and values. They are read here, not by Spark, so that a wrong setting is found before a
    JVM runs.

    Raise ConfigError if a properties file is named but does not exist.
    """
    if submitted():
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()  # connects to spark-submit's JVM
        settings = dict(SparkConf().getAll())
        if settings.get("spark.app.name") == Path(sys.argv[0]).name:
            del settings["spark.app.name"]  # spark-submit's default
        return settings
    options, _ = _submit_arguments()
    files = [Path(value) for option, value in options if option == _FILE]
    if files and not files[-1].is_file():
        raise ConfigError(
            f"PYSPARK_SUBMIT_ARGS: {_FILE} {files[-1]}: file not found; give the path of an existing file"
        )
    settings = read_defaults(files[-1] if files else conf_folder() / "spark-defaults.conf")
    if "MASTER" in os.environ:
        settings.setdefault("spark.master", os.environ["MASTER"])
    for option, value in options:
        key, equals, text = value.partition("=")
        if option in _CONF and equals:
            settings[key] = text
    return settings | {_KEYS[option]: value for option, value in options if option in _KEYS}


def other_arguments() -> list[str]:
    """Return the arguments in PYSPARK_SUBMIT_ARGS that `configured` does not cover."""
    return _submit_arguments()[1]


def conf_folder() -> Path:
    """Return the folder of Spark's configuration files."""
    home = os.environ.get("SPARK_HOME") or pyspark_home()
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf")


def pyspark_home() -> str:
    """Return the Spark that belongs to the imported pyspark, regardless of SPARK_HOME: the two versions must agree."""
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    package = Path(pyspark.__file__).parent
    return str(package) if (package / "jars").is_dir() else str(_find_spark_home())  # type: ignore[no-untyped-call]


def read_defaults(file: Path) -> dict[str, str]:
    """Return the keys and values of a spark-defaults.conf; {} if the file does not exist."""
    if not file.is_file():
        return {}
    defaults = properties.read(file.read_text(encoding="utf-8"))
    return {key: value.strip(" \t\f") for key, value in defaults.items()}  # as Spark does


def _submit_arguments() -> tuple[Sequence[tuple[str, str]], list[str]]:
    """Split PYSPARK_SUBMIT_ARGS into the options that are settings, with their values, and the other words."""
    options, others = [], []
    words = iter(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")))
    for word in words:
        option, equals, value = word.partition("=")
        if option in (*_KEYS, *_CONF, _FILE):
            options.append((option, value if equals else next(words, "")))
        else:
            others.append(word)
    return options, others
