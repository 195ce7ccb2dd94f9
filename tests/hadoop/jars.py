"""Hadoop's jars from Maven Central, fetched once for each user with the Ivy that pyspark brings."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyspark

from tests.caches import Unavailable, caches, locked
from tests.hadoop.processes import Kept

VERSION = "3.4.2"

_ARTIFACTS = (
    "hadoop-common",
    "hadoop-hdfs",
    "hadoop-hdfs-client",
    "hadoop-yarn-client",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-timelineservice",  # the ResourceManager loads its classes, and declares no dependency
)
_FETCH_SECONDS = 900.0  # 171 jars, 89 MB, one after the other


def fetch(java_home: str) -> Path:
    """The folder with the jars of Hadoop and all that they need, fetched if this user has not got it.

    Raises Unavailable where they cannot be fetched.
    """
    cache = caches()
    folder = cache / f"hadoop-{VERSION}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f"hadoop-{VERSION}.lock", _FETCH_SECONDS):
        if not folder.is_dir():  # another process may have fetched them meanwhile
            # Ivy's own cache stays after an interrupted fetch: the next one goes on from there.
            unfinished, ivy = cache / f"hadoop-{VERSION}.unfinished", cache / f"hadoop-{VERSION}.ivy"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            _retrieve(java_home, unfinished, ivy)
            (unfinished / "jars").rename(folder)
            shutil.rmtree(unfinished)
            shutil.rmtree(ivy)
    return folder


def _retrieve(java_home: str, folder: Path, cache: Path) -> None:
    """Fetch the jars into `folder`/jars."""
    found = list(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise Unavailable("pyspark has no jars/ivy-*.jar to fetch Hadoop's jars with: install pyspark from PyPI")
    (folder / "ivy.xml").write_text(_ivy_module())
    # Packagings other than "jar" that are jars all the same.
    command = [f"{java_home}/bin/java", "-jar", str(found[0]), "-ivy", str(folder / "ivy.xml"), "-cache", str(cache)]
    command += ["-types", "jar", "bundle", "maven-plugin"]
    command += ["-retrieve", f"{folder}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    ivy = Kept(folder, command, folder / "ivy.log", dict(os.environ))
    try:
        status = ivy.wait(_FETCH_SECONDS)
    except TimeoutError:
        raise Unavailable(f"Hadoop's jars did not arrive from Maven Central in {_FETCH_SECONDS:.0f} s") from None
    finally:
        ivy.stop()
    if status != 0:
        reason = _reason(folder / "ivy.log")
        raise Unavailable(f"Hadoop's jars could not be fetched from Maven Central (is there a network?): {reason}")


def _reason(log: Path) -> str:
    """The first error in Ivy's log; it goes on for pages."""
    errors = (line.strip() for line in log.read_text(errors="replace").splitlines() if "error" in line.lower())
    return next((line for line in errors if not line.startswith("::")), f"see {log}")


def _ivy_module() -> str:
    dependencies = "".join(
        f'<dependency org="org.apache.hadoop" name="{name}" rev="{VERSION}"/>' for name in _ARTIFACTS
    )
    return (
        '<ivy-module version="2.0"><info organisation="sparksplit" module="tests"/>'
        '<configurations><conf name="default"/></configurations>'
        f'<dependencies defaultconf="default->default">{dependencies}</dependencies></ivy-module>'
    )
