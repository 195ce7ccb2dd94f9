"""Start Spark's JVM. Its settings are passed in a file that only this user can read and that is removed after reading.

pyspark would put the SparkConf's settings on the JVM's command line, which any user of the machine can read.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sparksplit.spark.settings import packages, properties
from sparksplit.spark.settings.user_settings import other_arguments


def launch(settings: Mapping[str, str], folder: Path) -> Any:
    """Start Spark's JVM with `settings`. They must include the user's settings, because Spark then does not read
    spark-defaults.conf.

    folder: for the file and for pyspark's own temporary files. Raise pyspark's error if the JVM does not start,
    RunError if a package is not found.
    """
    from pyspark.java_gateway import launch_gateway

    file = folder / "spark.properties"
    spark = {key: value for key, value in settings.items() if key.startswith("spark.")}
    file.touch(0o600, exist_ok=False)
    file.write_text(properties.written(spark), encoding="ascii")
    try:
        arguments = shlex.join(["--properties-file", str(file), *other_arguments()])
        with variables({"PYSPARK_SUBMIT_ARGS": arguments}), _temporary_files_in(folder):
            return packages.launch() if packages.KEY in spark else launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        file.unlink()


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """pyspark waits with a temporary folder for the JVM's port. If this process is killed then, a sweep of `folder`
    removes pyspark's folder too."""
    from pyspark import java_gateway

    module: Any = java_gateway
    module.tempfile = SimpleNamespace(mkdtemp=partial(tempfile.mkdtemp, dir=folder), mkstemp=tempfile.mkstemp)
    try:
        yield
    finally:
        module.tempfile = tempfile


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process while the context lasts."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
