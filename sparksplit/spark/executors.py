"""Spark's executors: count them, list the lost ones, and wait until there are enough."""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from sparksplit.base.progress import Lines
from sparksplit.spark.manager import Manager
from sparksplit.spark.reasons import ENDED_BY_SPARK, NOT_TAKEN, spark_reason
from sparksplit.spark.session import spark_session
from sparksplit.spark.settings.requirements import (
    NoExecutors,
    Problem,
    has_executors,
    is_on,
    is_standalone,
    why_few,
)
from sparksplit.spark.waiting import Patience, Seen, Wait
from sparksplit.spark.workers import said_by_an_executor

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.1
_LOOK_SECONDS = 1.0
_END_SECONDS = 5.0
LATELY_SECONDS = 120.0
"""Seconds. An executor that was lost longer ago is not the cause of a failure. This is more than ending all nodes
takes."""
_TAG = "sparksplit-waits-"
_ANY = Problem("executors", "this command needs an executor")

log = logging.getLogger(__name__)


@contextmanager
def session_with_executors(
    app_name: str, executors: int, settings: dict[str, str] | None, patience: Patience
) -> Iterator[SparkSession]:
    """Like `spark_session`, for a command without nodes, which works with any number of executors. At least one
    executor exists when the block begins, except with a local master.

    Raise NoExecutors if no executor comes, or if the block's jobs have had no executor for as long. Spark's own jobs
    would wait without a limit.
    """
    with spark_session(app_name, executors, settings, nodes=False) as spark:
        sc = spark.sparkContext
        conf = dict(sc.getConf().getAll())
        if not has_executors({"spark.master": str(sc.master)}):
            yield spark
            return
        if executors_of(sc) == 0 and is_on(conf, "spark.dynamicAllocation.enabled", "false"):
            sc._jsc.sc().requestExecutors(1)  # otherwise the first one starts only with the first job
        await_executors(sc, 1, _ANY, patience)
        with _jobs_watched(sc, patience):
            yield spark


@contextmanager
def _jobs_watched(sc: SparkContext, patience: Patience) -> Iterator[None]:
    """End the jobs of the block once they have waited too long without any executor. The block then raises
    NoExecutors. Without a waiting job, no executor is needed: dynamic allocation ends the idle ones.
    """
    if not _pinned() or any(tag.startswith(_TAG) for tag in sc.getJobTags()):  # an outer block watches
        yield
        return
    watch = _Watch(sc, patience)
    try:
        sc.addJobTag(watch.tag)
        watch.thread.start()
        yield
    except Exception as error:
        if (failure := watch.failure) is None:
            raise
        raise failure from error
    finally:
        watch.end()
        try:
            sc.removeJobTag(watch.tag)
        except Exception as error:  # report the error that ended Spark
            log.debug("the jobs keep their tag: %s", error)


def _pinned() -> bool:
    """Whether each thread has its own thread in the JVM. Otherwise a job may get another thread's tags."""
    return os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"


