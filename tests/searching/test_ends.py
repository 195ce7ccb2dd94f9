"""What the end of a trial's run means to the search, without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from hdfs_io.publish import OtherUnfinished
from sparksplit.base.errors import ConfigError, Diverged, InputError, NodeFailed, RunError, UsageError
from sparksplit.searching.search import _Ended, _Search
from sparksplit.searching.search_record import SearchRecord, Trial
from sparksplit.spark.settings.requirements import NoExecutors, Problem, SettingError


def running(*others: int) -> _Search:
    """A search whose trial 2 has ended, after trial 1; `others` still train."""
    trials = [Trial(number=1, keys={"epochs": 1}, state="complete", value=0.5, epochs={"1": 0.5})]
    trials += [Trial(number=number, keys={"epochs": number}, state="running") for number in (2, *others)]
    fence = SimpleNamespace(write_json=lambda *_: None, remove=lambda _: None)
    known: Any = SimpleNamespace(check_unchanged=lambda: None, metric="loss", higher=False)
    output: Any = SimpleNamespace(folder="/no/such/folder", fence=fence)
    one = _Search(known, output, None, SearchRecord(metric="loss", higher=False, wanted=5, trials=trials))  # type: ignore[arg-type]
    for number in (2, *others):
        one.threads[number] = thread = threading.Thread(target=int)
        thread.start()
        one.used[number] = 2
    return one


NONE_FREE = NoExecutors(Problem("nodes", "2 nodes have 1 executor"))


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("model.params: hidden: must be above 0"),
        Diverged("the loss is nan"),
        NodeFailed("no memory", memory=True),
    ],
)
def test_values_that_will_not_do_fail_their_trial_alone(error: Exception) -> None:
    one = running()
    one._finish(_Ended(2, error=error))
    assert [trial.state for trial in one.record.trials] == ["complete", "failed"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (InputError("/scratch: cannot be written"), "/scratch: cannot be written"),
        (SettingError(Problem("spark.task.cpus", "must be 1")), "spark.task.cpus: must be 1"),
        (OtherUnfinished("is unfinished, with another configuration", "f00"), "trial 2 has begun where nodes run"),
        (NodeFailed("node 1 was killed"), "node 1 was killed"),
        (NONE_FREE, "nodes: 2 nodes have 1 executor"),
    ],
)
def test_what_values_are_not_to_blame_for_ends_the_search_and_the_trial_goes_on_in_the_next(
    error: Exception, told: str
) -> None:
    one = running()
    with pytest.raises((UsageError, RunError), match=told):
        one._finish(_Ended(2, error=error))
    assert one.record.trials[1].state == "running" and 2 not in one.used


def test_a_trial_without_executors_waits_for_the_end_of_another(capfd: pytest.CaptureFixture[str]) -> None:
    again = RunError("node 1 was lost; the restart failed: too few executors")
    again.__cause__ = NONE_FREE
    for error in (NONE_FREE, again):
        one = running(3)
        one._finish(_Ended(2, error=error))
        assert one.record.trials[1].state == "running" and set(one.used) == {3}
        assert "it goes on when another trial has ended" in capfd.readouterr().err
