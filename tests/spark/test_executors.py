"""Waiting for Spark's executors, and why they do not come; on a made-up Spark."""

from __future__ import annotations

import json
import threading
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.errors import RunError
from sparksplit.base.progress import LINE_SECONDS
from sparksplit.spark import executors, manager, workers
from sparksplit.spark.manager import Manager
from sparksplit.spark.settings.requirements import NoExecutors, Problem
from sparksplit.spark.waiting import Patience
from sparksplit.spark.workers import said_by_an_executor
from tests.nodes import until

APPLICATION = "app-20261125190000-0001"
ANY = Problem("executors", "this command needs one")
TWO_NODES = Problem("nodes", "2 nodes need 2 executors")


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
        self.left = left = list(counts)
        size = lambda: left.pop(0) if len(left) > 1 else left[0]  # noqa: E731
        self.jobs: dict[int, list[str]] = {}
        self.tags, self.ended = set[str](), threading.Event()
        tags = lambda job: SimpleNamespace(jobTags=lambda: SimpleNamespace(contains=self.jobs[job].__contains__))  # noqa: E731
        context = SimpleNamespace(
            getExecutorIds=lambda: SimpleNamespace(size=size),
            isStopped=lambda: stops and len(left) == 1,
            requestExecutors=self.requested.append,
            statusStore=lambda: SimpleNamespace(job=tags),
        )
        self._jsc = SimpleNamespace(sc=lambda: context)
        system = SimpleNamespace(getenv=lambda name: self.home)
        self._jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
        clock = SimpleNamespace(monotonic=lambda: self.clock, sleep=self._sleep)
        monkeypatch.setattr(executors, "time", clock)
        monkeypatch.setattr("sparksplit.base.progress.time", SimpleNamespace(**vars(clock), strftime=lambda _: "now"))
        monkeypatch.setattr(executors, "lost_executors", lambda sc: [])
        self.manager = SimpleNamespace(granted=None, pages=[])
        monkeypatch.setattr(executors, "Manager", lambda sc: nullcontext(self.manager))

    def _sleep(self, seconds: float) -> None:
        self.clock += 0.5

    def getConf(self) -> Any:  # noqa: N802 (it is Spark's)
        return SimpleNamespace(getAll=self.settings.items)

    def getJobTags(self) -> set[str]:  # noqa: N802
        return self.tags

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.remove(tag)

    def statusTracker(self) -> Any:  # noqa: N802
        return SimpleNamespace(getActiveJobsIds=lambda: list(self.jobs))

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        for job in [job for job, tags in self.jobs.items() if tag in tags]:
            del self.jobs[job]
            self.ended.set()

    def run(self) -> None:
        """Run a job that ends only if it is cancelled."""
        self.jobs[len(self.jobs)] = list(self.tags)
        assert self.ended.wait(20), "the job waits for ever"
        self.ended.clear()
        raise ValueError("Job 1 cancelled")


def test_executors_are_waited_for_with_a_line_now_and_then(monkeypatch, capsys):
    spark = Spark(monkeypatch, *[0] * 50, 2)
    assert executors.await_executors(spark, 2, TWO_NODES, Patience()) == 0.5
    assert spark.clock == 25
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": ")[2] for line in lines] == [
        f"0 of 2, {n * LINE_SECONDS:g} of 600 s (queue_timeout)" for n in (1, 2)
    ]


def test_executors_that_never_come_end_the_wait(monkeypatch):
    spark = Spark(monkeypatch, 0)
    expected = (
        r"^executors: this command needs one, and Spark has 0 after 20 s \(queue_timeout\); check that a worker "
        r"has 4 cores"
    )
    with pytest.raises(RunError, match=expected):
        executors.await_executors(spark, 1, ANY, Patience(queue=20))
    assert spark.clock == 20.5


def test_executors_that_are_granted_and_do_not_start_end_the_wait_by_the_other_limit(monkeypatch, capsys):
    spark = Spark(monkeypatch, 1)
    spark.manager.granted = 2
    expected = (
        rf"^{TWO_NODES}: the cluster has granted them, but only 1 of 2 have started within 15 s \(start_timeout\)"
    )
    with pytest.raises(NoExecutors, match=expected) as caught:
        executors.await_executors(spark, 2, TWO_NODES, Patience(queue=5, start=15))
    assert caught.value.problem.key == "nodes" and str(caught.value.problem) == str(caught.value)
    assert "waiting for granted executors to start: 1 of 2, 10 of 15 s (start_timeout)" in capsys.readouterr().err


def begun(monkeypatch: pytest.MonkeyPatch, spark: Spark, patience: Patience) -> AbstractContextManager[Any]:
    """Return the session of a command without nodes, on `spark`."""
    given = nullcontext(SimpleNamespace(sparkContext=spark))
    monkeypatch.setattr(executors, "spark_session", lambda *_, **__: given)
    monkeypatch.setattr(executors, "_LOOK_SECONDS", 0.001)
    return executors.session_with_executors("x", 2, None, patience)