class _Watch:
    """Look at the executors in a thread, while this thread's jobs run.

    Only `queue_timeout` counts. YARN goes on counting the containers of a lost host for minutes, so its count does not
    tell whether a new executor is granted.

    tag: Spark's tag of these jobs. Other jobs of a program's own session are never ended.
    failure: why jobs were ended; None: none was. It is set before they end, so that their error finds it.
    """

    def __init__(self, sc: SparkContext, patience: Patience) -> None:
        self._sc, self._patience = sc, patience
        self.tag = f"{_TAG}{secrets.token_hex(4)}"
        self.failure: NoExecutors | None = None
        self._wait: Wait | None = None
        self._there = time.time()
        self._lines = Lines()
        self._over = threading.Event()
        self.thread = threading.Thread(target=self._run, name="the executors' watch", daemon=True)

    def end(self) -> None:
        """Stop looking. The thread may still wait for a JVM that does not answer."""
        self._over.set()
        if self.thread.is_alive():
            self.thread.join(_END_SECONDS)

    def _run(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            try:
                self._look()
            except Exception as error:  # if the JVM has ended, the jobs have ended, too
                log.debug("the executors cannot be looked at: %s", error)

    def _look(self) -> None:
        """Look once. Each look begins with Spark's present numbers, so a look that fails does no harm."""
        if executors_of(self._sc) > 0:
            self._wait, self._there = None, time.time()
        elif not self._a_job_waits():
            # After a failure, the next job does not wait as long again.
            self._wait = self._wait if self.failure else None
        else:
            now, none = time.monotonic(), Seen(0)
            self._wait = self._wait or Wait(1, self._patience, now)
            self._wait.look(none, now)
            if self._wait.over:
                self._end_jobs(self._wait)
            else:
                self._lines.say(self._wait.line(none))

    def _end_jobs(self, wait: Wait) -> None:
        settings = dict(self._sc.getConf().getAll())
        why, lost = why_few(settings, 0), lost_executors(self._sc, self._there - _LOOK_SECONDS)
        failure, before = NoExecutors(wait.failure(_ANY, Seen(0), lost, why, where_logs_are(settings))), self.failure
        if executors_of(self._sc) > 0 or not self._a_job_waits():
            return
        self.failure = failure
        try:
            self._sc.cancelJobsWithTag(self.tag)
        except Exception:
            self.failure = before  # no job has ended
            raise

    def _a_job_waits(self) -> bool:
        return any(map(self._is_ours, self._sc.statusTracker().getActiveJobsIds()))

    def _is_ours(self, job: int) -> bool:
        try:
            return bool(self._sc._jsc.sc().statusStore().job(job).jobTags().contains(self.tag))
        except Exception as error:  # Spark's list of jobs lacks this job for a moment
            log.debug("job %s is not known: %s", job, error)
            return False


def await_executors(
    sc: SparkContext,
    needed: int,
    what: Problem,
    patience: Patience,
    since: float | None = None,
    check: Callable[[], None] = lambda: None,
    beside: Callable[[], int] = lambda: 0,
) -> float:
    """Wait until `needed` executors have registered. Log a line every ten seconds. Return for how many seconds all of
    them have been granted.

    what: the key that asks for the executors, and the need, such as `2 nodes need 3 executors`.
    since: executors lost before this time are not named. In seconds since 1970; None: LATELY_SECONDS before the wait.
    check: called meanwhile. An error of `check` ends the wait.
    beside: returns how many executors the caller's other work uses now. They do not count.

    Raise NoExecutors once a limit of `patience` has passed, with the numbers and the executors lost so far. Raise it
    at once if Spark's master has ended the application.
    """
    wait, lines = Wait(needed, patience, time.monotonic()), Lines()
    since = time.time() - LATELY_SECONDS if since is None else since
    settings = dict(sc.getConf().getAll())
    with Manager(sc) as manager:
        while True:
            check()
            seen = Seen(executors_of(sc), manager.granted).without(beside())
            wait.look(seen, time.monotonic())
            if seen.executors >= needed:
                return wait.seconds["start"]
            if sc._jsc.sc().isStopped():
                raise NoExecutors(ended(sc, settings, manager.pages))
            if wait.over:
                said = None if seen.executors else said_by_an_executor(sc, manager.pages)
                why = why_few(settings, seen.executors) if said is None else f"an executor failed at its start: {said}"
                raise NoExecutors(wait.failure(what, seen, lost_executors(sc, since), why, where_logs_are(settings)))
            lines.say(wait.line(seen))
            time.sleep(_POLL_SECONDS)


def ended(sc: SparkContext, settings: Mapping[str, str], pages: Sequence[str]) -> Problem:
    """Return the problem of a Spark that ended by itself before it had executors. pages: of the workers."""
    application = str(sc.applicationId)
    if application.startswith("spark-application-"):  # Spark's own id: the master has given none
        return Problem("spark.master", f"{sc.master} {NOT_TAKEN}")
    said, logs = said_by_an_executor(sc, pages), where_logs_are({**settings, "spark.app.id": application})
    return Problem(
        "executors",
        f"{sc.master} has ended the application {application}: its executors failed at their start"
        f"{f' ({said})' if said else ''}, or someone stopped the application; {logs}",
    )


def where_logs_are(settings: Mapping[str, str]) -> str:
    """Return where to read the executors' own logs, which Spark does not have."""
    application = settings.get("spark.app.id", "APPLICATION")
    if settings.get("spark.master") == "yarn":
        return f"look at `yarn logs -applicationId {application}`"
    if is_standalone(settings):
        return f"look at {application}/*/stderr in the workers' work folders"
    return "look at the executors' logs"


class LostExecutor(NamedTuple):
    """An executor that Spark has lost: `executor 1 on HOST was lost (REASON) [PAGE]`.

    reason: empty if Spark does not know it yet. page: address of its log; empty if it has none.
    """

    id: str
    host: str
    reason: str
    page: str

    def __str__(self) -> str:
        why, page = f" ({self.reason})" if self.reason else "", f" [{self.page}]" if self.page else ""
        return f"executor {self.id} on {self.host} was lost{why}{page}"


def lost_executors(sc: SparkContext, since: float = 0.0) -> list[LostExecutor]:
    """Return the executors that Spark has lost, in the order of the losses. since: seconds since 1970.

    Executors that Spark itself has ended, because they were idle, are not lost.
    """
    losses = []
    for place in range((executors := sc._jsc.sc().statusStore().executorList(False)).size()):
        one = executors.apply(place)
        if not one.isActive() and one.removeTime().isDefined():
            said = str(one.removeReason().get()) if one.removeReason().isDefined() else ""
            if said in ENDED_BY_SPARK:
                continue
            reason = spark_reason(said) if said else ""
            log = one.executorLogs().get("stderr")
            page = str(log.get()) if log.isDefined() else ""
            lost = LostExecutor(str(one.id()), host_in(one.hostPort()), reason, page)
            losses.append((one.removeTime().get().getTime(), lost))
    return [lost for when, lost in sorted(losses) if when >= 1000 * since]


def executors_of(sc: SparkContext) -> int:
    """Return the number of registered executors."""
    return int(sc._jsc.sc().getExecutorIds().size())


def slots_of(sc: SparkContext) -> int:
    """Return the number of task slots of all executors, as Spark's barrier mode counts them."""
    context = sc._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def host_in(place: str) -> str:
    """Return the host in `host:port`. For a new executor, Spark gives only the host: its port is not known yet."""
    return re.sub(r":\d+$", "", place)
