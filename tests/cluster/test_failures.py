"""What happens when nodes fail on a real local cluster: who is named, how soon, and that the next run works."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from sparksplit.base.errors import ConfigError, NodeFailed, UsageError
from sparksplit.cluster import NodeCluster
from sparksplit.cluster.deadlines import Limits

WORKS = "tests.cluster.works"
NODES = 3
AT_ONCE = 9
"""Seconds: sooner than silence tells (wire.DEAD), however busy the machine; on an idle one below two."""
EXECUTORS = 4
"""Of the session's local cluster."""


class Sufferers:
    """The nodes of one run, from what they report of themselves; does something to them once all have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.acted = 0.0
        self.facts: list[dict[str, Any]] = []

    def await_all(self) -> None:
        files = [self.folder / f"{rank}.json" for rank in range(NODES)]
        while not all(file.exists() for file in files):
            time.sleep(0.01)
        self.facts = [json.loads(file.read_text()) for file in files]
        self.acted = time.monotonic()

    def act(self, action: Callable[[dict[str, Any]], None]) -> threading.Thread:
        """Do it to rank 1."""

        def wait_and_act() -> None:
            self.await_all()
            action(self.facts[1])

        thread = threading.Thread(target=wait_and_act, daemon=True)
        thread.start()
        return thread


@pytest.fixture
def sufferers(tmp_path: Path, spark: SparkSession) -> Iterator[Sufferers]:
    """Afterwards: the next run works in the same SparkContext, and of this one nothing is left."""
    driver = psutil.Process()
    with NodeCluster(spark, NODES, f"{WORKS}:greet", {}) as cluster:
        cluster.run()
    before = _listening(driver), driver.num_threads()
    sufferers = Sufferers(tmp_path)
    yield sufferers
    alive = [process for facts in sufferers.facts if (process := _process(facts["pid"]))]
    assert not psutil.wait_procs(alive, timeout=10)[1]
    begin = time.monotonic()
    # One on every executor: what a killed worker has left is removed by the next node in its place.
    with NodeCluster(spark, EXECUTORS, f"{WORKS}:greet", {}) as cluster:
        results = cluster.run()
    print(f"next run after {time.monotonic() - begin:.2f} s")
    assert [result["rank"] for result in results] == list(range(EXECUTORS))
    assert not [facts["local_dir"] for facts in sufferers.facts if Path(facts["local_dir"]).exists()]
    assert _listening(driver) == before[0]
    assert driver.num_threads() <= before[1] + 3


def _listening(process: psutil.Process) -> set[int]:
    return {c.laddr.port for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}


def fail(
    spark: SparkSession,
    sufferers: Sufferers,
    payload: dict[str, Any],
    error: type[Exception] = NodeFailed,
    **options: Any,
) -> tuple[Exception, float]:
    """Run to failure: what is raised, and how many seconds after the fault."""
    given = {"folder": str(sufferers.folder), "rank": 1, **payload}
    with (
        pytest.raises(error) as caught,
        NodeCluster(spark, NODES, f"{WORKS}:suffer", given, **options) as cluster,
    ):
        cluster.run()
    return caught.value, time.monotonic() - sufferers.acted


@pytest.mark.parametrize("echo", [False, True])
def test_an_exception_is_named_with_rank_host_and_type(
    spark: SparkSession, sufferers: Sufferers, caplog: pytest.LogCaptureFixture, echo: bool
) -> None:
    sufferers.act(lambda facts: None)
    error, seconds = fail(spark, sufferers, {"how": "raise", "echo": echo})
    text, log = re.fullmatch(r"(.*) \[executor \d, (.*)]", str(error)).groups()  # type: ignore[union-attr]
    assert text == f"node 1 on {socket.gethostname()}: ValueError: a text of two lines"
    assert "these are my last words" in Path(log).read_text()
    assert isinstance(error, NodeFailed)
    assert error.rank == 1
    assert seconds < AT_ONCE
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "node 1| these are my last words" in lines
    assert any("Traceback" in line for line in lines)


def test_the_first_cause_is_named_though_its_echo_came_first(spark: SparkSession, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: None)
    error, _ = fail(spark, sufferers, {"how": "slowly", "echo": True})
    assert "ValueError: the first cause [executor " in str(error)


def test_a_usage_error_keeps_its_text(
    spark: SparkSession, sufferers: Sufferers, caplog: pytest.LogCaptureFixture
) -> None:
    sufferers.act(lambda facts: None)
    error, _ = fail(spark, sufferers, {"how": "usage"}, UsageError)
    assert str(error) == "model.build: its output (None, 7) does not fit the 10 classes"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_exit_is_named_with_its_status(spark: SparkSession, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: None)
    error, seconds = fail(spark, sufferers, {"how": "exit"})
    assert re.fullmatch(
        r"node 1 on \S+: ended with exit status 7 and without a result \[executor \d, \S+/stderr]", str(error)
    )
    assert seconds < AT_ONCE


@pytest.mark.parametrize(("work", "text"), [("no_result", "must return a dict"), ("no_json", "not JSON serializable")])
def test_a_wrong_result_is_the_nodes_error(spark: SparkSession, sufferers: Sufferers, work: str, text: str) -> None:
    with pytest.raises(NodeFailed, match=rf"node \d on \S+: TypeError: .*{text}"):
        NodeCluster(spark, NODES, f"{WORKS}:{work}", {}).run()


def test_a_missing_work_function_is_the_nodes_error(spark: SparkSession, sufferers: Sufferers) -> None:
    with pytest.raises(NodeFailed, match=r"node \d on \S+: ModuleNotFoundError: No module named 'tests.nothing'"):
        NodeCluster(spark, NODES, "tests.nothing:work", {}).run()


def test_a_killed_node_is_named_at_once(spark: SparkSession, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: os.kill(facts["pid"], signal.SIGKILL))
    error, seconds = fail(spark, sufferers, {"echo": True})
    assert re.match(r"node 1 on \S+: was ended by SIGKILL", str(error))
    print(f"named after {seconds:.2f} s")
    assert seconds < AT_ONCE


def test_a_killed_python_worker_is_named_at_once(spark: SparkSession, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: os.kill(facts["launcher"], signal.SIGKILL))
    error, seconds = fail(spark, sufferers, {"echo": True})
    assert re.match(r"node 1 on \S+: lost with the Python worker that held it", str(error))
    print(f"named after {seconds:.2f} s")
    assert seconds < AT_ONCE


def test_a_killed_executor_is_named_at_once_and_replaced(spark: SparkSession, sufferers: Sufferers) -> None:
    def kill_executor(facts: dict[str, Any]) -> None:
        java = next(p for p in psutil.Process(facts["launcher"]).parents() if "java" in p.name())
        assert any("CoarseGrainedExecutorBackend" in word for word in java.cmdline())
        java.kill()

    sufferers.act(kill_executor)
    error, seconds = fail(spark, sufferers, {"echo": True})
    assert re.match(r"node 1 on \S+: (lost with the Python worker that held it|its executor was lost)", str(error))
    print(f"named after {seconds:.2f} s: {error}")
    assert seconds < AT_ONCE


@pytest.mark.slow
def test_an_executor_that_stands_still_is_replaced(spark: SparkSession, sufferers: Sufferers) -> None:
    """As its host may: Spark would notice it after two minutes, and wait for it to take the next run's task."""
    still: list[psutil.Process] = []

    def stop(facts: dict[str, Any]) -> None:
        launcher = psutil.Process(facts["launcher"])
        java = next(p for p in launcher.parents() if "java" in p.name())
        still.extend((java, launcher, psutil.Process(facts["pid"])))
        for process in still:
            process.suspend()

    sufferers.act(stop)
    error, seconds = fail(spark, sufferers, {})
    assert "has been silent for" in str(error)
    assert seconds < 29  # wire.DEAD and stuck.PATIENCE; not cluster.ENDING beside
    java, *others = still
    assert not psutil.wait_procs([java], timeout=30)[1]
    for process in others:  # the host is back
        with suppress(psutil.NoSuchProcess):  # the kernel wakes and hangs up on a group whose last parent has gone
            process.resume()


