"""Gathers facts on a Spark cluster within time limits, and passes them to the judge."""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hdfs_io import filesystem
from sparksplit.base.errors import ConfigError
from sparksplit.cluster import requirements
from sparksplit.operations.answers import answers
from sparksplit.operations.check import judge, probe
from sparksplit.operations.check.facts import Facts
from sparksplit.operations.operations_config import CheckConfig
from sparksplit.spark import executors
from sparksplit.spark.reasons import NO_PYTHON, spark_reason
from sparksplit.spark.session import known_settings, spark_session
from sparksplit.spark.settings.requirements import (
    NoExecutors,
    Problem,
    SettingError,
    most_executors,
    start_problems,
    value_problems,
)
from sparksplit.spark.waiting import Patience

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOCAL_EXECUTORS = 2
"""Executors of the local cluster. It starts if neither a master nor a number of nodes is given."""
JOB_SECONDS = 120.0
"""Seconds within which the executors must answer."""
SETTLE_SECONDS = 3.0
"""Seconds to wait after the last executor if the number of executors is unknown."""

_HARMLESS_HERE = ("spark.speculation", "spark.task.cpus")  # harmless for this check, but not for a run


@dataclass
class Report:
    """The facts, and the problems that were found."""

    settings: dict[str, str]
    driver: Facts | None = None
    executors: list[Facts] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class Planned:
    """A planned run.

    nodes: number of nodes. spare: executors that feed the nodes. spooled: bytes that each node spools, by rank.
    """

    nodes: int | None
    spare: int = 0
    spooled: Sequence[int] = ()


def check(config: CheckConfig, planned: Planned) -> Report:
    """Check the settings, then the driver and every executor.

    The configuration's `queue_timeout` and `start_timeout` limit the wait for executors. JOB_SECONDS limits the wait
    for their answers.
    """
    known = known_settings()
    unreadable = list(value_problems(known))
    fatal = [one for one in start_problems(known) if one.key not in _HARMLESS_HERE or one in unreadable]
    if fatal:
        # With some of these settings Spark would not start. With the rest, no barrier stage would run.
        driver = _driver(_address(known), config.path)
        more = [one for one in judge.setting_findings(known, planned.nodes or 1, planned.spare) if one not in fatal]
        return Report(known, driver, [], [*fatal, *more, *judge.fact_findings(known, driver, [])])
    executors = planned.nodes + planned.spare if planned.nodes else LOCAL_EXECUTORS
    with spark_session("sparksplit check", executors, nodes=False) as spark:
        settings = dict(spark.sparkContext.getConf().getAll())
        report = Report(settings)
        nodes = planned.nodes or most_executors(settings) or 1
        report.problems += judge.setting_findings(settings, nodes, planned.spare)
        _look(spark, config, planned, report)
    return report


def _look(spark: SparkSession, config: CheckConfig, planned: Planned, report: Report) -> None:
    sc = spark.sparkContext
    wanted, spare = planned.nodes or most_executors(report.settings) or 1, planned.spare
    if any(problem.key == "nodes" for problem in report.problems):
        # Spark never starts more executors than the settings ask for.
        wanted, spare = most_executors(report.settings) or 1, 0
    try:
        requirements.await_executors(sc, wanted, Patience(config.queue_timeout, config.start_timeout), spare)
    except (NoExecutors, SettingError) as error:
        if all(problem.key != error.problem.key for problem in report.problems):
            report.problems.append(error.problem)
    if planned.nodes is None and most_executors(report.settings) is None:
        _settle(sc, config.queue_timeout)
    slots = executors.slots_of(sc)
    address = _address(report.settings)
    folder = None if config.path is None else filesystem.absolute(config.path)
    report.driver = _driver(address, folder)
    if slots:
        folder = folder if report.driver.folder is None else None
        with _left(folder) as file, probe.port(address) as open_port:
            ask = probe.Probe(open_port, folder, file)
            report.executors, problem = _executors(spark, slots, ask)
            report.problems += [problem] if problem else []
    report.problems += judge.fact_findings(
        report.settings, report.driver, report.executors, planned.nodes, planned.spooled
    )


def _driver(address: str, folder: str | None) -> Facts:
    """Return the driver's facts. folder: the output folder to try, or None."""
    tried = probe.Tried(None) if folder is None else probe.try_folder(folder)
    own_facts = probe.own_facts(address)
    return Facts("driver", folder=tried.wrong, writes_as=tried.owner, clock=0.0, **own_facts)


def _settle(sc: SparkContext, timeout: float) -> None:
    """Wait until the number of executors has not changed for SETTLE_SECONDS, because the final number is unknown. Wait
    at most `timeout` seconds.
    """
    seen, since = 0, time.monotonic()
    give_up = since + timeout
    while time.monotonic() < min(since + SETTLE_SECONDS, give_up):
        if (now := executors.executors_of(sc)) != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.1)


def _executors(spark: SparkSession, slots: int, ask: probe.Probe) -> tuple[list[Facts], Problem | None]:
    """Return (the facts of each executor, the problem that kept the executors from answering)."""
    try:
        texts = answers(spark.sparkContext, slots, ask, "check", JOB_SECONDS)
    except TimeoutError as error:
        return [], Problem("executors", f"they {error}")
    except Exception as error:
        key = "spark.pyspark.python" if NO_PYTHON.search(str(error)) else "executors"
        return [], Problem(key, spark_reason(str(error)))
    by_slot: dict[str, Facts] = {}
    for text in texts:
        try:
            facts = Facts(**json.loads(text))
        except TypeError as error:
            return [], Problem("sparksplit", f"executors have another version ({error}); {judge.SAME_CODE}")
        by_slot.setdefault(facts.slot_of, facts)
    return list(by_slot.values()), None


def _address(settings: dict[str, str]) -> str:
    """Return the driver's address for executors. Raise ConfigError for an unknown host."""
    host = settings.get("spark.driver.host") or socket.gethostname()
    try:
        return socket.gethostbyname(host)
    except OSError:
        raise ConfigError(f"spark.driver.host: unknown host {host!r}") from None


@contextmanager
def _left(folder: str | None) -> Iterator[str | None]:
    """Write a file into `folder` for the executors to look for, and yield its path. Remove the file afterwards."""
    if folder is None:
        yield None
        return
    file = filesystem.join(folder, f".sparksplit-check-{uuid.uuid4().hex[:8]}")
    filesystem.write_bytes(file, b"sparksplit check\n")
    try:
        yield file
    finally:
        filesystem.remove(file)
