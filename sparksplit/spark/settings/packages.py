"""Spark's packages: Spark downloads a session's packages as it starts, and its output is held back meanwhile."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sparksplit.base.errors import RunError
from sparksplit.base.shown import ERR

KEY = "spark.jars.packages"
_ELSEWHERE = ("spark.jars", KEY, "spark.driver.extraClassPath")
_NOT_FOUND = re.compile(r"unresolved dependency: ([^\]]+)")


def wanted(packages: str, configured: Mapping[str, str], jars: Sequence[str]) -> str:
    """Return the value of `spark.jars.packages` that adds `packages` (group:artifact:version, separated by commas) to
    those that the user has `configured`. "" if there are none.

    Packages that are there already are left out: in Spark's own `jars` (file names), or in the configuration.
    """
    there = [*jars, *(part for key in _ELSEWHERE for part in configured.get(key, "").split(","))]
    more = [one for one in packages.split(",") if one and not any(one.split(":")[1] in part for part in there)]
    return ",".join([*filter(None, [configured.get(KEY)]), *more])


def launch() -> Any:
    """Start Spark's JVM like pyspark, with packages to download. Hold back the output until the JVM runs.

    Raise RunError if a package cannot be downloaded.
    """
    from pyspark.java_gateway import launch_gateway

    read, write = os.pipe()
    held = _Held(read)
    try:
        return launch_gateway(None, {"stdout": write, "stderr": write})  # type: ignore[no-untyped-call]
    except Exception:
        os.close(write)
        write = -1
        text = held.all()
        if match := _NOT_FOUND.search(text):
            raise RunError(
                f"{_coordinates(match[1])} could not be downloaded from Maven Central. Without a "
                "network, list the jar in spark.jars, or copy it into Spark's jars folder"
            ) from None
        print(text, end="", file=ERR)
        raise
    finally:
        held.show()
        if write >= 0:
            os.close(write)


def _coordinates(text: str) -> str:
    """Turn Ivy's `group#artifact;version: not found` into `group:artifact:version`."""
    return re.sub("[#;]", ":", text.split(": ", maxsplit=1)[0])


class _Held:
    """Reads a pipe. The text is held back at first, and later shown on this process's stderr."""

    def __init__(self, descriptor: int) -> None:
        self._lines: list[str] = []
        self._shown = False
        self._thread = threading.Thread(target=self._run, args=(descriptor,), name="Spark's stderr", daemon=True)
        self._thread.start()

    def _run(self, descriptor: int) -> None:
        with os.fdopen(descriptor, errors="replace") as stream:
            for line in stream:
                if self._shown:
                    print(line, end="", file=ERR, flush=True)
                else:
                    self._lines.append(line)

    def all(self) -> str:
        """Return everything after the writer has ended."""
        self._thread.join(5.0)
        return "".join(self._lines)

    def show(self) -> None:
        """Show all further text."""
        self._shown = True


def spark_jars(home: str) -> list[str]:
    """Return the file names of the jars of the Spark in the folder `home`."""
    return [file.name for file in (Path(home) / "jars").glob("*.jar")]
