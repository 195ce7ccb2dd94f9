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

APPLICATION = "app-20261125190000-0001"
ANY = Problem("executors", "this command needs an executor")
TWO_NODES = Problem("nodes", "2 nodes need 2 executors")


class Sequence(list[Any]):
    """A list like Scala's."""

    apply = list.__getitem__
    size = list.__len__


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
        context = SimpleNamespace(
            getExecutorIds=lambda: SimpleNamespace(size=size),
            isStopped=lambda: stops and len(left) == 1,
            requestExecutors=self.requested.append,
        )
        self._jsc = SimpleNamespace(sc=lambda: context)
        system = SimpleNamespace(getenv=lambda name: self.home)
        self._jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
        clock = SimpleNamespace(monotonic=lambda: self.clock, sleep=self._sleep, time=lambda: 1000 + self.clock)
        monkeypatch.setattr(executors, "time", clock)
        monkeypatch.setattr("sparksplit.base.progress.time", SimpleNamespace(**vars(clock), strftime=lambda _: "now"))
        self.lost: list[tuple[float, str]] = []
        ended = SimpleNamespace(executorList=lambda active: Sequence([self._lost(*one) for one in self.lost]))
        self.job = self._job
        context.statusStore = lambda: SimpleNamespace(job=self.job, executorList=ended.executorList)
        self.manager = SimpleNamespace(granted=None, pages=[])
        monkeypatch.setattr(executors, "Manager", lambda sc: nullcontext(self.manager))

    def _sleep(self, seconds: float) -> None:
        self.clock += 0.5

    def _job(self, job: int) -> Any:
        return SimpleNamespace(jobTags=lambda: SimpleNamespace(contains=self.jobs[job].__contains__))

    @staticmethod
    def _lost(when: float, reason: str) -> Any:
        """Return Spark's record of an executor that was lost at a time, in seconds since 1970."""
        some = lambda value: SimpleNamespace(isDefined=lambda: True, get=lambda: value)  # noqa: E731
        return SimpleNamespace(
            isActive=lambda: False,
            id=lambda: "1",
            hostPort=lambda: "b:4711",
            removeTime=lambda: some(SimpleNamespace(getTime=lambda: 1000 * when)),
            removeReason=lambda: some(reason),
            executorLogs=lambda: SimpleNamespace(get=lambda name: SimpleNamespace(isDefined=lambda: False)),
        )

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


def test_executors_of_other_work_do_not_count_and_a_check_ends_the_wait(monkeypatch):
    spark, used = Spark(monkeypatch, 3), [2, 2, 1]
    executors.await_executors(spark, 2, TWO_NODES, Patience(), beside=lambda: used.pop(0))
    assert used == [] and spark.clock == 1

    def check():
        if spark.clock >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executors.await_executors(spark, 4, TWO_NODES, Patience(), check=check)
    assert spark.clock == 3


