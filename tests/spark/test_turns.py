"""Calls in several threads of a program: they share the program's session, and take turns with their own sessions."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from sparksplit.base.errors import RunError, UsageError
from sparksplit.spark import own_session, session
from sparksplit.spark.session import check_lasts, running_context, satisfy_yarn, spark_session
from tests.jvm import gateway
from tests.logs import without_times

MASTER = "local-cluster[1,1,1024]"
SECONDS = 60  # for what another thread does at once


class Program(SimpleNamespace):
    """Stands for a session's SparkContext."""

    def __init__(self, master: str, name: str = "") -> None:
        super().__init__(name=name, master=master, pythonExec="python3", _gateway=gateway())

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return {}

    __hash__ = object.__hash__


class Sessions:
    """Stands for Spark: what sparksplit starts and stops, in order, and what it says. slow: whether Spark is still
    stopping when sparksplit no longer waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        self.slow = False
        self.said: queue.Queue[str] = queue.Queue()
        self.set: Callable[[Any], None] = lambda context: monkeypatch.setattr(
            SparkContext, "_active_spark_context", context
        )
        self.set(None)  # not the other tests' session, nor its turn
        monkeypatch.setattr(session, "_turn", session._Turn())
        monkeypatch.setattr(session, "_own_session", self._own)
        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: SparkContext._active_spark_context)
        monkeypatch.setattr("sparksplit.base.progress.LINE_SECONDS", 0.02)
        monkeypatch.setattr("sparksplit.base.progress.say", self.said.put)

    @contextmanager
    def _own(self, name: str, *_: object) -> Iterator[Any]:
        assert SparkContext._active_spark_context is None
        if name == "fails":
            raise RunError("Spark did not start")
        self.said.queue.clear()  # a call that is slow to find its turn free has said that it waits
        context = Program(MASTER, name)
        self.seen.append(f"{name} starts")
        self.set(context)
        try:
            yield context
        finally:
            self.set(context if self.slow else None)
            self.seen.append(f"{name} stops")

    def await_line(self, beginning: str) -> None:
        """Wait for a line that begins so."""
        while not self.said.get(timeout=SECONDS).startswith(beginning):
            pass


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    return Sessions(monkeypatch)


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    """Another thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def call(name: str, **keys: Any) -> Any:
    with spark_session(name, 1, **keys) as spark:
        return spark


@pytest.mark.parametrize("error", [None, RunError])
def test_a_call_waits_until_another_threads_session_has_stopped(
    sessions: Sessions, other: ThreadPoolExecutor, error: type[Exception] | None
) -> None:
    """However that call ends."""
    waiting: Future[Any] | None = None
    try:
        with spark_session("first", 1):
            waiting = other.submit(call, "second")
            line = sessions.said.get(timeout=SECONDS)
            assert line.startswith("waiting for a call in another thread to stop its Spark session, ")
            assert sessions.seen == ["first starts"]
            if error is not None:
                raise error
    except RunError:
        pass
    assert waiting is not None and waiting.result(SECONDS).name == "second"
    assert sessions.seen == ["first starts", "first stops", "second starts", "second stops"]


def test_a_session_that_does_not_start_holds_up_nobody(sessions: Sessions, other: ThreadPoolExecutor) -> None:
    with pytest.raises(RunError, match="did not start"):
        call("fails")
    with pytest.raises(RunError, match="did not start"):
        other.submit(call, "fails").result(SECONDS)
    assert other.submit(call, "other").result(SECONDS).name == "other"
    assert call("main").name == "main"


def test_a_call_within_a_session_of_its_thread_shares_it(sessions: Sessions, other: ThreadPoolExecutor) -> None:
    with spark_session("outer", 1) as outer:
        assert call("inner") is outer
        waiting = other.submit(call, "second")
        sessions.said.get(timeout=SECONDS)
        assert call("inner") is outer and sessions.seen == ["outer starts"]
    assert waiting.result(SECONDS).name == "second"


def test_threads_share_a_programs_own_session_without_waiting(sessions: Sessions, other: ThreadPoolExecutor) -> None:
    program = Program(MASTER)
    sessions.set(program)
    with spark_session("main", 1) as shared:
        assert shared is other.submit(call, "other").result(SECONDS) is program
    assert other.submit(running_context).result(SECONDS) is program
    assert sessions.seen == []


def test_a_program_that_starts_a_session_meanwhile_shares_it(sessions: Sessions, other: ThreadPoolExecutor) -> None:
    program = Program(MASTER)
    with session._turn.lock:
        waiting = other.submit(call, "other")
        sessions.said.get(timeout=SECONDS)
        sessions.set(program)
    assert waiting.result(SECONDS) is program


def test_another_calls_session_is_used_for_nothing_else(sessions: Sessions, other: ThreadPoolExecutor) -> None:
    with spark_session("first", 1) as first:
        assert running_context() is first
        assert other.submit(running_context).result(SECONDS) is None
    assert running_context() is None


def test_rows_of_another_calls_session_are_refused(sessions: Sessions, other: ThreadPoolExecutor) -> None:
    program = Program(MASTER)
    with spark_session("first", 1) as first:
        rows: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=first))
        check_lasts(rows)
        with pytest.raises(UsageError, match="a call of sparksplit in another thread has started its Spark session"):
            other.submit(check_lasts, rows).result(SECONDS)
    sessions.set(program)
    rows.sparkSession.sparkContext = program
    other.submit(check_lasts, rows).result(SECONDS)


