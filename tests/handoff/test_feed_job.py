"""The Spark job that feeds, by an invented Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.errors import NodeFailed
from sparksplit.cluster.deadlines import Limits
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.handoff import feeding as feeding_module
from sparksplit.handoff import job as job_module
from sparksplit.handoff.feeding import Feeding
from sparksplit.handoff.job import FeedJob
from tests.jvm import gateway


def test_what_a_feed_reads_is_not_searched_for_damage_once_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows would be read for that, while a restart waits."""
    cancelled = threading.Event()
    context = SimpleNamespace(
        setJobGroup=lambda *_, **keys: None, cancelJobGroup=lambda group: cancelled.set(), _gateway=gateway()
    )
    frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context), select=lambda *_: None)
    schema: Any = SimpleNamespace(names=["row_id"])
    searched: list[str] = []

    def fed(*_: object) -> None:
        assert cancelled.wait(60)
        raise RuntimeError("Job 3 cancelled part of cancelled job group")

    monkeypatch.setattr(job_module, "facts_of", fed)
    monkeypatch.setattr(job_module, "bounded_batches", lambda *_: nullcontext())
    monkeypatch.setattr(job_module, "replace_stuck", lambda *_: [])
    job = FeedJob(frame, schema, 1, "", 1, [], lambda: None, damage=lambda: searched.append("all rows"))
    job.start([])
    job.close()
    assert cancelled.is_set() and not searched


class Feed:
    """What stands for the Spark job: its tasks are on the executors `on`; of these, `still` stand still."""

    def __init__(self) -> None:
        self.now, self.on, self.still = 100.0, {"7"}, set[str]()
        self.replaced: list[str] = []
        self.started = True

    def holders(self) -> set[str]:
        return self.on

    def result(self) -> None:
        return None

    def close(self) -> None:
        return None

    def silent(self, executors: set[str]) -> list[str]:
        return sorted(self.still & executors)

    def looks(self, feeding: Feeding, seconds: int) -> None:
        """Look for so many seconds, ten times in each."""
        for _ in range(10 * seconds):
            self.now += 0.1
            feeding.go_on()


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Feed:
    found = Feed()
    monkeypatch.setattr(feeding_module, "FeedJob", lambda *_: found)
    monkeypatch.setattr(feeding_module, "Pulse", lambda sc: found)
    monkeypatch.setattr(feeding_module, "replace", lambda sc, executor: found.replaced.append(executor))
    monkeypatch.setattr(feeding_module, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


@pytest.fixture
def feeding(feed: Feed, digits: Any) -> Iterator[Feeding]:
    cluster: Any = SimpleNamespace(secret="00", look_again=None, limits=Limits(start_timeout=120))
    spark: Any = SimpleNamespace(sparkContext=None)
    frame: Any = SimpleNamespace(columns=["row_id"])
    with Feeding(spark, PreparedDataSet.open(str(digits)), frame, cluster, [{}, {}], [[], []]) as found:
        yield found


def test_a_feed_whose_only_executor_is_lost_is_not_waited_for_for_ever(feed: Feed, feeding: Feeding) -> None:
    """An executor may come in its place as long as executors may take to start; then all begin again."""
    feed.looks(feeding, 500)
    feed.on = set()
    feed.looks(feeding, 100)
    feed.on = {"8"}
    feed.looks(feeding, 100)
    feed.on = set()
    feed.looks(feeding, 118)
    says = r"^Spark has run no task of the feed for 120 s: input_mode: spark needs one executor more than the nodes, .*"
    with pytest.raises(NodeFailed, match=says) as raised:
        feed.looks(feeding, 4)
    assert raised.value.may_pass and not feed.replaced


def test_an_executor_of_the_feed_that_stands_still_is_replaced(feed: Feed, feeding: Feeding) -> None:
    feed.looks(feeding, 30)
    assert not feed.replaced
    feed.still = {"7"}
    feed.looks(feeding, 1)
    assert feed.replaced == ["7"]
