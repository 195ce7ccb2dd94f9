"""What happens when nodes fail on a real local cluster, where that matters: who is named, and the next run works."""

from __future__ import annotations

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

from sparksplit.base.errors import Cancelled, NodeFailed
from sparksplit.cluster import NodeCluster
from sparksplit.cluster.deadlines import Limits
from tests.cluster.sufferers import EXECUTORS, NODES, WORKS, Sufferers, fail, greeted, suffering

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def warm(spark: SparkSession) -> None:
    greeted(spark)


@pytest.fixture
def sufferers(tmp_path: Path, spark: SparkSession, warm: None) -> Iterator[Sufferers]:
    with suffering(tmp_path, spark) as found:
        yield found


def test_an_exception_is_named_with_rank_host_and_type(
    spark: SparkSession, sufferers: Sufferers, caplog: pytest.LogCaptureFixture
) -> None:
    sufferers.act(lambda facts: None)
    error = fail(spark, sufferers, {"how": "raise"})
    # The logs of a cluster that sparksplit starts end with it.
    place = rf"node 1 on {socket.gethostname()}: ValueError: a text of two lines \[executor \d]"
    assert re.fullmatch(place, str(error))
    assert isinstance(error, NodeFailed)
    assert error.rank == 1
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "node 1| these are my last words" in lines
    assert any("Traceback" in line for line in lines)


def test_a_killed_python_worker_is_named_at_once(spark: SparkSession, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: os.kill(facts["launcher"], signal.SIGKILL))
    error = fail(spark, sufferers, {"echo": True})
    assert re.match(r"node 1 on \S+: lost with the Python worker that held it", str(error))


def test_a_killed_executor_is_named_at_once_and_replaced(spark: SparkSession, sufferers: Sufferers) -> None:
    def kill_executor(facts: dict[str, Any]) -> None:
        java = next(p for p in psutil.Process(facts["launcher"]).parents() if "java" in p.name())
        assert any("CoarseGrainedExecutorBackend" in word for word in java.cmdline())
        java.kill()

    sufferers.act(kill_executor)
    error = fail(spark, sufferers, {"echo": True})
    assert re.match(r"node 1 on \S+: (lost with the Python worker that held it|its executor was lost)", str(error))


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
    error = fail(spark, sufferers, {})
    assert "has been silent for" in str(error)
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
    """What ends the start may pass, so that a run is tried again; start_timeout is five minutes."""
    java = next(p for p in psutil.Process().children(recursive=True) if is_executor(p))
    java.suspend()
    silent = r"^node \d was not started: executor \d+ has been silent for \d\d s"
    with (
        pytest.raises(NodeFailed, match=silent) as caught,
        NodeCluster(spark, EXECUTORS, f"{WORKS}:greet", {}) as cluster,
    ):
        cluster.run()
    assert caught.value.may_pass
    assert not psutil.wait_procs([java], timeout=30)[1]


@pytest.mark.slow
def test_a_stopped_python_worker_is_named_after_ten_silent_seconds(spark: SparkSession, sufferers: Sufferers) -> None:
    sufferers.act(lambda facts: os.kill(facts["launcher"], signal.SIGSTOP))
    error = fail(spark, sufferers, {})
    assert re.match(r"node 1 on \S+: the Python worker that holds it has been silent for \d\d s", str(error))


@pytest.mark.slow
def test_a_python_worker_that_is_stopped_before_it_has_called_is_named_after_ten_seconds(
    spark: SparkSession, sufferers: Sufferers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is stopped before its call: tests/faults/test_first_seconds.py."""
    from sparksplit.cluster import tensorflowonspark

    monkeypatch.setattr(tensorflowonspark, "map_fun", _stopped)
    error = fail(spark, sufferers, {})
    assert re.match(r"node 1 on \S+: the Python worker that holds it has been silent for \d\d s", str(error))
    assert isinstance(error, NodeFailed) and error.may_pass


def _stopped(arguments: dict[str, Any], context: Any) -> None:
    """The launcher of rank 1 stops itself before its call."""
    from sparksplit.cluster import launcher

    if context.executor_id == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    launcher.map_fun(arguments, context)


def test_a_job_that_is_killed_in_sparks_pages_is_not_started_again(spark: SparkSession, sufferers: Sufferers) -> None:
    def kill(facts: dict[str, Any]) -> None:
        for job in spark.sparkContext.statusTracker().getActiveJobsIds():
            spark.sparkContext._jsc.sc().cancelJob(job)

    sufferers.act(kill)
    error = fail(spark, sufferers, {"echo": True}, Cancelled)
    assert re.match(
        r"someone has cancelled the nodes' Spark job: (\[SPARK_JOB_CANCELLED\] )?Job \d+ cancelled", str(error)
    )


def test_a_hanging_node_is_named_after_the_stall_timeout(
    spark: SparkSession, sufferers: Sufferers, caplog: pytest.LogCaptureFixture
) -> None:
    sufferers.act(lambda facts: None)
    error = fail(spark, sufferers, {"how": "hang"}, limits=Limits(4))
    assert re.match(r"node 1 on \S+: is alive but has made no progress for \d+ s, at update 3", str(error))
    assert any(re.search(r"node 1\|.*works.py.* in suffer", record.getMessage()) for record in caplog.records)


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
    with pytest.raises(NodeFailed, match=r"[0-2] of 3 nodes have registered within 1 s"):
        NodeCluster(spark, NODES, f"{WORKS}:greet", {}, limits=Limits(start_timeout=1)).run()
    (folder / "go-on").touch()
    thread.join()