def is_executor(process: psutil.Process) -> bool:
    with suppress(psutil.Error):  # it may end while it is looked at
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    return False


@pytest.mark.slow
def test_an_executor_that_stands_still_before_its_node_has_called_is_replaced(
    spark: SparkSession, sufferers: Sufferers
) -> None:
    """What ends the start may pass, so that a run is tried again; start_timeout is two minutes."""
    java = next(p for p in psutil.Process().children(recursive=True) if is_executor(p))
    java.suspend()
    begin = time.monotonic()
    silent = r"^node \d was not started: executor \d+ has been silent for 11 s"
    with (
        pytest.raises(NodeFailed, match=silent) as caught,
        NodeCluster(spark, EXECUTORS, f"{WORKS}:greet", {}) as cluster,
    ):
        cluster.run()
    assert caught.value.may_pass
    assert time.monotonic() - begin < 60
    assert not psutil.wait_procs([java], timeout=30)[1]


@pytest.mark.parametrize("who", ["pid", pytest.param("launcher", marks=pytest.mark.slow)])
def test_a_stopped_process_is_named_within_fifteen_seconds(spark: SparkSession, sufferers: Sufferers, who: str) -> None:
    sufferers.act(lambda facts: os.kill(facts[who], signal.SIGSTOP))
    error, seconds = fail(spark, sufferers, {})
    assert re.match(r"node 1 on \S+: .*has been silent for 1\d s", str(error))
    assert ("the Python worker" in str(error)) == (who == "launcher")
    print(f"named after {seconds:.2f} s")
    assert 7 < seconds < 30