def test_executors_that_never_come_end_the_wait(monkeypatch):
    spark = Spark(monkeypatch, 0)
    expected = (
        r"^executors: this command needs an executor, and Spark has 0 after 20 s \(queue_timeout\); check that a "
        r"worker has 4 cores"
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
    """Return the session of a command without nodes, on `spark`. Each look of its watch takes half a second."""
    given = nullcontext(SimpleNamespace(sparkContext=spark))
    monkeypatch.setattr(executors, "spark_session", lambda *_, **__: given)
    monkeypatch.setattr(executors, "_LOOK_SECONDS", 0.001)
    looked = executors._Watch._look

    def look(watch: Any) -> None:
        spark.clock += 0.5
        looked(watch)

    monkeypatch.setattr(executors._Watch, "_look", look)
    return executors.session_with_executors("x", 2, None, patience)


def watch_of(spark: Spark, patience: Patience) -> Any:
    """Return a watch that looks when its `_look` is called, and whose job 0 runs."""
    watch = executors._Watch(spark, patience)  # type: ignore[arg-type]
    spark.tags.add(watch.tag)
    spark.jobs[0] = [watch.tag]
    return watch


def looks(spark: Spark, watch: Any, seconds: float) -> None:
    """Let the watch look once a second."""
    for _ in range(int(seconds)):
        spark.clock += 1
        watch._look()


def test_a_job_whose_executors_are_all_lost_ends_as_a_start_without_any_does(monkeypatch, capsys):
    """A job that the command runs instead ends, too. A program's own jobs go on."""
    spark = Spark(monkeypatch, 2)
    spark.jobs[17] = ["foreign"]
    expected = (
        r"^executors: executor 1 on b was lost \(Worker shutting down\), and no new executor came within 20 s "
        r"\(queue_timeout\); this command needs an executor, and Spark has 0\. Restart the host"
    )
    with pytest.raises(NoExecutors, match=expected), begun(monkeypatch, spark, Patience(queue=20)):
        spark.left[:], spark.lost = [0], [(1000 + spark.clock, "Worker shutting down")]
        with suppress(ValueError):
            spark.run()
        spark.run()
    assert "waiting for the cluster to grant executors: 0 of 1, " in capsys.readouterr().err
    assert spark.jobs == {17: ["foreign"]} and spark.tags == set()


def test_containers_of_a_lost_host_are_no_executors_that_are_granted(monkeypatch):
    """YARN counts them for minutes. start_timeout ended the wait, and the message said that they were granted."""
    spark = Spark(monkeypatch, 0)
    spark.manager.granted = 1
    looks(spark, watch := watch_of(spark, Patience(queue=30, start=5)), 30)
    assert watch.failure is None
    looks(spark, watch, 3)
    assert "this command needs an executor, and Spark has 0 after 30 s (queue_timeout)" in str(watch.failure)


def test_executors_that_come_back_in_time_change_nothing(monkeypatch):
    """However often they go."""
    spark = Spark(monkeypatch, 1)
    watch = watch_of(spark, Patience(queue=20))
    spark.left[:] = ([0] * 15 + [1]) * 5
    looks(spark, watch, 80)
    assert 0 in spark.jobs and watch.failure is None


def test_executors_that_come_back_at_the_last_look_end_no_job(monkeypatch):
    spark = Spark(monkeypatch, 0)
    looks(spark, watch := watch_of(spark, Patience(queue=20)), 20)
    spark.left[:] = [0, 0, 1]
    looks(spark, watch, 5)
    assert 0 in spark.jobs and watch.failure is None


def test_after_jobs_were_ended_the_next_job_has_all_the_time_only_if_executors_were_there(monkeypatch):
    spark = Spark(monkeypatch, 0)
    looks(spark, watch := watch_of(spark, Patience(queue=20)), 22)
    assert spark.jobs == {} and watch.failure is not None
    looks(spark, watch, 5)
    spark.jobs[1] = [watch.tag]
    looks(spark, watch, 1)
    assert spark.jobs == {}
    spark.left[:] = [1, 0]
    spark.jobs[2] = [watch.tag]
    looks(spark, watch, 20)
    assert 2 in spark.jobs and watch.failure is not None
    looks(spark, watch, 3)
    assert spark.jobs == {}


def test_a_job_that_spark_has_forgotten_and_looks_that_fail_do_not_end_a_wait(monkeypatch):
    spark = Spark(monkeypatch, 0)
    watch = watch_of(spark, Patience(queue=20))
    spark.jobs, known = {9: ["forgotten"], **spark.jobs}, spark._job
    monkeypatch.setattr(spark, "job", lambda job: known({0: 0}[job]))
    looks(spark, watch, 15)
    asked, spark.statusTracker = spark.statusTracker, None  # type: ignore[method-assign]
    with pytest.raises(TypeError):
        looks(spark, watch, 1)
    spark.statusTracker = asked  # type: ignore[method-assign]
    looks(spark, watch, 6)
    assert watch.failure is not None and [*spark.jobs] == [9]


def test_a_failure_is_that_of_ended_jobs_alone(monkeypatch):
    spark = Spark(monkeypatch, 0)
    watch = watch_of(spark, Patience(queue=20))
    monkeypatch.setattr(spark, "cancelJobsWithTag", None)
    with pytest.raises(TypeError):
        looks(spark, watch, 25)
    assert watch.failure is None


def test_an_error_before_a_failure_stays_the_blocks_error(monkeypatch):
    """The watch may end jobs while it is told to stop."""
    spark = Spark(monkeypatch, 1)
    ended = executors._Watch.end

    def late(watch: Any) -> None:
        watch.failure = NoExecutors(ANY)
        ended(watch)

    monkeypatch.setattr(executors._Watch, "end", late)
    with pytest.raises(KeyError), begun(monkeypatch, spark, Patience()):
        raise KeyError("of the block")


def test_a_block_that_cannot_begin_leaves_no_tag_and_no_thread(monkeypatch):
    def refuses(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    spark = Spark(monkeypatch, 1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        with pytest.raises(RuntimeError, match="new thread"), begun(patch, spark, Patience()):
            pass
    assert spark.tags == set()


def test_idle_executors_may_end_and_foreign_jobs_may_wait(monkeypatch):
    """Dynamic allocation ends executors that nobody uses."""
    spark = Spark(monkeypatch, 0)
    watch = watch_of(spark, Patience(queue=5))
    spark.jobs = {17: ["foreign"]}
    looks(spark, watch, 30)
    spark.jobs[0] = [watch.tag]
    looks(spark, watch, 5)
    assert watch.failure is None and [*spark.jobs] == [17, 0]


def test_where_threads_share_a_thread_of_the_jvm_no_job_is_ended(monkeypatch):
    """A job may have another thread's tags there."""
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    spark = Spark(monkeypatch, 1)
    with begun(monkeypatch, spark, Patience()):
        assert spark.tags == set()


def test_executors_that_were_lost_long_before_or_that_spark_has_ended_are_not_named(monkeypatch):
    spark = Spark(monkeypatch, 0)
    spark.lost = [(1000, "Executor killed by driver."), (800, "long ago"), (1000, "")]
    found = executors.lost_executors(spark, 999)  # type: ignore[arg-type]
    assert [str(one) for one in found] == ["executor 1 on b was lost"]
    spark.lost = spark.lost[:2]
    with pytest.raises(NoExecutors, match="and Spark has 0 after 20 s"):
        executors.await_executors(spark, 1, ANY, Patience(queue=20))  # type: ignore[arg-type]
    spark.lost.append((950, "just now"))
    with pytest.raises(NoExecutors, match="just now"):
        executors.await_executors(spark, 1, ANY, Patience(queue=20))  # type: ignore[arg-type]
    watch = watch_of(spark, Patience(queue=20))
    spark.lost.append((1000 + spark.clock - 60, "an hour before"))
    looks(spark, watch, 25)
    assert "was lost" not in str(watch.failure)


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
                r"^executors: this command needs an executor, and Spark has 0 after 20 s .*; an executor failed at its "
                r"start: No"
            )
            with pytest.raises(RunError, match=why):
                executors.await_executors(spark, 1, ANY, Patience(queue=20))
        finally:
            server.shutdown()
