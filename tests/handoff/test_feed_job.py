"""The Spark job that feeds, by an invented Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparksplit.base.errors import NodeFailed, RunError
from sparksplit.cluster.deadlines import Limits
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.handoff import feeding as feeding_module
from sparksplit.handoff import job as job_module
from sparksplit.handoff.feeding import Feeding
from sparksplit.handoff.job import Fed, FeedJob
from sparksplit.rows.ledger import Entry
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
        self.fed: Fed | None = None

    def holders(self) -> set[str]:
        return self.on

    def result(self) -> Fed | None:
        return self.fed

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
def given(digits: Any) -> list[Any]:
    """What a Feeding is given. Its cluster keeps what nodes are told, in `told`."""
    told: list[Any] = []
    cluster = SimpleNamespace(secret="00", look_again=None, limits=Limits(start_timeout=120))
    cluster.told, cluster.tell = told, lambda *one: told.append(one)
    spark, frame = SimpleNamespace(sparkContext=None), SimpleNamespace(columns=["row_id"])
    return [spark, PreparedDataSet.open(str(digits)), frame, cluster, [{}, {}], [[], []]]


@pytest.fixture
def feeding(feed: Feed, given: list[Any]) -> Iterator[Feeding]:
    with Feeding(*given) as found:
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
    says = (
        r"^Spark has started no task that feeds the nodes for 120 s \(start_timeout\): input_mode: spark needs one .*"
    )
    with pytest.raises(NodeFailed, match=says) as raised:
        feed.looks(feeding, 4)
    assert raised.value.may_pass and not feed.replaced


def test_an_executor_of_the_feed_that_stands_still_is_replaced(feed: Feed, feeding: Feeding) -> None:
    feed.looks(feeding, 30)
    assert not feed.replaced
    feed.still = {"7"}
    feed.looks(feeding, 1)
    assert feed.replaced == ["7"]


FED = Fed([0], np.zeros((1, 2, 2), np.uint64), [1300], 1300, 9)


@pytest.mark.parametrize("before", [None, Entry(1300, 9)])
def test_nodes_are_told_which_rows_a_data_frame_gave(feed: Feed, given: list[Any], before: Entry | None) -> None:
    """A checkpoint names them."""
    feed.fed = FED
    with Feeding(*given, before) as feeding:
        feeding.go_on()
        assert feeding.fed() == Entry(1300, 9)
    assert [(rank, name, message["content"]) for rank, name, message in given[3].told] == [
        (0, "fed", (1300, "9")),
        (1, "fed", (1300, "9")),
    ]


@pytest.mark.parametrize(("before", "rows"), [(Entry(1310, 9), "1,310"), (Entry(1300, 8), "1,300")])
def test_a_data_frame_that_gives_other_rows_after_a_restart_ends_the_run(
    feed: Feed, given: list[Any], before: Entry, rows: str
) -> None:
    """Before the nodes train on them: the ledger could not become exact."""
    feed.fed = FED
    says = rf"^the DataFrame gave other rows than before \(1,300 rows now, {rows} then\); .* cache or write it; "
    with Feeding(*given, before) as feeding, pytest.raises(RunError, match=says):
        feeding.go_on()
    assert not given[3].told


def test_a_data_frame_that_gives_other_weights_after_a_restart_ends_the_run(feed: Feed, given: list[Any]) -> None:
    """A row_id does not depend on the row's weight."""
    feed.fed = replace(FED, weights=5)
    with Feeding(*given, Entry(1300, 14)) as feeding:
        feeding.go_on()
        assert feeding.fed() == Entry(1300, 9)
    assert given[3].told[0][2]["content"] == (1300, "14")
    with (
        Feeding(*given, Entry(1300, 15)) as feeding,
        pytest.raises(RunError, match="gave other rows or weights than before"),
    ):
        feeding.go_on()