def test_a_job_whose_executors_are_all_lost_ends_as_a_start_without_any_does(monkeypatch, capsys):
    """A job that the command runs instead ends, too. A program's own jobs go on."""
    spark = Spark(monkeypatch, 2)
    lost = executors.LostExecutor("1", "b", "Worker shutting down", "")
    monkeypatch.setattr(executors, "lost_executors", lambda sc: [lost])
    spark.jobs[17] = ["foreign"]
    expected = (
        r"^executors: executor 1 on b was lost \(Worker shutting down\), and no new executor came within 20 s "
        r"\(queue_timeout\); this command needs one, and Spark has 0\. Restart the host"
    )
    with pytest.raises(NoExecutors, match=expected), begun(monkeypatch, spark, Patience(queue=20)):
        spark.left[:] = [0]
        with suppress(ValueError):
            spark.run()
        spark.run()
    assert "waiting for the cluster to grant executors: 0 of 1, 10 of 20 s (queue_timeout)" in capsys.readouterr().err
    assert spark.jobs == {17: ["foreign"]} and spark.tags == set()


def test_executors_that_are_granted_again_have_the_other_limit(monkeypatch):
    spark = Spark(monkeypatch, 1)
    expected = r"0 of 1 have started within 15 s \(start_timeout\)"
    with pytest.raises(NoExecutors, match=expected), begun(monkeypatch, spark, Patience(queue=5, start=15)):
        spark.manager.granted, spark.left[:] = 1, [0]
        spark.run()


def test_executors_that_come_back_in_time_change_nothing(monkeypatch):
    """However often they go."""
    spark = Spark(monkeypatch, 1)
    with begun(monkeypatch, spark, Patience(queue=20)):
        spark.jobs[0] = list(spark.tags)
        spark.left[:] = ([0] * 30 + [1]) * 5
        until(lambda: len(spark.left) == 1 or not spark.jobs)
        assert 0 in spark.jobs and spark.clock > 20


def test_idle_executors_may_end_and_foreign_jobs_may_wait(monkeypatch):
    """Dynamic allocation ends executors that nobody uses."""
    spark = Spark(monkeypatch, 1)
    spark.jobs[17] = ["foreign"]
    with begun(monkeypatch, spark, Patience(queue=0)):
        spark.left[:] = [0] * 30
        until(lambda: len(spark.left) == 1)
    assert spark.clock == 0 and 17 in spark.jobs


def test_an_inner_session_has_its_outer_ones_watch(monkeypatch):
    spark = Spark(monkeypatch, 1)
    with begun(monkeypatch, spark, Patience()), begun(monkeypatch, spark, Patience()):
        assert len(spark.tags) == 1
        assert len([one for one in threading.enumerate() if one.name == "the executors' watch"]) == 1
    assert spark.tags == set()


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
            executors.await_executors(spark, 2, TWO_NODES, Patience())
        return str(caught.value)

    refused = why(Spark(monkeypatch, 0, 0, application="spark-application-1764097200000", stops=True))
    assert refused.startswith("spark.master: spark://h:7077 cannot be reached, or refused the application")
    ended = f"executors: spark://h:7077 has ended the application {APPLICATION}: its executors failed at their start"
    look = f"or someone stopped the application; look at {APPLICATION}/*/stderr in the workers' work folders"
    assert why(Spark(monkeypatch, 0, 0, stops=True)) == f"{ended}, {look}"
    log = tmp_path / "work" / APPLICATION / "0" / "stderr"
    log.parent.mkdir(parents=True)
    log.write_text('Spark Executor Command: "java"\n=====\n\nCould not find agent library nosuch\n')
    spark = Spark(monkeypatch, 0, 0, stops=True)
    spark.home = str(tmp_path)
    assert why(spark) == f"{ended} (Could not find agent library nosuch), {look}"


def test_a_local_cluster_has_no_manager_to_ask(monkeypatch):
    spark = Spark(monkeypatch, 0)
    spark.master = "local-cluster[2,1,1024]"
    before = set(threading.enumerate())
    with Manager(spark) as manager:
        assert (manager.granted, manager.pages) == (None, []) and set(threading.enumerate()) <= before


class Yarn:
    """YARN's client, and the JVM that has its classes. used: the containers of the application, look after look."""

    def __init__(self, *used: int | None) -> None:
        self.left, self.asked, self.stopped = list(used), list[str](), threading.Event()
        records = SimpleNamespace(ApplicationId=SimpleNamespace(fromString=lambda text: f"the id {text}"))
        hadoop = SimpleNamespace(yarn=SimpleNamespace(api=SimpleNamespace(records=records)))
        jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)))
        self.sc = SimpleNamespace(master="yarn", applicationId="application_1764097200000_0007", _jvm=jvm)

    def getApplicationReport(self, application: str) -> Any:  # noqa: N802 (YARN's)
        self.asked.append(application)
        used = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        report = None if used is None else SimpleNamespace(getNumUsedContainers=lambda: used)
        return SimpleNamespace(getApplicationResourceUsageReport=lambda: report)

    def stop(self) -> None:
        self.stopped.set()