def test_a_hanging_node_is_named_after_the_stall_timeout(
    spark: SparkSession, sufferers: Sufferers, caplog: pytest.LogCaptureFixture
) -> None:
    sufferers.act(lambda facts: None)
    error, seconds = fail(spark, sufferers, {"how": "hang"}, limits=Limits(4))
    assert re.match(r"node 1 on \S+: beats but has made no progress for \d s, at update 3", str(error))
    print(f"named after {seconds:.2f} s")
    assert seconds < 50  # the automatic limit is a minute
    assert any(re.search(r"node 1\|.*works.py.* in suffer", record.getMessage()) for record in caplog.records)


def test_more_nodes_than_executors_is_a_configuration_error_at_once(spark: SparkSession) -> None:
    begin = time.monotonic()
    with pytest.raises(ConfigError, match="nodes: 5 nodes need 5 executors and there are 4"):
        NodeCluster(spark, 5, f"{WORKS}:greet", {})
    assert time.monotonic() - begin < 60  # the start may take two minutes


def test_a_failure_before_registration_is_named(
    spark: SparkSession, sufferers: Sufferers, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparksplit.cluster import tensorflowonspark

    monkeypatch.setattr(tensorflowonspark, "map_fun", _Unpicklable())
    with pytest.raises(NodeFailed, match=r"node \d on \S+: before its start: ZeroDivisionError: in an executor"):
        NodeCluster(spark, NODES, f"{WORKS}:greet", {}).run()


def test_a_failure_before_the_task_is_the_spark_jobs(
    spark: SparkSession, sufferers: Sufferers, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparksplit.cluster import tensorflowonspark

    monkeypatch.setattr(tensorflowonspark, "NodeTask", lambda pickled, post: _Unpicklable())
    ended = r"^Spark ended the nodes' job: a task failed: ZeroDivisionError: in an executor$"
    with pytest.raises(NodeFailed, match=ended):
        NodeCluster(spark, NODES, f"{WORKS}:greet", {}).run()


class _Unpicklable:
    """Fails where an executor unpickles it, which is before the node's place is reserved."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return _raise, ("in an executor",)


def _raise(text: str) -> None:
    raise ZeroDivisionError(text)


def test_busy_executors_end_the_start_in_time(spark: SparkSession, sufferers: Sufferers) -> None:
    folder = sufferers.folder

    def occupy(number: int) -> None:
        (folder / f"busy-{number}").touch()
        while not (folder / "go-on").exists():
            time.sleep(0.02)

    thread = threading.Thread(target=lambda: spark.sparkContext.parallelize([0, 1], 2).foreach(occupy), daemon=True)
    thread.start()
    while len(list(folder.glob("busy-*"))) < 2:
        time.sleep(0.02)
    with pytest.raises(NodeFailed, match="2 of 3 nodes have registered within 1 s"):
        NodeCluster(spark, NODES, f"{WORKS}:greet", {}, limits=Limits(start_timeout=1)).run()
    (folder / "go-on").touch()
    thread.join()


def test_an_interrupted_driver_asks_for_an_orderly_end(spark: SparkSession, sufferers: Sufferers) -> None:
    def interrupt(rank: int, state: dict[str, Any]) -> None:
        if all((sufferers.folder / f"{rank}.json").exists() for rank in range(NODES)):
            raise KeyboardInterrupt

    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        NodeCluster(spark, NODES, f"{WORKS}:stop_and_tell", {"folder": str(sufferers.folder)}, on_state=interrupt).run()
    assert sorted(file.name for file in sufferers.folder.glob("*.stopped")) == [f"{r}.stopped" for r in range(NODES)]
    assert time.monotonic() - begin < 50  # works.py would wait for a minute
    for file in sufferers.folder.glob("*.json"):
        assert not psutil.pid_exists(json.loads(file.read_text())["pid"])


def test_close_ends_nodes_that_still_work(spark: SparkSession, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: None)
    cluster = NodeCluster(spark, NODES, f"{WORKS}:suffer", {"folder": str(sufferers.folder), "rank": 9})
    cluster.start()
    while not sufferers.facts:
        time.sleep(0.01)
    begin = time.monotonic()
    cluster.close()
    cluster.close()
    assert time.monotonic() - begin < 19  # cluster.ENDING is 20


def test_an_error_in_the_callback_ends_the_nodes(spark: SparkSession, sufferers: Sufferers) -> None:
    def callback(rank: int, state: dict[str, Any]) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        NodeCluster(spark, NODES, f"{WORKS}:busy", {}, on_state=callback).run()


def _process(pid: int) -> psutil.Process | None:
    """None for an ended process, also where its new parent has not asked for its exit status."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.NoSuchProcess:
        return None
