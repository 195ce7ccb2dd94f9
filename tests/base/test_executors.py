"""Waiting for Spark's executors, and why they do not come; on a made-up Spark."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base import executors
from sparksplit.base.containers import Containers
from sparksplit.base.errors import RunError
from sparksplit.base.progress import LINE_SECONDS
from sparksplit.base.waiting import Patience

APPLICATION = "app-20261125190000-0001"


class Spark:
    """A SparkContext that has so many executors at one look after another, half a second apart, then the last number.

    stops: whether Spark has ended by itself then.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *counts: int, application: str = APPLICATION, stops: bool = False
    ) -> None:
        self.master, self.applicationId, self.requested, self.home = "spark://h:7077", application, list[int](), ""
        self.settings = {"spark.master": self.master, "spark.executor.cores": "4", "spark.app.id": application}
        self.clock = 0.0
        left = list(counts)
        size = lambda: left.pop(0) if len(left) > 1 else left[0]  # noqa: E731
        context = SimpleNamespace(
            getExecutorIds=lambda: SimpleNamespace(size=size),
            isStopped=lambda: stops and len(left) == 1,
            requestExecutors=self.requested.append,
        )
        self._jsc = SimpleNamespace(sc=lambda: context)
        system = SimpleNamespace(getenv=lambda name: self.home)
        self._jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
        clock = SimpleNamespace(monotonic=lambda: self.clock, sleep=self._sleep)
        monkeypatch.setattr(executors, "time", clock)
        monkeypatch.setattr("sparksplit.base.progress.time", SimpleNamespace(**vars(clock), strftime=lambda _: "now"))
        monkeypatch.setattr(executors, "lost_executors", lambda sc: [])

    def _sleep(self, seconds: float) -> None:
        self.clock += 0.5

    def getConf(self) -> Any:  # noqa: N802 (it is Spark's)
        return SimpleNamespace(getAll=self.settings.items)


def test_executors_are_waited_for_with_a_line_now_and_then(monkeypatch, capsys):
    spark = Spark(monkeypatch, *[0] * 50, 2)
    assert executors.await_executors(spark, 2, "nodes: 2 nodes need 2 executors", Patience()) == 0.5
    assert spark.clock == 25
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in lines] == [
        f"0 of 2, {n * LINE_SECONDS:g} of 600 s (queue_timeout)" for n in (1, 2)
    ]


def test_executors_that_never_come_end_the_wait(monkeypatch):
    spark = Spark(monkeypatch, 0)
    expected = r"^executors: one is needed, and Spark has 0 after 20 s \(queue_timeout\); has any worker 4 cores"
    with pytest.raises(RunError, match=expected):
        executors.await_executors(spark, 1, "executors: one is needed", Patience(queue=20))
    assert spark.clock == 20.5


def test_a_command_without_nodes_waits_for_one_executor_and_asks_for_it_where_they_come_with_jobs(monkeypatch):
    def begin(spark: Spark) -> None:
        given = nullcontext(SimpleNamespace(sparkContext=spark))
        monkeypatch.setattr(executors, "spark_session", lambda *_, **__: given)
        with executors.session_with_executors("x", 2, None, Patience()):
            pass

    begin(fixed := Spark(monkeypatch, 0, 0, 1))
    assert (fixed.requested, fixed.clock) == ([], 0.5)
    dynamic = Spark(monkeypatch, 0, 0, 1)
    dynamic.settings["spark.dynamicAllocation.enabled"] = "true"
    begin(dynamic)
    assert (dynamic.requested, dynamic.clock) == ([1], 0.5)
    local = Spark(monkeypatch, 0)
    local.master = "local[2]"
    begin(local)
    assert local.clock == 0


def test_an_application_that_was_never_taken_is_told_from_executors_that_ended(monkeypatch, tmp_path: Path):
    def why(spark: Spark) -> str:
        with pytest.raises(RunError) as caught:
            executors.await_executors(spark, 2, "nodes: 2 nodes need 2 executors", Patience())
        return str(caught.value)

    refused = why(Spark(monkeypatch, 0, 0, application="spark-application-1764097200000", stops=True))
    assert refused.startswith("spark.master: spark://h:7077 cannot be reached, or did not take the application")
    ended = (
        f"executors: spark://h:7077 has ended the application {APPLICATION}: its executors ended before Spark had them"
    )
    look = f"or somebody ended it; look at {APPLICATION}/*/stderr in the workers' work folders"
    assert why(Spark(monkeypatch, 0, 0, stops=True)) == f"{ended}, {look}"
    log = tmp_path / "work" / APPLICATION / "0" / "stderr"
    log.parent.mkdir(parents=True)
    log.write_text('Spark Executor Command: "java"\n=====\n\nCould not find agent library nosuch\n')
    spark = Spark(monkeypatch, 0, 0, stops=True)
    spark.home = str(tmp_path)
    assert why(spark) == f"{ended} (Could not find agent library nosuch), {look}"


def test_other_masters_are_not_asked_for_containers(monkeypatch):
    with Containers(Spark(monkeypatch, 0)) as containers:
        assert containers.granted is None
