"""A command's Spark session: spark-submit's session, or the session of a local cluster that leaves nothing behind."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from sparksplit.base.errors import RunError, UsageError
from sparksplit.base.progress import say, saying
from sparksplit.spark import own_session
from sparksplit.spark.interrupts import (
    interruptible,
    interruptible_program,
    py4j_quiet,
    stopping_handlers,
    undisturbed,
)
from sparksplit.spark.jvm import limited, watched
from sparksplit.spark.own_python import own_python
from sparksplit.spark.reasons import spark_reason
from sparksplit.spark.settings import user_settings
from sparksplit.spark.settings.masters import await_master, check_known
from sparksplit.spark.settings.requirements import raise_first, standalone_problems, start_problems

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_started: list[bool] = []  # not empty once this process has started Spark
_LOOK_SECONDS = 0.05


class _Turn:
    """The right to start a session in this process. A call has it until its session has stopped.

    pyspark has one session for each process. A call that used the session of a call in another thread would lose the
    session with that call's end, and would not have its own settings.

    lock: held by the call's thread. A nested call has it too.
    thread: that thread, once it starts a session; None: no session is sparksplit's own.
    last: the context of the last session that a call has started. Once the call has ended, Spark may still be stopping
        it: `own_session.stop` waits for a limited time.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Make the turn free in a forked process. The other threads, which would end their turns, are not there."""
        self.lock = threading.RLock()
        self.thread: int | None = None
        self.last: SparkContext | None = None


_turn = _Turn()
os.register_at_fork(after_in_child=_turn.renew)


@contextmanager
def spark_session(
    app_name: str,
    executors: int,
    settings: dict[str, str] | None = None,
    *,
    nodes: bool = True,
    waited: Callable[[float], None] = lambda seconds: None,
) -> Iterator[SparkSession]:
    """Give a Spark session, and stop it however the block ends.

    The session uses the master and settings of spark-submit or of Spark's own configuration files. Without a master, a
    cluster of `executors` processes with one task slot each starts on this machine. No process and no file is left.
    Inside another `spark_session`, the outer session is given, and not stopped. The same holds for a program's own
    session, which runs tasks with `own_python` meanwhile. A session that `spark_session` has started in another thread
    is not shared: this call waits for its end.

    settings: Spark's keys, for a session that this call starts. Keys from spark-submit and the files take precedence.
    nodes: whether the session will hold nodes; some masters and settings do not allow that.
    waited: gets the seconds that this call has waited for another call's session to stop.

    Raise UsageError if the program uses Spark Connect. Raise ConfigError for a master or setting that does not allow
    it, and if no Java is found. Raise RunError if Spark does not start (quickly, if its standalone master cannot be
    reached). Raise RunError if Spark does not stop the session of an earlier call. Also turn errors of pyspark and py4j
    that leave the block into RunError, because they cannot be read without their JVM.
    """
    from pyspark import SparkContext

    refuse_connect()
    began = time.monotonic()
    with ExitStack() as waiting:
        waiting.enter_context(saying("a call in another thread to stop its Spark session"))
        with _turn.lock:
            waiting.close()
            _await_stop()
            waited(time.monotonic() - began)
            running = running_context()
            if running is None:
                outer, _turn.thread = _turn.thread, threading.get_ident()
                try:
                    with _own_session(app_name, executors, settings or {}, nodes) as spark:
                        _turn.last = SparkContext._active_spark_context
                        yield spark
                finally:
                    _turn.thread = outer
                return
    atexit.unregister(_stop_at_exit)  # register only once
    atexit.register(_stop_at_exit, os.getpid())
    with interruptible_program(running), asking(running), own_python(running):
        yield own_session.classic_session()


def refuse_connect() -> None:
    """Raise UsageError if the program has started a session of Spark Connect, or if its next session would be one.

    Such a session has no SparkContext, which starts nodes. A local cluster would start beside it.
    """
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if name in os.environ:
            raise _connect_refused(name)


def _connect_refused(found: str) -> UsageError:
    return UsageError(
        f"Spark Connect: {found} is set, and a Spark Connect session cannot start nodes. Use a new process without "
        "SPARK_REMOTE, spark.remote and .remote(...): spark-submit --conf spark.api.mode=classic, or "
        'SparkSession.builder.config("spark.api.mode", "classic").getOrCreate()'
    )


def check_lasts(frame: DataFrame) -> None:
    """Raise UsageError if a call in another thread has started the session of `frame`, and will stop it.

    A call of this thread would wait for that stop, and could not read the rows then. If the other call waits for this
    thread, as a search of Spark ML does, both would wait for ever.
    """
    context = frame.sparkSession.sparkContext
    if context is _turn.last and _turn.thread not in (None, threading.get_ident()):
        raise UsageError(
            "the DataFrame: a call of sparksplit in another thread has started its Spark session, and will stop it. "
            "Start a session of your own before the first call: SparkSession.builder.getOrCreate()"
        )


@contextmanager
def _own_session(app_name: str, executors: int, settings: Mapping[str, str], nodes: bool) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end of the block."""
    configured, submitted = user_settings.configured(), user_settings.submitted()
    if "spark.remote" in configured:
        raise _connect_refused("spark.remote")
    if submitted and configured.get(own_session.API_MODE, "").lower() == "connect":
        raise _connect_refused(f"{own_session.API_MODE} connect")
    raise_first(start_problems(configured) if nodes else standalone_problems(configured))
    wanted = own_session.settings_for(app_name, executors, settings, configured, submitted)
    await_master(wanted.get("spark.master", ""))
    check_known(wanted, None if submitted else os.environ)
    handlers = stopping_handlers()
    with ExitStack() as stack:
        stack.enter_context(py4j_quiet())
        folder, variables = (None, {}) if submitted else stack.enter_context(own_session.processes(wanted))
        _started.append(True)
        spark = own_session.start(wanted, folder, variables)
        stack.callback(own_session.stop, spark)
        try:
            context = spark.sparkContext
            with interruptible(handlers, context), asking(context), _where_the_logs_are(spark):
                yield spark
        finally:
            with undisturbed():
                stack.close()