def test_yarn_has_granted_all_containers_of_the_application_but_the_masters():
    looks = [None, -1, 0, 1, 3, 2]
    yarn = Yarn(*looks)
    assert [manager._granted(yarn, yarn.sc) for _ in looks] == [None, None, None, 0, 2, 1]
    assert set(yarn.asked) == {"the id application_1764097200000_0007"}


def test_yarn_is_asked_again_until_the_wait_ends(monkeypatch):
    yarn = Yarn(1, 3, 2)
    monkeypatch.setattr(manager, "_LOOK_SECONDS", 0.001)
    monkeypatch.setattr(manager, "_client", lambda sc: yarn)
    give_up = time.monotonic() + 20
    with Manager(yarn.sc) as asked:
        while len(yarn.asked) < 5:
            assert time.monotonic() < give_up
            time.sleep(0.001)
        assert asked.granted == 1, "a container that was lost counts no more"
        assert not yarn.stopped.is_set()
    assert yarn.stopped.wait(20)


def test_a_jvm_that_ends_meanwhile_leaves_no_traceback(monkeypatch):
    """The first cause is what ended it: nobody needs to hear of its clients."""

    def gone(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(manager, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(manager, "_client", lambda sc: SimpleNamespace(stop=gone))
    monkeypatch.setattr(manager, "_granted", gone)
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    before = set(threading.enumerate())
    with Manager(SimpleNamespace(master="yarn")):
        for thread in set(threading.enumerate()) - before:
            thread.join()
    assert raised == []


class Page(BaseHTTPRequestHandler):
    """A worker's, with two executors that have ended; the first has said nothing but on its standard output."""

    def do_GET(self) -> None:
        ended = [
            {"id": number, "appid": name} for number, name in ((9, "app-other"), (0, APPLICATION), (3, APPLICATION))
        ]
        answers = {
            "/json/": json.dumps({"executors": [], "finishedexecutors": ended}),
            f"/log?appId={APPLICATION}&executorId=3&logType=stderr": "==== Bytes 0-9 of 9 ====\nCommand\n=====\n\n",
            f"/log?appId={APPLICATION}&executorId=3&logType=stdout": "==== Bytes 0-9 of 9 ====\nNo agent nosuch\n",
        }
        found = answers.get(self.path)
        self.send_response(404 if found is None else 200)
        self.end_headers()
        self.wfile.write((found or "").encode())

    def log_message(self, *_: object) -> None:
        pass


def test_pages_that_a_firewall_keeps_are_waited_for_together(monkeypatch):
    everyone = threading.Barrier(3)

    def kept(address: str) -> str:
        everyone.wait(timeout=5)
        raise TimeoutError(address)

    monkeypatch.setattr(workers, "_read", kept)
    assert said_by_an_executor(Spark(monkeypatch, 0), ["http://a", "http://b", "http://c"]) is None
    assert not everyone.broken


class Dripping(BaseHTTPRequestHandler):
    """A page that sends a byte from time to time, and so is never silent."""

    over = threading.Event()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            while not self.over.wait(0.05):
                self.wfile.write(b" ")

    def log_message(self, *_: object) -> None:
        pass


def test_a_page_that_never_ends_is_not_waited_for_without_end(monkeypatch):
    """Nor does it hide what another worker's page says."""
    spark = Spark(monkeypatch, 0)
    monkeypatch.setattr(workers, "_ALL_PAGES_SECONDS", 1.0, raising=False)
    timer = threading.Timer(10.0, Dripping.over.set)
    timer.start()
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as slow,
        ThreadingHTTPServer(("127.0.0.1", 0), Page) as fast,
    ):
        for server in (slow, fast):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            begin = time.monotonic()
            pages = [f"http://127.0.0.1:{server.server_port}" for server in (slow, fast)]
            assert said_by_an_executor(spark, pages) == "No agent nosuch"
            assert time.monotonic() - begin < 3
        finally:
            Dripping.over.set()
            timer.cancel()
            slow.shutdown()
            fast.shutdown()


def test_a_workers_page_has_what_an_executor_said_that_spark_never_had(monkeypatch):
    spark = Spark(monkeypatch, 0)
    assert said_by_an_executor(spark, []) is None
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            pages = ["http://127.0.0.1:1", f"http://127.0.0.1:{server.server_port}"]
            assert said_by_an_executor(spark, pages) == "No agent nosuch"
            spark.manager.pages = pages
            why = (
                r"^executors: this command needs one, and Spark has 0 after 20 s .*; an executor failed at its "
                r"start: No"
            )
            with pytest.raises(RunError, match=why):
                executors.await_executors(spark, 1, ANY, Patience(queue=20))
        finally:
            server.shutdown()
