"""A session that sparksplit starts itself: its settings, its processes, its start and its end."""

from __future__ import annotations

import logging
import os
import re
import secrets
import subprocess
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdfs_io import hadoop_conf
from sparksplit.base.errors import ConfigError, RunError
from sparksplit.base.progress import say, saying
from sparksplit.base.shipped import shipped
from sparksplit.spark import gateway, left
from sparksplit.spark.application import tagged
from sparksplit.spark.interrupts import starting
from sparksplit.spark.jvm import limited, watched
from sparksplit.spark.reasons import NOT_TAKEN, STOPPED, setting_at_fault, spark_reason
from sparksplit.spark.settings import metastore, packages, user_settings
from sparksplit.spark.settings.java import java_home
from sparksplit.spark.settings.requirements import mebibytes

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

STOP_SECONDS = 15.0
"""Seconds for Spark to stop before its processes are killed."""

LOCAL = "spark.local.dir"
API_MODE = "spark.api.mode"
"""Spark 4 starts a session of Spark Connect if this key is `connect`, and its JVM then has no class of another one."""
_EXECUTORS_PYTHON = "PYSPARK_PYTHON"

_LOCK = threading.Lock()
"""Held while a session is taken with other environment variables."""
_ADDED_TO = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions", "spark.executorEnv.PYTHONPATH")


def settings_for(
    app_name: str, executors: int, more: Mapping[str, str], configured: dict[str, str], submitted: bool
) -> dict[str, str]:
    """Return all settings of a session.

    more: Spark's keys that the session needs. configured: the user's keys, which take precedence.
    submitted: whether spark-submit has started the JVM.
    """
    wanted = {"spark.app.name": app_name, **_settings(executors, configured, submitted), **more}
    fetched = wanted.pop(packages.KEY, "")
    wanted.update((key, value) for key, value in configured.items() if key not in _ADDED_TO or key not in wanted)
    wanted.update(tagged(app_name, configured))
    if not submitted:
        wanted[API_MODE] = "classic"
        jars = packages.spark_jars(user_settings.pyspark_home())
        if needed := packages.wanted(fetched, configured, jars):
            wanted[packages.KEY] = needed
    return wanted


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
    # Under spark-submit, too: its JVM runs, but the local cluster starts only with the context, by these settings.
    # The driver listens where executors call it, also if the user has set that address.
    address = {} if "spark.driver.host" in configured else {"spark.driver.bindAddress": "127.0.0.1"}
    settings |= {
        "spark.driver.host": "127.0.0.1",
        **address,
        # Callers must know the secret. Otherwise the master would start programs for any user of this machine.
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(32),
        **_pages(configured),
    }
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
        "spark.python.worker.reuse": "true",
        # Fewer than Spark's default of 200: on a few cores, each task costs more time than its rows.
        "spark.sql.shuffle.partitions": str(max(4, 2 * executors)),
        "spark.driver.extraJavaOptions": java.format(file=file, level="warn" if _debugging() else "off", more=more),
        "spark.executor.extraJavaOptions": java.format(file=file, level="warn", more=more_executor),
    }


_TOKENS = "org.apache.spark.ui.JWSFilter"
_PROXY = "org.apache.hadoop.yarn.server.webproxy.amfilter.AmIpFilter"
_NOWHERE = "192.0.2.1"  # an address for examples, RFC 5737


def _pages(configured: dict[str, str]) -> dict[str, str]:
    """Return the settings that close Spark's pages, unless the user asked for the pages.

    The driver's page is off. The pages of the master and the worker show the executors' logs and can end the
    application. They always listen, without a secret. So they get a filter.
    """
    if configured.get("spark.ui.enabled", "").lower() == "true":
        return {}
    closing = filter_settings(packages.spark_jars(user_settings.pyspark_home()))
    if not closing:
        say(
            "other users of this machine can open Spark's pages: the jar of a filter is not in Spark's folder "
            "(Spark 4: jjwt-impl, Spark 3: hadoop-yarn-server-web-proxy)"
        )
    return {"spark.ui.enabled": "false", **closing}


def filter_settings(jars: Sequence[str]) -> dict[str, str]:
    """Return the settings of a filter that lets nobody in to Spark's pages. {} if its jar is not there.

    jars: the file names of Spark's jars. The filter of Spark 4 lets in who has a key, which nobody gets. The filter of
    Spark 3 is Hadoop's. It lets in a proxy, at an address that does not exist. Spark 4 cannot load that filter.
    """
    core = next(filter(None, (re.match(r"spark-core_[\d.]+-(\d+)\.", jar) for jar in jars)), None)
    if core is None:
        return {}
    if int(core[1]) >= 4:
        if not any(jar.startswith("jjwt-impl-") for jar in jars):
            return {}
        return {"spark.ui.filters": _TOKENS, f"spark.{_TOKENS}.param.secretKey": secrets.token_urlsafe(64)}
    if not any("yarn-server-web-proxy" in jar for jar in jars):
        return {}
    return {
        "spark.ui.filters": _PROXY,
        f"spark.{_PROXY}.param.PROXY_HOSTS": _NOWHERE,
        f"spark.{_PROXY}.param.PROXY_URI_BASES": f"http://{_NOWHERE}",
    }


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
def processes(settings: dict[str, str]) -> Iterator[tuple[Path, dict[str, str]]]:
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


def start(settings: dict[str, str], folder: Path | None, variables: Mapping[str, str]) -> SparkSession:
    """Start the session.

    folder: for a JVM that this process starts; None: the JVM is already running.
    variables: for that JVM. Its executors and their Pythons inherit them. Other processes of this program must not,
        because processes with the session's mark end with the session.
    """
    from pyspark import SparkConf, SparkContext

    from sparksplit.spark import accumulators

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
                return classic_session(conf)
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


def classic_session(conf: SparkConf | None = None) -> SparkSession:
    """Return pyspark's session, or start it with `conf`. It is never a session of Spark Connect, also not where the
    variables SPARK_API_MODE or SPARK_CONNECT_MODE make Spark Connect the default of Spark 4.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder if conf is None else SparkSession.builder.config(conf=conf)
    with _LOCK, gateway.variables({"SPARK_API_MODE": "classic"}):
        return builder.getOrCreate()


def stop(spark: SparkSession) -> None:
    """Stop the session. Return after STOP_SECONDS at most."""
    # In a thread, because the JVM may never answer, and its processes must end anyway.
    stopper = threading.Thread(target=_stop_quietly, args=(spark,), name="stopping Spark", daemon=True)
    stopper.start()
    stopper.join(STOP_SECONDS)


def _stop_quietly(spark: SparkSession) -> None:
    from pyspark import SparkContext

    try:
        java_gateway = SparkContext._gateway
        if java_gateway is not None and java_gateway.proc is not None:
            hush(java_gateway)
        spark.stop()
    except Exception as error:  # the JVM may have ended already, as intended
        logging.getLogger(__name__).debug("Spark did not stop in order: %s", error)


def hush(java_gateway: Any) -> None:
    """Keep the JVM's threads from printing errors about closed resources at the end. This output bypasses loggers."""
    if not _debugging():
        java = java_gateway.jvm.java
        java.lang.System.setErr(java.io.PrintStream(java.io.OutputStream.nullOutputStream()))


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
