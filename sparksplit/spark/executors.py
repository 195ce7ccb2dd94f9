"""Spark's executors: count them, list the lost ones, and wait until there are enough."""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from sparksplit.base.progress import Lines
from sparksplit.spark.manager import Manager
from sparksplit.spark.reasons import NOT_TAKEN, spark_reason
from sparksplit.spark.session import spark_session
from sparksplit.spark.settings.requirements import NoExecutors, Problem, is_on, is_standalone, why_few
from sparksplit.spark.waiting import Patience, Seen, Wait
from sparksplit.spark.workers import said_by_an_executor

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.1
_LOOK_SECONDS = 1.0
_END_SECONDS = 5.0
_TAG = "sparksplit-waits-"
_ANY = Problem("executors", "this command needs one")

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
        if re.fullmatch(r"local(\[.*\])?", str(sc.master)):  # a local master has no executors
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
    if any(tag.startswith(_TAG) for tag in sc.getJobTags()):  # an outer block watches
        yield
        return
    watch = _Watch(sc, patience)
    sc.addJobTag(watch.tag)
    watch.thread.start()
    try:
        yield
    except Exception as error:
        watch.end()
        if watch.failure is None:
            raise
        raise watch.failure from error
    finally:
        watch.end()
        try:
            sc.removeJobTag(watch.tag)
        except Exception as error:  # report the error that ended Spark
            log.debug("the jobs keep their tag: %s", error)


class _Watch:
    """Look at the executors in a thread, while this thread's jobs run.

    tag: Spark's tag of these jobs. Other jobs of a program's own session are never ended.
    failure: why the jobs were ended; None: they were not.
    """

    def __init__(self, sc: SparkContext, patience: Patience) -> None:
        self._sc, self._patience = sc, patience
        self.tag = f"{_TAG}{secrets.token_hex(4)}"
        self.failure: NoExecutors | None = None
        self._over = threading.Event()
        self.thread = threading.Thread(target=self._look, name="the executors' watch", daemon=True)

    def end(self) -> None:
        """Stop looking. The thread may still wait for a JVM that does not answer."""
        if not self._over.is_set():
            self._over.set()
            self.thread.join(_END_SECONDS)

    def _look(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            try:
                if self.failure is not None:
                    self._sc.cancelJobsWithTag(self.tag)  # again and again: the next job would wait, too
                elif self._lacking():
                    await_executors(self._sc, 1, _ANY, self._patience, self._lacking)
            except NoExecutors as error:
                self.failure = error
            except Exception as error:  # if the JVM has ended, the jobs have ended, too
                log.debug("the executors cannot be looked at: %s", error)

    def _lacking(self) -> bool:
        """Whether a job waits, and Spark has no executor."""
        if self._over.is_set() or executors_of(self._sc) > 0:
            return False
        jobs, store = self._sc.statusTracker().getActiveJobsIds(), self._sc._jsc.sc().statusStore()
        return any(store.job(job).jobTags().contains(self.tag) for job in jobs)


def await_executors(
    sc: SparkContext, needed: int, what: Problem, patience: Patience, wanted: Callable[[], bool] = lambda: True
) -> float:
    """Wait until `needed` executors have registered. Log a line every ten seconds. Return for how many seconds all of
    them have been granted.

    what: the key that asks for the executors, and the need, such as `2 nodes need 3 executors`.
    wanted: whether they are still needed. If not, return at once.

    Raise NoExecutors once a limit of `patience` has passed, with the numbers and the executors lost so far. Raise it
    at once if Spark's master has ended the application.
    """
    wait, lines = Wait(needed, patience, time.monotonic()), Lines()
    settings = dict(sc.getConf().getAll())
    with Manager(sc) as manager:
        while True:
            seen = Seen(executors_of(sc), manager.granted)
            wait.look(seen, time.monotonic())
            if seen.executors >= needed:
                return wait.seconds["start"]
            if sc._jsc.sc().isStopped():
                raise NoExecutors(ended(sc, settings, manager.pages))
            if wait.over:
                said = None if seen.executors else said_by_an_executor(sc, manager.pages)
                why = why_few(settings, seen.executors) if said is None else f"an executor failed at its start: {said}"
                raise NoExecutors(wait.failure(what, seen, lost_executors(sc), why, where_logs_are(settings)))
            if not wanted():
                return wait.seconds["start"]
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
    """Return the executors that Spark has lost, in the order of the losses. since: seconds since 1970."""
    losses = []
    for place in range((executors := sc._jsc.sc().statusStore().executorList(False)).size()):
        one = executors.apply(place)
        if not one.isActive() and one.removeTime().isDefined():
            reason = spark_reason(one.removeReason().get()) if one.removeReason().isDefined() else ""
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
