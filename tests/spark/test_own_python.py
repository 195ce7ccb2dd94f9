"""The Python of a session's tasks, with a stand-in for the session."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from sparksplit.spark.own_python import own_python


class Context:
    def __init__(self, master: str, **settings: str) -> None:
        self.master, self.pythonExec, self._settings = master, "python3", settings

    def getConf(self) -> Any:  # noqa: N802
        return self._settings


@pytest.fixture(autouse=True)
def _unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


@pytest.mark.parametrize("master", ["local[*]", "local-cluster[2,1,1024]"])
def test_the_last_of_several_blocks_gives_the_users_python_back(master: str) -> None:
    context: Any = Context(master)
    first, second = own_python(context), own_python(context)
    with first:
        second.__enter__()  # as a call in another thread, which ends later
        assert context.pythonExec == sys.executable
    assert context.pythonExec == sys.executable
    second.__exit__(None, None, None)
    assert context.pythonExec == "python3"
    with pytest.raises(ZeroDivisionError), own_python(context):
        raise ZeroDivisionError
    assert context.pythonExec == "python3"


def test_a_python_that_the_user_has_named_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    named: Any = Context("local[*]", **{"spark.pyspark.python": "/my/python"})
    with own_python(named):
        assert named.pythonExec == "/my/python"
    for master in ("yarn", "spark://h:7077"):
        elsewhere: Any = Context(master)
        with own_python(elsewhere):
            assert elsewhere.pythonExec == "python3"
    monkeypatch.setenv("PYSPARK_PYTHON", "python3.11")
    by_variable: Any = Context("local[*]")
    with own_python(by_variable):
        assert by_variable.pythonExec == "python3"
