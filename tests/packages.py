"""Spark's package for Avro, fetched once for each user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from sparksplit.prepare.formats import avro_package
from tests.caches import caches, locked

AVRO = avro_package(pyspark.__version__)
_SECONDS = 300.0
_ROOT = Path(__file__).resolve().parent.parent


def ivy() -> Path:
    """Where Spark's resolver keeps what it fetches for tests."""
    return caches() / "ivy"


def avro_jar() -> Path:
    """Its jar, fetched by a session of our own if this user has not got it."""
    group, artifact, version = AVRO.split(":")
    jar = ivy() / "jars" / f"{group}_{artifact}-{version}.jar"
    if not jar.is_file():
        caches().mkdir(parents=True, exist_ok=True)
        with locked(caches() / "ivy.lock", _SECONDS):
            if not jar.is_file():
                in_session("print(spark.version)", AVRO)
    return jar


def in_session(code: str, packages: str, jars: str = "") -> subprocess.CompletedProcess[str]:
    """Run `code` in a new process, with `spark`, a session that brings `packages`. jars: the user's own"""
    settings = {"spark.jars.packages": packages, "spark.jars.ivy": str(ivy())} | ({"spark.jars": jars} if jars else {})
    program = f"""
from sparksplit.spark.session import spark_session
with spark_session("packages", 1, {settings!r}, nodes=False) as spark:
    {code}
"""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        text=True,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
    )
