"""What the user has told Spark: through spark-submit, or in the files and variables that Spark itself would read."""

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
"""Options of spark-submit that say the same as a key. Its value in the file would otherwise be set after Spark has read
the option, and so replace it."""
_CONF, _FILE = ("--conf", "-c"), "--properties-file"


def submitted() -> bool:
    """Whether spark-submit started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def configured() -> dict[str, str]:
    """Keys and values. Read here rather than asked of Spark, so that a wrong setting is known before a JVM runs.

    Raises ConfigError for a properties file that is named and is not there.
    """
    if submitted():
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()  # connects to spark-submit's JVM
        found = dict(SparkConf().getAll())
        if found.get("spark.app.name") == Path(sys.argv[0]).name:
            del found["spark.app.name"]  # spark-submit's default
        return found
    options, _ = _submit_arguments()
    files = [Path(value) for option, value in options if option == _FILE]
    if files and not files[-1].is_file():
        raise ConfigError(
            f"PYSPARK_SUBMIT_ARGS: {_FILE} {files[-1]}: file not found; give the path of an existing file"
        )
    found = read_defaults(files[-1] if files else conf_folder() / "spark-defaults.conf")
    if "MASTER" in os.environ:
        found.setdefault("spark.master", os.environ["MASTER"])
    for option, value in options:
        key, equals, text = value.partition("=")
        if option in _CONF and equals:
            found[key] = text
    return found | {_KEYS[option]: value for option, value in options if option in _KEYS}


def other_arguments() -> list[str]:
    """What PYSPARK_SUBMIT_ARGS says to spark-submit beside what is `configured`."""
    return _submit_arguments()[1]


def conf_folder() -> Path:
    """Where Spark's configuration files are."""
    home = os.environ.get("SPARK_HOME") or pyspark_home()
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf")


def pyspark_home() -> str:
    """The Spark that belongs to the imported pyspark, whatever SPARK_HOME says: the two versions must agree."""
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    package = Path(pyspark.__file__).parent
    return str(package) if (package / "jars").is_dir() else str(_find_spark_home())  # type: ignore[no-untyped-call]


def read_defaults(file: Path) -> dict[str, str]:
    """The keys and values of a spark-defaults.conf; {} where there is no such file."""
    if not file.is_file():
        return {}
    found = properties.read(file.read_text(encoding="utf-8"))
    return {key: value.strip(" \t\f") for key, value in found.items()}  # as Spark does


def _submit_arguments() -> tuple[Sequence[tuple[str, str]], list[str]]:
    """Of PYSPARK_SUBMIT_ARGS: (the options that are settings, with their values; the other words)."""
    options, others = [], []
    words = iter(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")))
    for word in words:
        option, equals, value = word.partition("=")
        if option in (*_KEYS, *_CONF, _FILE):
            options.append((option, value if equals else next(words, "")))
        else:
            others.append(word)
    return options, others
