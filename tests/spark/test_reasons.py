"""The one line of Spark's errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import PeerLost
from sparksplit.spark.reasons import LONGEST, executor_error, is_raised, setting_at_fault, spark_reason

CALLED = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n: "
ABORTED = "org.apache.spark.SparkException: Job aborted due to stage failure: "
LOST = (
    f"{CALLED}{ABORTED}Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0 (TID 9) "
    "(10.0.0.3 executor 2): ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: "
    "Container killed by YARN for exceeding memory limits.\nDriver stacktrace:\n\tat org.apache.spark.x(Y.scala:1)"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"{CALLED}{ABORTED}Task 0 in stage 0.0 failed ...: org.apache.spark.api.python.PythonException: "
            "Traceback (most recent call last):\n  File 'x.py'\nModuleNotFoundError: No module named 'training'\n\n"
            "\tat org.apache.spark.y(Z.scala:1)",
            "a task failed: ModuleNotFoundError: No module named 'training'; ship the package with --py-files, or "
            "install it on the executors",
        ),
        (
            f"{CALLED}{ABORTED}Task 1 in stage 0.0 failed ...: org.apache.spark.api.python.PythonException: "
            "Traceback (most recent call last):\n  File 'x.py'\nModuleNotFoundError: No module named 'hdfs_io'\n\n"
            "\tat org.apache.spark.y(Z.scala:1)",
            "a task failed: ModuleNotFoundError: No module named 'hdfs_io': the executors' Python has no sparksplit. "
            "Before the Spark session starts, set PYSPARK_PYTHON to a Python that has it, or ship sparksplit with "
            "--py-files sparksplit.zip (sparksplit package)",
        ),
        (
            "Traceback (most recent call last):\n  File 'x.py'\n"
            "hdfs_io.errors.RunError: /data/x: cannot be written: No space left on device\n\n\tat z",
            "a task failed: /data/x: cannot be written: No space left on device",
        ),
        (
            "Traceback (most recent call last):\n  a\nOSError: first\n\nThe above exception was the direct cause:\n\n"
            "Traceback (most recent call last):\n  b\nsparksplit.base.errors.RunError: what we made of it\n\n\tat z",
            "a task failed: what we made of it",
        ),
        (
            f"{CALLED}org.apache.spark.SparkException: Job 3 cancelled part of x\n\tat y",
            "Job 3 cancelled part of x",
        ),
        (
            "org.apache.hadoop.hive.ql.metadata.HiveException: java.lang.RuntimeException: Unable to instantiate "
            "org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClient",
            "the Hive metastore does not answer. Check that it runs at the address in hive.metastore.uris",
        ),
        (LOST, "executor 2 on 10.0.0.3 was lost: Container killed by YARN for exceeding memory limits"),
        (
            f"{CALLED}java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n"
            "This stopped SparkContext was created at:\n\norg.apache.x",
            "the application ended by itself: its master, or the connection to the master, was lost",
        ),
        (
            "[PATH_NOT_FOUND] It is not there: file:/nowhere.",
            "[PATH_NOT_FOUND] It is not there: file:/nowhere.",
        ),
        ("", "no reason was given"),
    ],
)
def test_the_first_cause_is_one_line(text: str, line: str) -> None:
    assert spark_reason(text) == line


@given(st.text(max_size=300))
def test_any_text_gives_one_line(text: str) -> None:
    for full in (text, CALLED + ABORTED + text, f"Traceback (most recent call last):\n{text}"):
        line = spark_reason(full)
        assert line and len(line.splitlines()) <= 1 and len(line) <= LONGEST + len("a task failed: ")


def test_a_python_that_is_not_there_is_named_with_the_key() -> None:
    text = (
        'java.io.IOException: Cannot run program "/nowhere/python": error=2, No such file or directory\n\tat java.x(Y)'
    )
    assert spark_reason(f"{CALLED}{ABORTED}Could not recover. Most recent failure reason: {text}") == (
        "an executor cannot run /nowhere/python (No such file or directory): set PYSPARK_PYTHON, or with spark-submit"
        " spark.pyspark.python, to a Python that every host has"
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Cannot assign requested address: Service 'sparkDriver' failed after 16 retries",
            "spark.driver.bindAddress: is not an address of this machine (is 10.9.8.7)",
        ),
        (
            "A secret key must be specified via the spark.authenticate.secret config.",
            "spark.authenticate.secret: is missing, and spark.authenticate is true",
        ),
        (
            "File file:/nowhere does not exist",
            "spark.eventLog.dir: file:/nowhere does not exist: make the folder, or set spark.eventLog.enabled to false",
        ),
        ("File file:/other does not exist", None),
    ],
)
def test_a_setting_with_which_spark_does_not_start_is_named(text: str, found: str | None) -> None:
    settings = {"spark.driver.bindAddress": "10.9.8.7", "spark.eventLog.dir": "file:/nowhere"}
    assert setting_at_fault(text, settings) == found


HEADER = 'Spark Executor Command: "java" "-cp" "x"\n========================================\n\n'


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            "Error occurred during initialization of VM\nCould not find agent library nosuch\nModule java.base\n",
            "Error occurred during initialization of VM; Could not find agent library nosuch",
        ),
        (
            f'{HEADER}26/11/25 WARN x: y\nException in thread "main" java.lang.reflect.UndeclaredThrowableException\n'
            "\tat a.b(C.java:1)\nCaused by: org.apache.spark.SparkException: thrown in awaitResult\n\t... 4 more\n"
            "Caused by: java.net.UnknownHostException: gateway\n\tat a.b(C.java:2)\n",
            "gateway",
        ),
        ("Could not reserve enough space\n", "Could not reserve enough space"),
        (HEADER, None),
        ("", None),
    ],
)
def test_what_an_executor_said_last(log, line):
    assert executor_error(log) == line


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        ("Traceback (most recent call last):\n  a\nsparksplit.base.errors.PeerLost: node 1 has gone\n\tat x", True),
        ("Traceback (most recent call last):\n  a\nValueError: sparksplit.base.errors.PeerLost: no\n", False),
        ("Traceback (most recent call last):\n  a\nmysparksplit.base.errors.PeerLost: no\n", False),
        ("PeerLost: node 1 has gone", False),
    ],
)
def test_an_error_is_known_by_its_class_at_the_beginning_of_a_line(text: str, raised: bool) -> None:
    assert is_raised(PeerLost, text) is raised
