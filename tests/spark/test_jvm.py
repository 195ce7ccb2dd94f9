"""Questions to a JVM that stands still: they end, a signal ends them too, and other threads wait as before."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from sparksplit.api.results import Predictions
from sparksplit.base.errors import InputError, Interrupted, NodeFailed, RunError
from sparksplit.cluster import stuck
from sparksplit.cluster.requirements import explained
from sparksplit.cluster.tensorflowonspark import Job
from sparksplit.handoff.feeding import check_columns
from sparksplit.handoff.job import FeedJob
from sparksplit.spark import jvm as limits
from sparksplit.spark import session
from sparksplit.spark.interrupts import interruptible, py4j_quiet
from sparksplit.spark.job_names import described
from sparksplit.spark.jvm import limited, watched
from tests.jvm import Context, jvm


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(limits, "PATIENCE", 0.05)
    monkeypatch.setattr(limits, "AGAIN", 0.01)
    monkeypatch.setattr(limits, "SILENCE", 0.2)
    monkeypatch.setattr(limits, "LOOK", 0.02)
    with py4j_quiet():
        yield


def timeout_of(context: Context) -> float | None:
    connection = context._gateway._gateway_client.get_thread_connection()
    return connection.socket.gettimeout()  # type: ignore[no-any-return]


def test_what_is_answered_is_as_before_and_later_calls_wait_for_ever_again() -> None:
    with jvm() as context:
        context.anything()
        for _ in range(2):
            with limited(context._gateway):
                context.anything()
                assert timeout_of(context) == pytest.approx(0.05, abs=0.05)
            assert timeout_of(context) is None
        context.anything()


def test_within_another_limit_that_one_counts_again_afterwards() -> None:
    with jvm() as context, limited(context._gateway):
        context.anything()
        with limited(context._gateway):
            context.anything()
        assert timeout_of(context) is not None


@pytest.mark.parametrize("answers", [0, 1])
def test_a_jvm_that_stands_still_is_named_and_not_waited_for_as_long_again(answers: int) -> None:
    """Where a connection is made, or is there already."""
    with jvm(answers) as context:
        for _ in range(3):
            message = "Spark's JVM does not answer: it is stopped, or"
            with pytest.raises(RunError, match=message), limited(context._gateway):
                context.anything()
            assert limits.limits_of(context._gateway._gateway_client).patience == limits.AGAIN


@pytest.mark.parametrize("answers", [0, 1, 2])
def test_a_call_that_may_take_hours_ends_where_the_jvm_stands_still(answers: int) -> None:
    """Before the call's connection is made, in the call, and in one that comes later; what cleans up does not wait."""
    with (
        jvm(answers) as context,
        pytest.raises(RunError, match="Spark's JVM does not answer"),
        watched(context._gateway),
    ):
        try:
            for _ in range(3):
                context.collect()
        finally:
            assert limits.limits_of(context._gateway._gateway_client).read_timeout == limits.AGAIN
            with suppress(Py4JError):
                context.unpersist()
    assert limits.limits_of(context._gateway._gateway_client).watched == {}


@pytest.mark.parametrize("error", [InputError("rows.csv: is damaged"), NodeFailed("node 3: out of memory", 3)])
def test_what_is_known_better_stays_what_it_is_though_the_jvm_is_silent(error: Exception) -> None:
    with jvm(1) as context, pytest.raises(type(error)) as caught, watched(context._gateway):
        with suppress(RunError), limited(context._gateway):
            context.collect()
            context.collect()
        raise error
    assert caught.value is error


def test_after_a_silence_without_a_call_another_error_stays_what_it_is() -> None:
    with jvm(2) as context, pytest.raises(ZeroDivisionError), watched(context._gateway):
        context.collect()
        time.sleep(0.5)
        raise ZeroDivisionError


def test_a_call_may_take_longer_than_a_jvm_that_stands_still_is_waited_for() -> None:
    with jvm() as context, watched(context._gateway):
        context.collect(what="slow")
        with watched(context._gateway):
            context.collect(what="slow")
        assert timeout_of(context) is None


def test_an_error_of_another_kind_stays_what_it_is() -> None:
    with jvm() as context, pytest.raises(ZeroDivisionError), limited(context._gateway):
        context.anything()
        raise ZeroDivisionError


def test_other_threads_have_no_limit() -> None:
    found: list[float | None] = []

    def ask(context: Context) -> None:
        context.anything()
        found.append(timeout_of(context))

    with jvm() as context, limited(context._gateway):
        thread = threading.Thread(target=ask, args=[context])
        thread.start()
        thread.join()
    assert found == [None]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("answers", [0, 1])
