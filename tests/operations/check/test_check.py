"""How `check` gathers findings, on a made-up Spark without executors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.errors import RunError
from sparksplit.operations.check import check
from sparksplit.operations.operations_config import CheckConfig
from sparksplit.spark.settings.requirements import NoExecutors, Problem, SettingError

CORES = Problem("spark.task.cpus", "an executor must have one task slot")


def found(monkeypatch: pytest.MonkeyPatch, error: Exception, *known: Problem) -> list[Problem]:
    """The findings if the wait for executors ends with `error`. known: those of the settings."""

    def awaited(*_: object) -> None:
        raise error

    monkeypatch.setattr(check.requirements, "await_executors", awaited)
    monkeypatch.setattr(check.executors, "slots_of", lambda sc: 0)
    settings = {"spark.master": "yarn", "spark.driver.host": "127.0.0.1"}
    report = check.Report(settings, problems=[*known])
    spark: Any = SimpleNamespace(sparkContext=None)
    check._look(spark, CheckConfig(), check.Planned(2), report)
    return report.problems


@pytest.mark.parametrize("kind", [NoExecutors, SettingError])
def test_the_finding_is_the_errors_own_problem(monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> None:
    """Whatever its text looks like: no key is read from it."""
    lost = Problem("nodes", "executor 1 on host-a was lost (exit status: 137): restart the host")
    assert found(monkeypatch, kind(lost)) == [lost]
    assert found(monkeypatch, kind(lost), CORES) == [CORES, lost]
    # The settings have told this key's problem before.
    assert found(monkeypatch, kind(Problem(CORES.key, "another text")), CORES) == [CORES]


def test_an_error_without_a_problem_ends_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="stands still"):
        found(monkeypatch, RunError("Spark's JVM: stands still"))
