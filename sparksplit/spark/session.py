"""A command's Spark session: spark-submit's session, or the session of a local cluster that leaves nothing behind."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import subprocess
import sys
import sysconfig
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdfs_io import hadoop_conf
from sparksplit.base.errors import ConfigError, RunError, UsageError
from sparksplit.base.progress import say, saying
from sparksplit.base.shipped import shipped
from sparksplit.spark import gateway, left
from sparksplit.spark.application import tagged
from sparksplit.spark.interrupts import (
    interruptible,
    interruptible_program,
    py4j_quiet,
    starting,
    stopping_handlers,
    undisturbed,
)
from sparksplit.spark.jvm import limited, watched
from sparksplit.spark.reasons import NOT_TAKEN, STOPPED, setting_at_fault, spark_reason
from sparksplit.spark.settings import metastore, packages, user_settings
from sparksplit.spark.settings.java import java_home
from sparksplit.spark.settings.masters import await_master, check_known
from sparksplit.spark.settings.requirements import mebibytes, raise_first, standalone_problems, start_problems

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

STOP_SECONDS = 15.0
"""Seconds for Spark to stop before its processes are killed."""

LOCAL = "spark.local.dir"
_EXECUTORS_PYTHON = "PYSPARK_PYTHON"

_started: list[bool] = []  # not empty once this process has started Spark


@contextmanager
def spark_session(
    app_name: str, executors: int, settings: dict[str, str] | None = None, *, nodes: bool = True
) -> Iterator[SparkSession]:
    """Give a Spark session, and stop it however the block ends.

    The session uses the master and settings of spark-submit or of Spark's own configuration files. Without a master, a
    cluster of `executors` processes with one task slot each starts on this machine. It leaves no process and no file.
    Inside another `spark_session`, the outer session is given, and not stopped.

    settings: Spark's keys, for a session that this call starts. Keys from spark-submit and the files take precedence.
    nodes: whether the session will hold nodes; some masters and settings do not allow that.

    Raise ConfigError for a master or setting that does not allow it, and if no Java is found. Raise RunError if Spark
    does not start (quickly, if its standalone master cannot be reached). Also turn errors of pyspark and py4j that
    leave the block into RunError, because they cannot be read without their JVM.
    """
    running = _running_context()
    if running is not None:
        from pyspark.sql import SparkSession

        atexit.unregister(_stop_at_exit)  # register only once
        atexit.register(_stop_at_exit, os.getpid())
        with interruptible_program(running), asking(running):
            yield SparkSession.builder.getOrCreate()
        return
    configured, submitted = user_settings.configured(), user_settings.submitted()
    raise_first(start_problems(configured) if nodes else standalone_problems(configured))
    wanted = {"spark.app.name": app_name, **_settings(executors, configured, submitted), **(settings or {})}
    more = wanted.pop(packages.KEY, "")
    wanted.update((key, value) for key, value in configured.items() if key not in _ADDED_TO or key not in wanted)
    wanted.update(tagged(app_name, configured))
    if not submitted:
        jars = packages.spark_jars(user_settings.pyspark_home())
        if needed := packages.wanted(more, configured, jars):
            wanted[packages.KEY] = needed
    await_master(wanted.get("spark.master", ""))
    check_known(wanted, None if submitted else os.environ)
    handlers = stopping_handlers()
    with ExitStack() as stack:
        stack.enter_context(py4j_quiet())
        folder, variables = (None, {}) if submitted else stack.enter_context(_own_processes(wanted))
        spark = _start(wanted, folder, variables)
        stack.callback(_stop, spark)
        try:
            context = spark.sparkContext
            with interruptible(handlers, context), asking(context), _where_the_logs_are(spark):
                yield spark
        finally:
            with undisturbed():
                stack.close()


def _running_context() -> SparkContext | None:
    """Return the context of this process's Spark, without a call into the JVM. None: no Spark is running."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context


@contextmanager
def asking(context: SparkContext) -> Iterator[None]:
    """Give the block's calls into the JVM behind `context` a limit (see `watched`) and the errors of `spark_errors`.

    For the program's own session, outside `spark_session`.
    """
    with watched(context._gateway), spark_errors():
        yield


def satisfy_yarn() -> None:
    """In YARN's cluster mode, start and stop Spark for a command that has succeeded without Spark.

    YARN reports a driver that never started Spark as failed, even if there was nothing to do.
    """
    if not user_settings.submitted() or _started:
        return
    configured = user_settings.configured()
    if configured.get("spark.master") == "yarn" and configured.get("spark.submit.deployMode") == "cluster":
        say("telling YARN that there was nothing to do")
        with spark_session("sparksplit", 1, nodes=False):
            pass


def known_settings() -> dict[str, str]:
    """Return Spark's configured settings before Spark starts. If Spark is running, return all its settings."""
    running = _running_context()
    if running is None:
        return user_settings.configured()
    with asking(running):
        return dict(running.getConf().getAll())


_ADDED_TO = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions", "spark.executorEnv.PYTHONPATH")