def _await_stop() -> None:
    """Wait while Spark is still stopping the session of an earlier call. Raise RunError if that takes too long."""
    if not _is_stopping():
        return
    patience = time.monotonic() + own_session.STOP_SECONDS
    with saying("Spark to stop the session of an earlier call"):
        while _is_stopping():
            if time.monotonic() > patience:
                raise RunError(
                    "Spark has not stopped the session of an earlier call, even after "
                    f"{own_session.STOP_SECONDS:g} s more. Call again later, or in another process"
                )
            time.sleep(_LOOK_SECONDS)


def _is_stopping() -> bool:
    from pyspark import SparkContext

    active = SparkContext._active_spark_context
    return _turn.thread is None and active is not None and active is _turn.last


def running_context() -> SparkContext | None:
    """Return the context of the Spark that this thread may use, without a call into the JVM.

    None: no Spark is running, or a call in another thread has started it and will stop it, or it is stopping.
    """
    from pyspark import SparkContext

    may_use = _turn.thread in (None, threading.get_ident()) and not _is_stopping()
    return SparkContext._active_spark_context if may_use else None


@contextmanager
def asking(context: SparkContext) -> Iterator[None]:
    """Give the block's calls into the JVM behind `context` a limit (see `watched`) and the errors of `spark_errors`.

    For the program's own session, outside `spark_session`.
    """
    with watched(context._gateway), spark_errors():
        yield


def satisfy_yarn() -> None:
    """In YARN's cluster mode, start Spark for a command or a call that has succeeded without Spark.

    YARN reports a driver that never started Spark as failed, even if there was nothing to do. The session stays, as the
    program's own: a later call may need Spark, and YARN lets a driver start Spark only once.
    """
    if not user_settings.submitted() or _started:
        return
    configured = user_settings.configured()
    if configured.get("spark.master") != "yarn" or configured.get("spark.submit.deployMode") != "cluster":
        return
    with _turn.lock:
        if _started or running_context() is not None:
            return
        say("telling YARN that there was nothing to do")
        _started.append(True)
        try:
            own_session.start(own_session.settings_for("sparksplit", 1, {}, configured, True), None, {})
        except RunError as error:  # the program has started Spark before, and stopped it
            log.debug("YARN knows this driver already: %s", error)
        except UsageError as error:  # the call itself has succeeded
            say(f"YARN may call this program failed: {error}")


def known_settings() -> dict[str, str]:
    """Return Spark's configured settings before Spark starts. If Spark is running, return all its settings."""
    running = running_context()
    if running is None:
        return user_settings.configured()
    with asking(running):
        return dict(running.getConf().getAll())


@contextmanager
def _where_the_logs_are(spark: SparkSession) -> Iterator[None]:
    """Under YARN, say how to get the executors' logs if the block fails, except for a UsageError."""
    yarn, application = spark.sparkContext.master == "yarn", spark.sparkContext.applicationId
    try:
        yield
    except UsageError:
        raise
    except BaseException:
        if yarn:
            say(f"the executors' logs: yarn logs -applicationId {application}")
        raise


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn an error of Spark inside the block into a RunError of one line."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ConnectionError) and _is_from_py4j(error):
            raise RunError(
                "Spark's JVM has ended. The reason may stand in the lines above. Run the command again, or start a new "
                "Spark session"
            ) from error
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        text = str(error)
        log.debug("Spark's error in full: %s", text)
        raise RunError(f"Spark: {spark_reason(text)}") from error


def _is_from_py4j(error: BaseException) -> bool:
    """Whether py4j raised `error`, while it connected to the JVM."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).startswith("py4j.")


def _stop_at_exit(process: int) -> None:
    """Stop the session of a program that ends without `spark.stop()`, if the session's JVM ends with the program.

    Otherwise a local cluster's executors end before Spark, which tries to restart them and prints tracebacks. A child
    of `process` leaves the session alone. Only the JVM's part is stopped, because pyspark's own part waits for its
    server without a limit.
    """
    from pyspark import SparkContext

    java_gateway, context = SparkContext._gateway, SparkContext._active_spark_context
    if os.getpid() != process or context is None or java_gateway is None or java_gateway.proc is None:
        return
    try:
        with py4j_quiet(), limited(java_gateway):  # no thread here: Python starts no threads at its end
            own_session.hush(java_gateway)
            context._jsc.stop()
    except Exception as error:  # the JVM may have ended already, as intended
        log.debug("Spark did not stop in order: %s", error)