def test_a_signal_ends_a_call_and_what_cleans_up_where_the_jvm_stands_still(
    signum: signal.Signals, answers: int
) -> None:
    """The call, the cancelling in the handler, and each call of what cleans up would wait for ever."""
    sent: list[int] = []

    def press() -> None:
        if not sent:
            sent.append(signum)
            os.kill(os.getpid(), signum)

    def stop(number: int, frame: object) -> None:
        raise Interrupted(number)

    before = signal.getsignal(signum)
    try:
        with jvm(answers, press) as context:
            with pytest.raises(Interrupted) as caught, interruptible({signum: stop}, cast("Any", context)):
                try:
                    context.collect()
                finally:
                    context.unpersist()
            assert caught.value.signum == signum
    finally:
        signal.signal(signum, before)


def test_after_a_signal_a_jvm_that_answers_may_take_its_time_again() -> None:
    """What cleans up may ask for more than it gives at once, and so may a program that goes on."""
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        noted.append(number)

    noted: list[int] = []
    try:
        with jvm() as context, interruptible({signal.SIGINT: note}, cast("Any", context)):
            context.collect()
            signal.raise_signal(signal.SIGINT)
            context.collect()
            assert timeout_of(context) is None
        assert noted == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_ends_of_jobs_do_not_wait_for_a_jvm_that_stands_still() -> None:
    with jvm(0) as context:
        sc: Any = context
        job = Job(sc, "ours", 1, {})
        assert not job.active()
        job.cancel()
        assert job.host_of(0) is None and job.holders() == {} and job.free() == [] and job._lost_executor() is None
        assert not stuck.replace(sc, "1")
        job._status["error"] = "its executor was lost"
        assert not job.cancelled
        lost, spark = NodeFailed("node 1: lost", 1, executor_lost=True), SimpleNamespace(sparkContext=sc)
        assert explained(lost, cast("Any", spark), 0.0) is lost
        frame: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
        feed = FeedJob(frame, None, 1, "", 1, [[0]], lambda: None)
        feed._thread = threading.Thread(target=threading.Event().wait, args=[0.1])
        feed._thread.start()
        feed.close()
        feed._thread.join()


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize("answers", [0, 100])
def test_a_program_that_ends_without_stopping_spark_stops_what_ends_with_it(
    monkeypatch: pytest.MonkeyPatch, is_ours: bool, answers: int
) -> None:
    """Not another's JVM, such as spark-submit's; and one that stands still keeps no program."""
    with jvm(answers) as context:
        said: list[str] = []
        client = context._gateway._gateway_client
        own = SimpleNamespace(_gateway_client=client, proc=object() if is_ours else None, jvm=MagicMock())
        stop = lambda: said.append("asked") or context.stop() or said.append("stopped")  # noqa: E731
        active = SimpleNamespace(_jsc=SimpleNamespace(stop=stop))
        monkeypatch.setattr(SparkContext, "_gateway", own)
        monkeypatch.setattr(SparkContext, "_active_spark_context", active)
        session._stop_at_exit(os.getpid() + 1)  # as a forked child would: the session is its parent's
        assert said == []
        session._stop_at_exit(os.getpid())
        monkeypatch.undo()
    assert said == (["asked", "stopped"] if answers else ["asked"]) * is_ours


def _first_calls(monkeypatch: pytest.MonkeyPatch, context: Context) -> list[Callable[[], object]]:
    """What asks the JVM of a program's own session first."""

    class Frame:
        sparkSession = SimpleNamespace(sparkContext=context)  # noqa: N815
        schema = property(lambda self: context.collect())

    def enter() -> None:
        with session.spark_session("x", executors=1):
            pass

    def name_jobs() -> None:
        with described("open"):
            pass

    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: context.collect())
    frame: Any = Frame()
    predictions = Predictions("/predictions", None)
    return [
        enter,
        session.known_settings,
        lambda: check_columns(frame, cast("Any", None)),
        predictions.frame,
        name_jobs,
    ]


@pytest.mark.parametrize("number", range(5))
def test_the_first_call_into_a_programs_own_jvm_that_stands_still_ends(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with jvm(2) as context:
        context.anything()
        with pytest.raises(RunError, match="Spark's JVM does not answer"):
            _first_calls(monkeypatch, context)[number]()
        monkeypatch.undo()


@pytest.mark.parametrize("number", range(5))
def test_the_first_call_into_a_programs_own_jvm_that_has_ended_is_one_line(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with jvm() as context:
        context.anything()
    with pytest.raises(RunError, match=r"^Spark's JVM has ended\."):
        _first_calls(monkeypatch, context)[number]()