def _settings(executors: int, configured: dict[str, str], submitted: bool) -> dict[str, str]:
    settings = {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.showConsoleProgress": "false",  # sparksplit shows its own
    }
    for name, value in hadoop_conf.for_executors().items():
        settings.setdefault(f"spark.executorEnv.{name}", configured.get(f"spark.executorEnv.{name}", value))
    if not configured.get("spark.master", "local-cluster").startswith("local-cluster"):
        return settings
    # Executors run on this machine, perhaps from a checkout that is not installed.
    settings["spark.executorEnv.PYTHONPATH"] = _python_path(configured.get("spark.executorEnv.PYTHONPATH", ""))
    if submitted:
        return settings
    memory = configured.get("spark.executor.memory", "1024m")
    # C1 only: on a few cores, the optimising compiler costs more time than it saves (measured: half of the total).
    # Parallel collector: rows leave Spark faster than with G1, and nobody needs G1's short pauses here.
    java = "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseParallelGC"
    java += " -Dlog4j2.configurationFile={file} -Dconsole.level={level} {more}"
    file = Path(shipped("conf/log4j2.properties")).as_uri()
    more = configured.get("spark.driver.extraJavaOptions", "")
    more_executor = configured.get("spark.executor.extraJavaOptions", "")
    return settings | {
        "spark.master": f"local-cluster[{executors},1,{mebibytes(memory, 'spark.executor.memory')}]",
        "spark.executor.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Callers must know the secret. Otherwise the master would start programs for any user of this machine.
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(32),
        **_pages(configured),
        "spark.python.worker.reuse": "true",
        # Fewer than Spark's default of 200: on a few cores, each task costs more time than its rows.
        "spark.sql.shuffle.partitions": str(max(4, 2 * executors)),
        "spark.driver.extraJavaOptions": java.format(file=file, level="warn" if _debugging() else "off", more=more),
        "spark.executor.extraJavaOptions": java.format(file=file, level="warn", more=more_executor),
    }


_PROXY = "org.apache.hadoop.yarn.server.webproxy.amfilter.AmIpFilter"
_NOWHERE = "192.0.2.1"  # an address for examples, RFC 5737


def _pages(configured: dict[str, str]) -> dict[str, str]:
    """Return the settings that close Spark's pages, unless the user asked for the pages.

    The driver's page is off. The pages of the master and the worker show the executors' logs and can end the
    application. They always listen, without a secret. So they get a filter that lets in only a proxy, at an address
    that does not exist. (Only Spark 3 has that filter.)
    """
    off = {"spark.ui.enabled": "false"}
    jars = packages.spark_jars(user_settings.pyspark_home())
    asked_for = configured.get("spark.ui.enabled", "").lower() == "true"
    if asked_for or not any("yarn-server-web-proxy" in jar for jar in jars):
        return off
    places = {
        f"spark.{_PROXY}.param.PROXY_HOSTS": _NOWHERE,
        f"spark.{_PROXY}.param.PROXY_URI_BASES": f"http://{_NOWHERE}",
    }
    return {**off, "spark.ui.filters": _PROXY, **places}


def _debugging() -> bool:
    """Whether the command was called with --debug."""
    return logging.getLogger().isEnabledFor(logging.DEBUG)


def _python_path(existing: str) -> str:
    root = Path(__file__).resolve().parent.parent.parent
    parts = existing.split(os.pathsep) + os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root != Path(sysconfig.get_path("purelib")).resolve():
        parts.insert(0, str(root))
    # Absolute paths, because executors run in folders of their own.
    return os.pathsep.join(dict.fromkeys(str(Path(part).absolute()) for part in parts if part))


