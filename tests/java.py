"""The Java of the tests: JVMs that find Spark's classes parsed and verified, as an earlier JVM has left them.

A short Spark session computes half as long with them (measured: 30 and 16 s). `python -m tests.java` makes the archive
once for each checkout and Java (Java's "application class data sharing"). Tests run without an archive too, and a JVM
ignores one that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from sparksplit.spark.settings.java import java_home

# java_home() asks Java itself where it is; the answer must be this folder. The archive fits one class path alone, and a
# session of ours has one of its own, through a link. A mismatch is silent: `-Xlog:disable`.
_SCRIPT = """#!/bin/sh
if [ "$1" = -XshowSettings:properties ]; then
  {java} "$@" 2>&1 | sed 's|java.home = .*|java.home = '{home}'|' >&2
  exit
fi
for argument; do
  shift
  case $argument in
    {conf}:*/sparksplit-session-*/spark/jars/\\* | {conf}/:{jars}/\\*) argument={jars}/\\* ;;
  esac
  set -- "$@" "$argument"
done
[ ! -e {archive} ] || set -- -XX:SharedArchiveFile={archive} -Xlog:disable "$@"
exec {java} "$@"
"""

_FOLDER = Path(__file__).parent.parent / "build" / "tests-java"
_FLAGS = "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:ArchiveClassesAtExit="


def use_shared_classes() -> None:
    """Let all processes of this one start JVMs with the archive, if there is one."""
    if Path(os.environ.get("JAVA_HOME", "")).parent == _FOLDER:
        return  # a worker, or a test's own pytest
    home = _home()
    if _archive(home).exists():
        os.environ["JAVA_HOME"] = str(home)


def main() -> int:
    """Make the archive, unless it is there."""
    home = _home()
    if _archive(home).exists():
        return 0
    java = Path(java_home())
    (home / "bin").mkdir(parents=True, exist_ok=True)
    for entry in java.iterdir():
        link = home / entry.name
        if entry.name != "bin" and not link.is_symlink():
            link.symlink_to(entry)
    script = home / "bin" / "java"
    spark = Path(pyspark.__file__).parent
    paths = {"java": java / "bin" / "java", "archive": _archive(home), "conf": spark / "conf", "jars": spark / "jars"}
    script.write_text(_SCRIPT.format(home=home, **{name: shlex.quote(str(path)) for name, path in paths.items()}))
    script.chmod(0o755)
    unfinished = home / "unfinished.jsa"
    unfinished.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"JAVA_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
        _record(unfinished, folder)
    if not unfinished.exists():
        print(f"test: {java} left no archive of Spark's classes; its JVMs start without one")
        return 0
    unfinished.rename(_archive(home))
    return 0


def _home() -> Path:
    """The JAVA_HOME with the archive for this pyspark's jars and the Java that Spark would take."""
    place = f"{Path(pyspark.__file__).parent} {pyspark.__version__} {java_home()}"
    return _FOLDER / hashlib.sha256(place.encode()).hexdigest()[:8]


def _archive(home: Path) -> Path:
    return home / "spark.jsa"


def _record(archive: Path, folder: str) -> None:
    """Run what most tests need of Spark, in one JVM that writes its classes to `archive` when it ends."""
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
        gateway.wait(120)
    except subprocess.TimeoutExpired:
        gateway.kill()


if __name__ == "__main__":
    sys.exit(main())
