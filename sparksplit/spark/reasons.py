"""Reduce Spark's errors to one line: the first cause, without the wrapping by Python and Java. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping

STOPPED = "Cannot call methods on a stopped SparkContext"
"""Spark's error after it has stopped by itself, for any cause."""

NOT_TAKEN = (
    "cannot be reached, or refused the application. If either side sets spark.authenticate, both sides need the same"
    " spark.authenticate and spark.authenticate.secret"
)
"""Message about a standalone master that Spark could not use. Spark tries for a minute, and gives no reason."""

ENDED_BY_SPARK = ("Executor killed by driver.", "Executor decommission: spark scale down")
"""Spark's reasons for the end of an executor that dynamic allocation did not need any more."""

NO_METASTORE = "Unable to instantiate org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClient"
"""Spark's error if Hive's metastore does not answer."""

NO_PYTHON = re.compile(r'Cannot run program "(?P<program>[^"]+)"[^:]*: error=\d+, (?P<why>[^\n]+)')
"""Spark's error if an executor cannot start Python."""

LONGEST = 500
_LACKING = re.compile(r"^ModuleNotFoundError: No module named '(?P<package>\w+)")
_LACKING_HINT = (
    ": the executors' Python has no sparksplit. Before the Spark session starts, set PYSPARK_PYTHON to a Python that "
    "has it, or ship sparksplit with --py-files sparksplit.zip (sparksplit package)"
)
_OUR_OWN = re.compile(r"^(?:hdfs_io|sparksplit\.base)\.errors\.\w+: ")
_CALLED = re.compile(r"^An error occurred while calling \S+\s*: ", re.DOTALL)
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_LOST = re.compile(
    r"\((?P<host>\S+) executor \S+?\): ExecutorLostFailure \(executor (?P<id>\S+) .*?\)(?: Reason: (?P<reason>.*))?$",
    re.DOTALL,
)


_AT_START = (
    ("Cannot assign requested address", "spark.driver.bindAddress", "is not an address of this machine"),
    ("A secret key must be specified", "spark.authenticate.secret", "is missing, and spark.authenticate is true"),
    ("Failed to create any local dir", "spark.local.dir", "is not a writable folder"),
)


def setting_at_fault(text: str, settings: Mapping[str, str]) -> str | None:
    """Return `KEY: PROBLEM` for an error that kept Spark from starting. None if no single key is known as the cause."""
    events = settings.get("spark.eventLog.dir", "")
    if events and f"File {events} does not exist" in text:
        return f"spark.eventLog.dir: {events} does not exist: make the folder, or set spark.eventLog.enabled to false"
    for sign, key, what in _AT_START:
        if sign in text:
            return f"{key}: {what}{f' (is {settings[key]})' if key in settings else ''}"
    return None


def spark_reason(text: str) -> str:
    """Return the one line of a Spark error that gives the cause.

    Python function that failed in a task: the last line of its traceback.
    Lost executor: which executor, and why.
    Any other error: the text before the JVM's stack trace, without class names.
    """
    if NO_METASTORE in text:
        return "the Hive metastore does not answer. Check that it runs at the address in hive.metastore.uris"
    if missing := NO_PYTHON.search(text):
        return (
            f"an executor cannot run {missing['program']} ({missing['why'].strip()}): set PYSPARK_PYTHON, or with"
            " spark-submit spark.pyspark.python, to a Python that every host has"
        )[:LONGEST]
    text = text.split("\n\tat ", maxsplit=1)[0].strip()
    _, traceback, inner = text.rpartition("Traceback (most recent call last):")
    lines = [line for line in inner.splitlines() if line and not line[0].isspace()]
    if traceback and lines:
        return f"a task failed: {_OUR_OWN.sub('', lines[0])}{_hint(lines[0])}"[:LONGEST]
    if STOPPED in text:
        return "the application ended by itself: its master, or the connection to the master, was lost"
    text = text.partition("\nDriver stacktrace:")[0]
    if lost := _LOST.search(text):
        why = " ".join((lost["reason"] or "").split()).rstrip(".")
        return f"executor {lost['id']} on {lost['host']} was lost{': ' if why else ''}{why}"[:LONGEST]
    text = " ".join(_CALLED.sub("", text).split())
    return _JAVA_CLASS.sub("", text)[:LONGEST] or "no reason was given"


def _hint(raised: str) -> str:
    """What to do about the last line of a Python traceback, if an executor lacks a package."""
    if (lacking := _LACKING.match(raised)) is None:
        return ""
    if lacking["package"] in ("hdfs_io", "sparksplit"):
        return _LACKING_HINT
    return "; ship the package with --py-files, or install it on the executors"


def is_raised(kind: type[Exception], text: str) -> bool:
    """Whether a task raised `kind` itself. For a task's error, Spark passes on only the text of Python's traceback."""
    return re.search(rf"^\W*{re.escape(f'{kind.__module__}.{kind.__qualname__}')}: ", text, re.MULTILINE) is not None


def executor_error(log: str) -> str | None:
    """Return in one line why an executor ended, from the end of its standard error. None if the text does not say.

    It is the first cause of the last exception. Without an exception, it is the first lines from the executor or its
    Java.
    """
    # Spark's worker begins the file with the command and a line of equals signs.
    lines = re.split(r"^=+$", log, maxsplit=1, flags=re.MULTILINE)[-1].splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    thrown = [line for line in lines if line.startswith("Exception in thread ")]
    written = [line.strip() for line in lines if line.strip()][:2]
    reasons = [*causes[-1:], *thrown[-1:], *(["; ".join(written)] if written else [])]
    return " ".join(_JAVA_CLASS.sub("", reasons[0]).split())[:LONGEST] if reasons else None