@contextmanager
def _own_processes(settings: dict[str, str]) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield a folder and environment variables for a JVM. When the block ends, remove the folder, and end all processes
    that have these variables.

    settings: changed in place, to keep Spark's files in a temporary folder.
    """
    environment = {"JAVA_HOME": java_home()}
    with ExitStack() as stack:
        folder = stack.enter_context(left.session_folder())
        environment[left.MARK] = str(folder)
        if settings.get("spark.master", "").startswith("local-cluster"):
            environment |= _local_cluster(folder, settings)
            say(f"Starting Spark on this machine: {settings['spark.master']}")
        stack.callback(_end, str(folder))
        yield folder, environment


def _local_cluster(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    """Make a local cluster's folders inside `folder`, and add the settings for them. Return the environment variables
    for them.
    """
    home, temporary = folder / "spark", folder / "tmp"
    home.mkdir()
    temporary.mkdir()
    # The workers write into $SPARK_HOME/work, but Spark's own folder may be shared or read-only.
    for entry in Path(user_settings.pyspark_home()).iterdir():
        if entry.name not in ("work", "logs"):
            (home / entry.name).symlink_to(entry)
    settings.setdefault(LOCAL, str(folder / "local"))
    # As a URI: with HADOOP_CONF_DIR set, a plain path would mean HDFS.
    settings.setdefault("spark.sql.warehouse.dir", (folder / "warehouse").as_uri())
    for key in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        settings[key] = f"-Djava.io.tmpdir={temporary} {settings.get(key, '')}".strip()
    settings["spark.driver.extraJavaOptions"] += f" -Dderby.stream.error.file={folder}/derby.log"
    settings.update(metastore.temporary(settings, user_settings.conf_folder(), folder))
    return {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(user_settings.conf_folder()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        _EXECUTORS_PYTHON: sys.executable,
    }


def _start(settings: dict[str, str], folder: Path | None, variables: Mapping[str, str]) -> SparkSession:
    """Start the session.

    folder: for a JVM that this process starts; None: the JVM is already running.
    variables: for that JVM. Its executors and their Pythons inherit them. Other processes of this program must not,
        because processes with the session's mark end with the session.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from sparksplit.spark import accumulators

    _started.append(True)
    try:
        awaited = saying(f"Spark to start on {settings.get('spark.master')}")
        with starting(), awaited, accumulators.guarded(), warnings.catch_warnings():
            launched = None
            if folder is not None and SparkContext._gateway is None:
                with gateway.variables(variables):
                    launched = gateway.launch(settings, folder)
            SparkContext._ensure_initialized(gateway=launched)
            conf = SparkConf()
            # A new JVM already has all settings, and has added the fetched packages to spark.jars.
            for key, value in settings.items() if launched is None else ():
                conf.set(key, value)
            # In YARN's cluster mode, pyspark looks for --py-files at their paths on the submitting host. YARN ships
            # them anyway.
            warnings.filterwarnings("ignore", message="Failed to add file")
            # pyspark reads the executors' Python when it makes its context.
            python = {name: value for name, value in variables.items() if name == _EXECUTORS_PYTHON}
            with watched(SparkContext._gateway), gateway.variables(python):
                return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:
        text = str(error)
        if at_fault := setting_at_fault(text, settings):
            raise ConfigError(at_fault) from error
        if isinstance(error, ConnectionError) or getattr(error, "error_class", "") == "JAVA_GATEWAY_EXITED":
            local = f" (check that spark.local.dir, {settings[LOCAL]}, is writable)" if LOCAL in settings else ""
            raise RunError(
                f"Spark did not start: its JVM has ended. The reason stands in the lines above{local}"
            ) from error
        refused = f"its master {settings.get('spark.master')} {NOT_TAKEN}"
        raise RunError(f"Spark did not start: {refused if STOPPED in text else spark_reason(text)}") from error


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
        logging.getLogger(__name__).debug("Spark's error in full: %s", text)
        raise RunError(f"Spark: {spark_reason(text)}") from error


def _is_from_py4j(error: BaseException) -> bool:
    """Whether py4j raised `error`, while it connected to the JVM."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and str(frames[-1].f_globals.get("__name__")).startswith("py4j.")


def _stop(spark: SparkSession) -> None:
    # In a thread, because the JVM may never answer, and its processes must end anyway.
    stopper = threading.Thread(target=_stop_quietly, args=(spark,), name="stopping Spark", daemon=True)
    stopper.start()
    stopper.join(STOP_SECONDS)


def _stop_quietly(spark: SparkSession) -> None:
    from pyspark import SparkContext

    try:
        java_gateway = SparkContext._gateway
        if java_gateway is not None and java_gateway.proc is not None:
            _hush(java_gateway)
        spark.stop()
    except Exception as error:  # the JVM may have ended already, as intended
        logging.getLogger(__name__).debug("Spark did not stop in order: %s", error)


def _hush(java_gateway: Any) -> None:
    """Keep the JVM's threads from printing errors about closed resources at the end. This output bypasses loggers."""
    if not _debugging():
        java = java_gateway.jvm.java
        java.lang.System.setErr(java.io.PrintStream(java.io.OutputStream.nullOutputStream()))


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
            _hush(java_gateway)
            context._jsc.stop()
    except Exception as error:  # the JVM may have ended already, as intended
        logging.getLogger(__name__).debug("Spark did not stop in order: %s", error)


def _end(mark: str) -> None:
    """End the JVM that this process started, and every process that has `mark` in its environment."""
    from pyspark import SparkContext

    java_gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    SparkContext._active_spark_context = None
    # Without a gateway, the start was interrupted, so there is nothing to end in order.
    patience = time.monotonic() + (5 if java_gateway else 0)
    if java_gateway is not None:
        _end_gateway(java_gateway)
    while left.processes(mark) and time.monotonic() < patience:
        time.sleep(0.05)
    left.kill_all(Path(mark))


def _end_gateway(java_gateway: Any) -> None:
    java: subprocess.Popen[bytes] = java_gateway.proc
    assert java.stdin is not None
    try:
        with limited(java_gateway):
            java_gateway.shutdown()
    except Exception as error:  # as in _stop_quietly
        logging.getLogger(__name__).debug("the JVM did not answer at its end: %s", error)
        java.kill()  # a hanging JVM does not react to anything else
    java.stdin.close()  # tells the JVM to exit
    try:
        java.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()
