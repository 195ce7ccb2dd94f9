"""One line out of Spark's errors: the first cause, whatever Python and Java have wrapped around it. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping

STOPPED = "Cannot call methods on a stopped SparkContext"
"""What Spark answers once it has stopped by itself, for whatever cause."""

NOT_TAKEN = (
    "cannot be reached, or refused the application. If either side sets spark.authenticate, both sides need the same"
    " spark.authenticate and spark.authenticate.secret"
)
"""What is said of a standalone master then: Spark tries for a minute, and does not say why it failed."""

NO_METASTORE = "Unable to instantiate org.apache.hadoop.hive.ql.metadata.SessionHiveMetaStoreClient"
"""What Spark says where Hive's metastore does not answer."""

NO_MODULE = "No module named"
"""What Python says where an executor lacks a package."""

NO_PYTHON = re.compile(r'Cannot run program "(?P<program>[^"]+)"[^:]*: error=\d+, (?P<why>[^\n]+)')
"""What Spark says where an executor cannot start Python."""

LONGEST = 500
_LACKING = re.compile(r"^ModuleNotFoundError: No module named '(?:hdfs_io|sparksplit)\b")
_LACKING_HINT = (
    ": the executors' Python has no sparksplit. Before the Spark session starts, set PYSPARK_PYTHON to a Python that "
    "has it, or ship sparksplit with --py-files"
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
    """`KEY: what is wrong with it` for an error with which Spark did not start; None if no single key is known."""
    events = settings.get("spark.eventLog.dir", "")
    if events and f"File {events} does not exist" in text:
        return f"spark.eventLog.dir: {events} does not exist: make the folder, or set spark.eventLog.enabled to false"
    for sign, key, what in _AT_START:
        if sign in text:
            return f"{key}: {what}{f' (is {settings[key]})' if key in settings else ''}"
    return None


def spark_reason(text: str) -> str:
    """The one line of a Spark error that says what happened.

    For a Python function that failed in a task, the last line of its traceback; for a lost executor, which one and why;
    otherwise what precedes the JVM's stack trace, without class names.
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
        hint = _LACKING_HINT if _LACKING.match(lines[0]) else ""
        return f"a task failed: {_OUR_OWN.sub('', lines[0])}{hint}"[:LONGEST]
    if STOPPED in text:
        return "the application ended by itself: its master, or the connection to the master, was lost"
    text = text.partition("\nDriver stacktrace:")[0]
    if lost := _LOST.search(text):
        why = " ".join((lost["reason"] or "").split()).rstrip(".")
        return f"executor {lost['id']} on {lost['host']} was lost{': ' if why else ''}{why}"[:LONGEST]
    text = " ".join(_CALLED.sub("", text).split())
    return _JAVA_CLASS.sub("", text)[:LONGEST] or "no reason was given"


def is_raised(kind: type[Exception], text: str) -> bool:
    """Whether a task raised `kind` itself. Of a task's error, Spark hands on only the text of Python's traceback."""
    return re.search(rf"^\W*{re.escape(f'{kind.__module__}.{kind.__qualname__}')}: ", text, re.MULTILINE) is not None


def executor_error(log: str) -> str | None:
    """What ended an executor, in one line, from the end of its standard error; None where it does not say.

    The first cause of the last exception; without one the first lines that the executor, or its Java, has written.
    """
    # A worker of Spark's begins the file with the command, and a line of equals signs.
    lines = re.split(r"^=+$", log, maxsplit=1, flags=re.MULTILINE)[-1].splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    thrown = [line for line in lines if line.startswith("Exception in thread ")]
    written = [line.strip() for line in lines if line.strip()][:2]
    found = [*causes[-1:], *thrown[-1:], *(["; ".join(written)] if written else [])]
    return " ".join(_JAVA_CLASS.sub("", found[0]).split())[:LONGEST] if found else None