def test_a_session_that_is_still_stopping_is_waited_for(
    sessions: Sessions, other: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take what runs on it along. Under spark-submit, nobody ends Spark's processes before."""
    monkeypatch.setattr(own_session, "STOP_SECONDS", SECONDS)
    sessions.slow = True
    first = call("first")
    assert SparkContext._active_spark_context is first and running_context() is None
    sessions.slow = False
    waiting = other.submit(call, "second")
    sessions.await_line("waiting for Spark to stop the session of an earlier call, ")
    assert sessions.seen == ["first starts", "first stops"]
    sessions.set(None)
    assert waiting.result(SECONDS).name == "second"


def test_a_session_that_does_not_stop_is_not_waited_for_for_ever(
    sessions: Sessions, other: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_session, "STOP_SECONDS", 0.01)
    sessions.slow = True
    call("first")
    for again in (lambda: call("second"), lambda: other.submit(call, "third").result(SECONDS)):
        with pytest.raises(RunError, match=r"^Spark has not stopped the session of an earlier call, even after 0\.01 "):
            again()
    # The program has its own, once Spark has stopped.
    program = Program(MASTER)
    sessions.set(program)
    assert call("fourth") is program is running_context()


def test_a_call_is_told_how_long_it_has_waited(sessions: Sessions, other: ThreadPoolExecutor) -> None:
    waits: list[float] = []
    with spark_session("first", 1):
        waiting = other.submit(call, "second", waited=waits.append)
        sessions.await_line("waiting for a call in another thread to stop its Spark session, ")
        assert waits == []
    waiting.result(SECONDS)
    assert len(waits) == 1 and waits[0] > 0.01  # a line comes after 0.02 s


def test_ctrl_c_ends_the_wait_alone(sessions: Sessions, other: ThreadPoolExecutor) -> None:
    begun, go_on, main = threading.Event(), threading.Event(), threading.get_ident()

    def hold() -> None:
        with spark_session("first", 1):
            begun.set()
            sessions.said.get(timeout=SECONDS)
            signal.pthread_kill(main, signal.SIGINT)
            assert go_on.wait(SECONDS)

    holding = other.submit(hold)
    assert begun.wait(SECONDS)
    with pytest.raises(KeyboardInterrupt):
        call("second")
    assert sessions.seen == ["first starts"]
    go_on.set()
    holding.result(SECONDS)
    assert other.submit(call, "third").result(SECONDS).name == "third"
    assert call("fourth").name == "fourth"


IN_CLUSTER = {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}


@pytest.fixture
def on_yarn(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A driver that spark-submit has started, with these settings of Spark."""
    settings = dict(IN_CLUSTER)

    def start(wanted: dict[str, str], *_: object) -> None:
        sessions.seen.append(f"{wanted['spark.app.name']} starts")
        sessions.set(Program("yarn"))

    monkeypatch.setattr(session, "_started", [])
    monkeypatch.setattr(session.user_settings, "submitted", lambda: True)
    monkeypatch.setattr(session.user_settings, "configured", lambda: settings)
    monkeypatch.setattr(own_session, "start", start)
    return settings


def test_yarn_is_shown_a_session_once_and_later_calls_use_it(sessions: Sessions, on_yarn: dict[str, str]) -> None:
    """YARN takes a driver that has not started Spark for a failed one, and lets it start Spark only once."""
    for _ in range(2):
        satisfy_yarn()
        assert call("later").master == "yarn"
    assert sessions.seen == ["sparksplit starts"]


@pytest.mark.parametrize("settings", [{"spark.submit.deployMode": "client"}, {"spark.master": "spark://host:7077"}])
def test_elsewhere_nobody_waits_for_a_session(
    sessions: Sessions, on_yarn: dict[str, str], settings: dict[str, str]
) -> None:
    on_yarn |= settings
    satisfy_yarn()
    assert sessions.seen == []


def test_a_programs_own_session_is_enough_for_yarn(sessions: Sessions, on_yarn: dict[str, str]) -> None:
    sessions.set(Program("yarn"))
    satisfy_yarn()
    assert sessions.seen == []


def test_a_program_that_has_stopped_its_session_ends_well(
    on_yarn: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RunError("Spark did not start: Promise already completed")

    monkeypatch.setattr(own_session, "start", refuse)
    satisfy_yarn()


def test_in_a_forked_process_the_turn_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that has the turn is not there."""
    monkeypatch.setattr(session._turn, "thread", threading.get_ident() + 1)
    before = session._turn.lock
    child = os.fork()
    if child == 0:
        os._exit(0 if session._turn.thread is None and session._turn.lock is not before else 1)
    assert os.waitpid(child, 0)[1] == 0 and session._turn.lock is before


PROGRAM = """
import threading
from sparksplit.spark.session import spark_session

def work(name, number):
    begin.wait()
    with spark_session(name, number) as spark:
        conf = spark.sparkContext.getConf()
        rows = spark.sparkContext.parallelize(range(6), number)
        print(conf.get("spark.app.name"), conf.get("spark.master"), rows.sum(), flush=True)

begin = threading.Barrier(2)
threads = [threading.Thread(target=work, args=[name, number]) for number, name in enumerate(["one", "two"], 1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.cluster
@pytest.mark.slow
def test_two_threads_that_begin_at_once_each_have_their_own_spark(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    wanted = ["one local-cluster[1,1,1024] 15", "two local-cluster[2,1,1024] 15"]
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, wanted), done.stderr
    said = without_times(done.stderr).splitlines()
    starting = "Starting Spark on this machine: local-cluster"
    assert all(line.startswith((starting, "waiting for ")) for line in said) and list(tmp_path.iterdir()) == []
