"""A program with a session of its own: Ctrl-C, for which pyspark has set a handler, and a JVM that stands still."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
import sparksplit
from sparksplit.spark import executors, jvm, session

os.environ["PYSPARK_PYTHON"] = sys.executable
folder = Path(sys.argv[1])
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
before = signal.getsignal(signal.SIGINT)

def slow(batches):
    for batch in batches:
        (folder / "begun").touch()
        time.sleep(4)  # Spark does not always end the Python of a cancelled task: it then holds the slot so long
        yield batch

def press():
    while not (folder / "begun").exists():
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

rows = spark.range(9).selectExpr("double(id) x", "cast(id % 2 as int) y").mapInArrow(slow, "x double, y int")
threading.Thread(target=press, daemon=True).start()
try:
    sparksplit.preprocess(rows, f"{folder}/out", input={"label": "y"})
except KeyboardInterrupt:
    print("stopped", spark.range(5).count(), signal.getsignal(signal.SIGINT) is before, os.listdir(folder))

# Waiting for an executor, which a local master never has.
jvm.SILENCE, jvm.LOOK = 1.0, 0.2
java = spark.sparkContext._gateway.proc
threading.Timer(1, os.kill, [java.pid, signal.SIGSTOP]).start()
try:
    with session.spark_session("inner", 1) as inner:
        executors.await_executors(inner.sparkContext, 1, executors.Problem("nodes", "1"), executors.Patience())
except sparksplit.SparksplitError as error:
    print(error)
finally:
    java.kill()
"""


@pytest.mark.slow
def test_a_program_is_stopped_and_its_session_lives_on_until_its_jvm_stands_still(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"{tmp_path}"], check=False, capture_output=True, text=True, cwd=Path.cwd()
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "stopped 5 True ['begun']", done.stderr
    assert lines[1].startswith("Spark's JVM does not answer: it is stopped, or"), done.stderr
