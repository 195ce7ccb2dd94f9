"""The Java of the tests: JVMs that find Spark's classes parsed and verified, as an earlier JVM has left them.

A short Spark session computes half as long with them (measured: 30 and 16 s). `python -m tests.java` makes the archive
once for each checkout, Java and pyspark (Java's "application class data sharing"). Tests run without an archive too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from sparksplit.base.errors import ConfigError
from sparksplit.spark.settings.java import java_home

_FOLDER = Path(__file__).parent.parent / "build" / "tests-java"
_SPARK = Path(pyspark.__file__).parent
_FLAGS = "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:ArchiveClassesAtExit="
_SECONDS = 120.0

# java_home() asks Java itself where it is; the answer must be this folder. The archive fits one class path alone, and a
# session of ours has one of its own, through a link. A mismatch is silent: `-Xlog:disable`.
_SCRIPT = """#!/bin/sh
if [ "$1" = -XshowSettings:properties ]; then
  {java} "$@" 2>&1 | sed 's|java.home = .*|java.home = {home}|' >&2
  exit
fi
for argument; do
  shift
  case $argument in
    {spark}/conf:*/sparksplit-session-*/spark/jars/\\* | {spark}/conf/:{spark}/jars/\\*) argument={spark}/jars/\\* ;;
  esac
  set -- "$@" "$argument"
done
[ ! -e {archive} ] || set -- -XX:SharedArchiveFile={archive} -Xlog:disable "$@"
exec {java} "$@"
"""


def use_shared_classes() -> None:
    """Let all processes of this one start JVMs with the archive, if there is one."""
    if Path(os.environ.get("JAVA_HOME", "")).parent == _FOLDER:
        return  # a worker, or a test's own pytest
    try:
        java = Path(java_home())
    except ConfigError:
        return  # the tests that need a Java say so
    home = _home(java)
    if _is_whole(home):
        os.environ["JAVA_HOME"] = str(home)


def main() -> int:
    """Make the archive, unless it is there, cannot be made, or another process makes it."""
    java = Path(java_home())
    home = _home(java)
    if not (java / "lib" / "server" / "classes.jsa").exists():
        print(f"{java} has no archive of its own classes, on which one of Spark's could build")
        return 0
    if not re.fullmatch(r"[\w./-]+", f"{home}{java}{_SPARK}"):
        print(f"{home}: no archive of Spark's classes: a path has characters that would need quoting")
        return 0
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock, tempfile.TemporaryDirectory() as folder:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        if not _is_whole(home):
            _make(home, java, folder)
    return 0


def _home(java: Path) -> Path:
    """The JAVA_HOME with the archive for this Java and the jars of this pyspark."""
    files = [java / "release", java / "lib" / "server" / "libjvm.so", *sorted((_SPARK / "jars").glob("*.jar"))]
    facts = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.exists()]
    return _FOLDER / hashlib.sha256(repr(facts).encode()).hexdigest()[:8]


def _is_whole(home: Path) -> bool:
    """Whether the archive has its full size: a truncated one ends every JVM."""
    try:
        return (home / "size").read_text() == str((home / "spark.jsa").stat().st_size)
    except OSError:
        return False


def _make(home: Path, java: Path, folder: str) -> None:
    archive, unfinished = home / "spark.jsa", home / "unfinished.jsa"
    (home / "bin").mkdir(exist_ok=True)
    for entry in java.iterdir():
        if entry.name != "bin" and not (home / entry.name).is_symlink():
            (home / entry.name).symlink_to(entry)
    script = home / "bin" / "java"
    script.write_text(_SCRIPT.format(java=java / "bin" / "java", home=home, spark=_SPARK, archive=archive))
    script.chmod(0o755)
    for file in (archive, unfinished):
        file.unlink(missing_ok=True)
    os.environ |= {"JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    if _record(unfinished, folder) != 0:
        return
    check = [str(java / "bin" / "java"), "-Xshare:on", f"-XX:SharedArchiveFile={unfinished}", "-Xlog:disable"]
    check += ["-cp", f"{_SPARK}/jars/*", "-version"]
    if subprocess.run(check, capture_output=True, timeout=_SECONDS, check=False).returncode == 0:
        (home / "size").write_text(str(unfinished.stat().st_size))
        unfinished.rename(archive)


def _record(archive: Path, folder: str) -> int:
    """Run what most tests need of Spark, in one JVM that writes its classes to `archive` when it ends; its status."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in (
        ("spark.driver.extraJavaOptions", f"{_FLAGS}{archive}"),
        ("spark.sql.execution.arrow.pyspark.enabled", "true"),
        ("spark.sql.shuffle.partitions", "4"),
    ):
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = spark.range(1000).selectExpr("id as a", "cast(id as double) as b", "cast(id as string) as c")
    for form in ("csv", "json", "parquet", "orc"):
        rows.write.format(form).save(f"{folder}/{form}")
        spark.read.format(form).load(f"{folder}/{form}").count()
    spark.read.option("inferSchema", "true").csv(f"{folder}/csv").count()
    spark.read.format("binaryFile").load(f"{folder}/csv").count()
    spark.read.text(f"{folder}/csv").count()
    stored = spark.read.parquet(f"{folder}/parquet")
    mapped = stored.repartition(4).mapInArrow(lambda batches: batches, "a long, b double, c string")
    mapped.groupBy("a").agg(F.sum("b"), F.count("*")).sort("a").write.parquet(f"{folder}/sums")
    stored.join(spark.read.parquet(f"{folder}/sums"), "a").toPandas()
    spark.createDataFrame([(1, 2.0)], ["a", "b"]).collect()
    spark.sparkContext.parallelize(range(10), 4).map(lambda number: number + 1).collect()
    spark.stop()
    gateway = SparkContext._gateway.proc
    gateway.stdin.close()
    try:
        status: int = gateway.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.kill()
        return gateway.wait()
    return status


if __name__ == "__main__":
    sys.exit(main())
