"""Whether executors answer, by an invented Spark."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.cluster import pulse
from sparksplit.cluster.pulse import Pulse


class Executors:
    """What stands for a SparkContext: those in `still` do not answer before `end`."""

    def __init__(self, *still: str) -> None:
        self.still, self.asked, self.end = set(still), list[str](), threading.Event()

    def context(self, memory: str = "1g") -> Any:
        spark = SimpleNamespace(getExecutorThreadDump=self._asked)
        return SimpleNamespace(
            getConf=lambda: {"spark.executor.memory": memory}, _jsc=SimpleNamespace(sc=lambda: spark)
        )

    def _asked(self, executor: str) -> None:
        self.asked.append(executor)
        if executor in self.still:
            self.end.wait(60)
            raise ConnectionError(executor)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a pulse sees."""
    now = [100.0]
    monkeypatch.setattr(pulse, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(pulse, "BEAT", 0.01)
    return now


def silent_over(clock: list[float], asking: Pulse, seconds: float, *executors: str) -> list[str]:
    """Who is silent at some time within so many seconds; the threads get the time to ask."""
    found = asking.silent(executors)
    for _ in range(int(seconds / 0.015)):
        clock[0] += 0.015
        if clock[0] % 1 < 0.015:
            time.sleep(0.03)
        found += asking.silent(executors)
    return found


def test_who_stands_still_is_told_from_who_answers(clock: list[float]) -> None:
    executors = Executors("2")
    asking = Pulse(executors.context())
    assert asking.limit == 11  # a gigabyte takes a second to clean up
    assert silent_over(clock, asking, 10.5, "1", "2") == []
    assert silent_over(clock, asking, 1, "1", "2") == ["2"]
    assert asking.silent(["1", "2"]) == []  # it is being replaced
    executors.end.set()
    asking.close()


def test_a_large_heap_is_given_the_time_to_collect_its_garbage(clock: list[float]) -> None:
    executors = Executors("2")
    asking = Pulse(executors.context("64g"))
    assert silent_over(clock, asking, 60, "2") == []
    executors.end.set()
    asking.close()


def test_a_driver_that_stood_still_itself_blames_nobody(clock: list[float]) -> None:
    executors = Executors("2")
    asking = Pulse(executors.context())
    assert silent_over(clock, asking, 5, "2") == []
    clock[0] += 3600
    assert silent_over(clock, asking, 5, "2") == []
    assert silent_over(clock, asking, 2, "2") == ["2"]
    executors.end.set()
    asking.close()


def test_who_has_no_task_any_more_is_not_asked(clock: list[float]) -> None:
    executors = Executors()
    asking = Pulse(executors.context())
    silent_over(clock, asking, 1, "1")
    asking.silent([])
    for thread in threading.enumerate():
        if thread.name == "executor 1":
            thread.join(60)
    count = len(executors.asked)
    time.sleep(0.05)
    assert 0 < count == len(executors.asked)
    asking.close()
