"""The Spark session: what it gives to executors, what it refuses, and that it leaves nothing behind."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from py4j.clientserver import ClientServerConnection
from pyspark import SparkContext
from pyspark.sql import SparkSession

from sparksplit.base.errors import ConfigError, InputError, RunError, UsageError
from sparksplit.spark import left, own_session, session
from sparksplit.spark.interrupts import py4j_quiet
from sparksplit.spark.reasons import STOPPED
from sparksplit.spark.session import spark_session
from sparksplit.spark.settings import masters
from sparksplit.spark.settings.user_settings import pyspark_home
from tests.jvm import gateway
from tests.logs import without_times


def helper(row: int) -> int:
    """A function of this module, which executors import by its name."""
    return row * row


def test_executors_import_the_project_and_the_tests(spark: SparkSession) -> None:
    def names(rows: Iterator[int]) -> Iterator[tuple[str, str, int]]:
        yield InputError.__name__, os.environ["PYSPARK_PYTHON"], sum(map(helper, rows))

    got = spark.sparkContext.parallelize(range(3), 3).mapPartitions(names).collect()
    assert got == [("InputError", sys.executable, row * row) for row in range(3)]


@pytest.mark.parametrize("variables", [{}, {"SPARK_API_MODE": "connect"}, {"SPARK_CONNECT_MODE": "1"}])
def test_an_inner_session_is_the_outer_one(
    spark: SparkSession, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with spark_session("inner", executors=1) as inner:
        assert inner.sparkContext is spark.sparkContext
    assert spark.range(5).count() == 5


def test_a_session_of_our_own_is_on_this_machine_only(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.master") == "local-cluster[4,1,1024]"
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"
    address = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ["SPARK_LOCAL_IP"]).first()
    assert address == "127.0.0.1"


def test_only_sparks_processes_bear_the_sessions_mark(spark: SparkSession) -> None:
    """Its JVM, executors and their Pythons. The program's environment stays the user's."""
    marks = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ["SPARKSPLIT_SESSION"]).collect()
    assert left.MARK == "SPARKSPLIT_SESSION" and Path(marks[0]).is_dir()
    java = SparkContext._gateway.proc.pid  # type: ignore[union-attr]
    executors = [child.pid for child in psutil.Process(java).children() if "java" in child.name() and child.cmdline()]
    assert len(executors) == 4 and {java, *executors} <= set(left.processes(marks[0]))
    assert not {left.MARK, "SPARK_HOME", "SPARK_LOCAL_IP"} & set(os.environ)


def test_what_the_program_starts_outlives_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_gateway", "_jvm", "_active_spark_context"):  # those of the other tests' session
        monkeypatch.setattr(SparkContext, name, None)
    with own_session.processes({"spark.master": "local-cluster[1,1,1024]"}):
        bystander = subprocess.Popen(["sleep", "60"])
    try:
        assert bystander.poll() is None
    finally:
        bystander.kill()
        assert bystander.wait() == -signal.SIGKILL


def test_the_jvm_is_started_with_variables_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before, seen = dict(os.environ), {}

    def launch(settings: dict[str, str], folder: Path) -> None:
        seen.update(os.environ)
        raise ConnectionError

    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(own_session.gateway, "launch", launch)
    with pytest.raises(RunError, match="its JVM has ended"):
        own_session.start({}, tmp_path, {left.MARK: "/a/folder", "SPARK_HOME": "/a/home"})
    assert (seen[left.MARK], seen["SPARK_HOME"]) == ("/a/folder", "/a/home")
    assert dict(os.environ) == before


def test_sparks_errors_are_read_while_they_can_be(spark: SparkSession) -> None:
    def fail(_rows: Iterator[int]) -> Iterator[int]:
        raise OSError(28, "No space left on device")

    failed = r"^Spark: a task failed: OSError: \[Errno 28\] No space left on device$"
    with pytest.raises(RunError, match=failed), spark_session("inner", 1) as inner:
        inner.sparkContext.parallelize([0], 1).mapPartitions(fail).count()
    with pytest.raises(RunError, match=failed), spark_session("inner", 1) as inner:
        inner.range(1).mapInPandas(fail, "id long").count()  # type: ignore[arg-type]
    missing = r"^Spark: \[PATH_NOT_FOUND\] Path does not exist: file:/nowhere"
    with pytest.raises(RunError, match=missing), spark_session("inner", 1) as inner:
        inner.read.parquet("/nowhere")
    with pytest.raises(ZeroDivisionError), spark_session("inner", 1):
        print(1 // 0)


def test_yarns_way_to_the_executors_logs_is_said_where_it_is_not_the_users_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = {}
    for master in ("yarn", "spark://h:7077"):
        spark = SimpleNamespace(sparkContext=SimpleNamespace(master=master, applicationId="application_1_2"))
        for error in (RunError("x"), KeyboardInterrupt(), ConfigError("x")):
            with pytest.raises(type(error)), session._where_the_logs_are(spark):
                raise error
            said[master, type(error)] = capsys.readouterr().err
    line = "the executors' logs: yarn logs -applicationId application_1_2"
    assert {key for key, text in said.items() if line in text} == {("yarn", RunError), ("yarn", KeyboardInterrupt)}


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty spark-defaults.conf that counts, in a process without a session."""
    monkeypatch.setattr(session, "running_context", lambda: None)
    monkeypatch.setattr(
        own_session, "start", lambda settings, folder: pytest.fail(f"Spark was started with {settings}")
    )
    for name in ("MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path / "spark-defaults.conf"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("spark.master local[*]", "spark.master: local[*] runs everything in one process, and every node needs an exe"),
        ("spark.master=local", "spark.master: local runs everything in one process"),
        ("  spark.master :  local[4, 2]  ", "spark.master: local[4, 2] runs everything in one process"),
        (
            "spark.dynamicAllocation.enabled true",
            "spark.dynamicAllocation.enabled: must be false (is true): when Spark ",
        ),
        ("spark.speculation\ttrue", "spark.speculation: must be false (is true): Spark would start a node twice"),
        ("spark.executor.memory lots", 'spark.executor.memory: must be a size such as 1024m or 2g (is "lots")'),
    ],
)
def test_what_cannot_hold_nodes_is_refused_before_spark_starts(configured: Path, line: str, message: str) -> None:
    configured.write_text(f"# a comment\n\nspark.other x\n{line}\n")
    with pytest.raises(ConfigError) as error, spark_session("x", executors=2):
        pass
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "spark.cores.max 1",
            "spark.cores.max: must be at least 2, the value of spark.executor.cores, or no executor ",
        ),
        (
            "spark.submit.deployMode cluster",
            "spark.submit.deployMode: must be client (is cluster): Spark standalone run",
        ),
    ],
)
@pytest.mark.parametrize("nodes", [True, False])
def test_what_no_executor_can_come_under_is_refused_for_all_commands(
    configured: Path, line: str, message: str, nodes: bool
) -> None:
    configured.write_text(f"spark.master spark://h:7077\nspark.executor.cores 2\nspark.task.cpus 2\n{line}\n")
    with pytest.raises(ConfigError) as error, spark_session("x", executors=2, nodes=nodes):
        pass
    assert str(error.value).startswith(message)


def test_a_master_that_cannot_be_reached_is_named_before_spark_starts(
    configured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masters, "MASTER_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        master = f"spark://127.0.0.1:{closed.getsockname()[1]}"
    configured.write_text(f"spark.master {master}\n")
    refused = rf"^spark\.master: {master} cannot be reached: {master.removeprefix('spark://')}: Connection refused$"
    with pytest.raises(RunError, match=refused), spark_session("x", executors=2):
        pass


def test_a_session_that_a_master_ended_while_it_began_names_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: object) -> None:
        raise RuntimeError(f"java.lang.IllegalStateException: {STOPPED}.\nThis stopped SparkContext was created at:\n")

    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda **_: None)
    monkeypatch.setattr(SparkContext, "_gateway", gateway())
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", stopped)
    refused = r"^Spark did not start: its master spark://h:1 cannot be reached, or refused the application\. If"
    with pytest.raises(RunError, match=refused):
        own_session.start({"spark.master": "spark://h:1"}, None, {})


def test_a_jvm_that_is_slow_to_start_is_not_waited_for_in_silence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def launch(settings: dict[str, str], folder: Path) -> None:
        time.sleep(0.5)
        raise ConnectionError

    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setattr(own_session.gateway, "launch", launch)
    monkeypatch.setattr("sparksplit.base.progress.LINE_SECONDS", 0.02)
    with pytest.raises(RunError, match="its JVM has ended"):
        own_session.start({"spark.master": "local-cluster[2,1,1024]"}, tmp_path, {})
    said = r"waiting for Spark to start on local-cluster\[2,1,1024\], \d+ s"
    assert re.search(said, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("variable", "value"), [("MASTER", "local[2]"), ("PYSPARK_SUBMIT_ARGS", "--master local[2] pyspark-shell")]
)
def test_masters_in_the_environment_count(
    configured: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=r"^spark.master: local\[2\]"), spark_session("x", executors=2):
        pass


@pytest.mark.parametrize("argument", ["--conf spark.remote=sc://h", "--remote sc://h", ""])
def test_no_local_cluster_starts_where_spark_is_configured_to_be_remote(
    configured: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{argument} pyspark-shell")
    configured.write_text("" if argument else "spark.remote sc://h\n")
    with pytest.raises(UsageError, match=r"^Spark Connect: spark\.remote is set, "), spark_session("x", executors=2):
        pass


def test_a_jvm_of_spark_submit_for_spark_connect_is_refused(configured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.user_settings, "submitted", lambda: True)
    monkeypatch.setattr(session.user_settings, "configured", lambda: {"spark.api.mode": "Connect"})
    with pytest.raises(UsageError, match=r"^Spark Connect: spark\.api\.mode connect is set, "), spark_session("x", 2):
        pass


@pytest.fixture
def started(configured: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings with which the test's session, `spark_session("x", ...)`, would have been started."""
    found: dict[str, str] = {}

    def start(settings: dict[str, str], *_: object) -> SparkSession:
        found.update(settings)
        raise RunError("not started")

    monkeypatch.setattr(own_session, "start", start)
    monkeypatch.setattr(own_session, "_end", lambda mark: None)  # would end the session of the other tests
    return found


def test_settings_come_from_the_user_first(configured: Path, started: dict[str, str]) -> None:
    configured.write_text("spark.executor.memory 2g\nspark.ui.enabled true\nspark.driver.extraJavaOptions -Dx=y\n")
    folder = Path(tempfile.gettempdir())
    before, environment = set(folder.glob("sparksplit-*")), dict(os.environ)
    with pytest.raises(RunError), spark_session("x", 2, {"spark.ui.enabled": "no", "spark.a": "b"}):
        pass
    assert started["spark.master"] == "local-cluster[2,1,2048]"
    assert (started["spark.ui.enabled"], started["spark.a"], started["spark.app.name"]) == ("true", "b", "x")
    assert " -Dx=y" in started["spark.driver.extraJavaOptions"]
    assert started["spark.driver.extraJavaOptions"].count("-Dx=y") == 1
    assert not (set(folder.glob("sparksplit-*")) - before) & {Path(started["spark.local.dir"]).parent}
    assert dict(os.environ) == environment


def test_all_that_the_user_has_set_reaches_a_cluster(
    configured: Path, started: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since Spark itself does not read spark-defaults.conf then."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(configured.parent))
    options = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions", "spark.executorEnv.PYTHONPATH")
    own = {"spark.master": "yarn", "spark.yarn.queue": "training", **dict.fromkeys(options, "-Dx=y")}
    configured.write_text("".join(f"{key} {value}\n" for key, value in own.items()))
    with pytest.raises(RunError), spark_session("x", 2):
        pass
    assert started.items() >= own.items()
    assert not any(key.startswith(("spark.authenticate", "spark.ui.filters")) for key in started)


def test_what_py4j_says_of_a_call_that_was_interrupted_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """The JVM may have closed the connection by the time that py4j would tell it to."""
    ours, theirs = socket.socketpair()
    theirs.close()
    with py4j_quiet(), ours, ours.makefile("rb") as stream:
        connection = SimpleNamespace(socket=ours, stream=stream, is_connected=True)
        ClientServerConnection.shutdown_socket(connection, 1, 2)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    logging.getLogger("py4j.clientserver").error("something else")
    assert "something else" in caplog.text


RUN = """
import sys, time
from pathlib import Path
from urllib.request import urlopen
from sparksplit.commands.command import Command
from sparksplit.base.config import Config
from sparksplit.base.progress import spark_progress
from sparksplit.spark.session import spark_session
from tests.commands_seen import command_lines

class Keys(Config):
    seconds: float = 0.0
    "How long each task takes."
    fail: bool = False
    "Whether tasks fail after these."

def run(config, options):
    here = Path.cwd()
    def task(row):
        (here / "working").touch()
        time.sleep(config.seconds)
        return row
    with spark_session("x", 2) as spark:
        try:
            print(spark.sparkContext.parallelize(range(4), 2).map(task).sum())
            if page := spark.sparkContext.uiWebUrl:
                # The page of Spark 4.3 asks for this, earlier ones hold it.
                asked = page + f"/api/v1/applications/{spark.sparkContext.applicationId}/environment"
                (here / "seen").write_text(command_lines() + urlopen(asked).read().decode())
            spark.sparkContext.parallelize(range(4), 2).map(lambda row: row // 0 if config.fail else row).sum()
        finally:
            print("then", spark.sparkContext.parallelize(range(3), 2).count(), flush=True)

sys.exit(Command("try", "Tries.", Keys, run, default_config=lambda: "/dev/null").main())
"""


class Driver:
    """A driver in a process and a session of its own, as a shell starts it."""

    def __init__(
        self, folder: Path, *arguments: str, program: tuple[str, ...] = (sys.executable,), before: str = ""
    ) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        (folder / "run.py").write_text(before + RUN)
        self.process = subprocess.Popen(
            [*program, "run.py", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(self.temporary)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self) -> tuple[int, list[str], list[str]]:
        """(exit status, lines of stdout, lines of stderr)"""
        out, err = self.process.communicate(timeout=120)
        # A JVM that is ended while an answer to Spark comes in may say so, whatever the log's level is.
        rejected = r"^java\.util\.concurrent\.RejectedExecutionException: Task (?:scala\.|Future\().*\n(\tat .*\n)+"
        err = re.sub(rejected, "", err, flags=re.M)
        # A busy machine says what it waits for.
        lines = [line for line in without_times(err).splitlines() if not line.startswith("waiting for Spark to start")]
        return self.process.returncode, out.splitlines(), lines

    def wait_for_tasks(self) -> None:
        """Until Spark's tasks run."""
        self.wait_until((self.folder / "working").exists)

    def wait_until(self, true: Callable[[], object]) -> None:
        """Ask until it is true, which it must become before the driver ends."""
        give_up = time.monotonic() + 180
        while not true():
            assert time.monotonic() < give_up and self.process.poll() is None
            time.sleep(0.05)

    def started(self, word: str) -> list[psutil.Process]:
        """The driver's processes that have the word in their command lines."""
        found = []
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.Error):
                if word in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def left(self) -> list[str]:
        """Processes and files that the driver has left."""
        marked = [process for process in psutil.process_iter() if self._is_ours(process)]
        return [str(process) for process in marked] + [entry.name for entry in self.temporary.iterdir()]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("TMPDIR") == str(self.temporary)
        except psutil.Error:
            return False


STARTING = "Starting Spark on this machine: local-cluster[2,1,1024]"


@pytest.mark.cluster
@pytest.mark.slow
def test_the_console_is_clean_a_failing_task_is_one_line_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do other users see a secret. It is no session of Spark Connect, which may be the default of Spark 4."""
    monkeypatch.setenv("SPARK_CONNECT_MODE", "1")
    conf = tmp_path / "conf"
    conf.mkdir()
    secrets = {
        "hadoop.fs.s3a.secret.key": "nutmeg",
        "ssl.keyStorePassword": "saffron",
        "authenticate.secret": "cardamom-and-the-like",
    }
    settings = {"api.mode": "connect", "ui.enabled": "true", "hadoop.more": "none\\\n  of all", **secrets}
    text = "".join(f"spark.{key} {value}\n" for key, value in settings.items())
    (conf / "spark-defaults.conf").write_text(text)
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    driver = Driver(tmp_path, "--set", "fail=true")
    status, out, err = driver.end()
    seen = (tmp_path / "seen").read_text()
    assert '"spark.hadoop.more", "noneof all"' in seen
    for name, secret in secrets.items():
        assert f'"spark.{name}", "*********(redacted)"' in seen
        assert secret not in seen
    line = "sparksplit try: Spark: a task failed: ZeroDivisionError: integer division or modulo by zero"
    assert (status, out, err) == (1, ["6", "then 3"], [STARTING, line])
    assert driver.left() == []


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(("signum", "to_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_a_stopped_driver_leaves_nothing(tmp_path: Path, signum: signal.Signals, to_group: bool) -> None:
    driver = Driver(tmp_path, "--set", "seconds=300")
    driver.wait_for_tasks()
    # Ctrl-C reaches everything in the terminal's foreground group, Airflow's SIGTERM the driver alone.
    (os.killpg if to_group else os.kill)(driver.process.pid, signum)
    status, out, err = driver.end()
    # Whatever cleans up can still use the session: that its count waits for a slot shows that the job was ended.
    assert (status, err) == (128 + signum, [STARTING, f"sparksplit try: stopped by {signum.name}"])
    assert out == ["then 3"]
    assert driver.left() == []


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(("signum", "to_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_a_stopped_driver_ends_though_its_jvm_stands_still(
    tmp_path: Path, signum: signal.Signals, to_group: bool
) -> None:
    """The job's call, the handler that cancels the job, what cleans up and the end of Spark: all would wait for the
    JVM. Here each waits a fifth of what it waits elsewhere."""
    hurry = "from sparksplit.spark import jvm, own_session\njvm.PATIENCE = own_session.STOP_SECONDS = 3.0\n"
    driver = Driver(tmp_path, "--set", "seconds=300", before=hurry)
    driver.wait_for_tasks()
    (java,) = driver.started("SparkSubmit")
    java.suspend()
    try:
        (os.killpg if to_group else os.kill)(driver.process.pid, signum)
        assert driver.end() == (128 + signum, [], [STARTING, f"sparksplit try: stopped by {signum.name}"])
    finally:
        with suppress(psutil.NoSuchProcess):
            java.kill()
    assert driver.left() == []


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("word", ["", "SparkSubmit"], ids=["folder", "jvm"])
def test_a_driver_stopped_while_spark_starts_leaves_nothing(tmp_path: Path, word: str) -> None:
    """As soon as its folder is there, or the driver's JVM. Executors: the next test."""
    driver = Driver(tmp_path)
    driver.wait_until(lambda: driver.started(word) if word else any(driver.temporary.iterdir()))
    os.killpg(driver.process.pid, signal.SIGINT)
    status, _, err = driver.end()
    assert (status, err[-1]) == (130, "sparksplit try: stopped by SIGINT")
    assert driver.left() == []


@pytest.mark.cluster
@pytest.mark.slow
def test_ctrl_c_between_sparks_context_and_its_session(tmp_path: Path) -> None:
    """Where a handler of pyspark's would call the JVM within the call that it interrupts."""
    press = """
import os, signal, sys
from pyspark import SparkContext
made = SparkContext._do_init
def do_init(self, *arguments):
    made(self, *arguments)
    self._jvm.java.lang.Thread
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    self._jvm.java.lang.Thread.sleep(5000)
SparkContext._do_init = do_init
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
"""
    driver = Driver(tmp_path, before=press)
    assert driver.end() == (130, [], [STARTING, "sparksplit try: stopped by SIGINT"])
    assert driver.left() == []


@pytest.mark.cluster
@pytest.mark.slow
def test_spark_submits_session_is_taken(tmp_path: Path) -> None:
    # Whatever another test's session has set: by SPARK_HOME, or else by this Python, the script finds Spark.
    python = f"PYSPARK_PYTHON={sys.executable}"
    submit = (python, str(Path(sys.executable).parent / "spark-submit"), "--conf", "spark.ui.enabled=false", "--master")
    for name in ("local", "cluster"):
        (tmp_path / name).mkdir()
    status, out, _ = Driver(tmp_path / "local", program=("env", "-u", "SPARK_HOME", *submit, "local[2]")).end()
    # spark-submit writes its child's stderr to stdout.
    assert status == 2 and out[-1].startswith("sparksplit try: spark.master: local[2] runs everything")
    home = tmp_path / "home"  # a local cluster of spark-submit's writes into SPARK_HOME
    home.mkdir()
    for entry in Path(pyspark_home()).iterdir():
        (home / entry.name).symlink_to(entry)
    prefix = ("env", f"SPARK_HOME={home}", "SPARK_LOCAL_IP=127.0.0.1", *submit)
    status, out, err = Driver(tmp_path / "cluster", program=(*prefix, "local-cluster[2,1,1024]")).end()
    assert (status, out[-2:]) == (0, ["6", "then 3"]) and STARTING not in out + err


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_no_local_cluster_starts_beside_spark_connect(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "sc://h")
    with (
        pytest.raises(UsageError, match=f"^Spark Connect: {variable} is set, .*SparkSession.builder"),
        spark_session("x", 1),
    ):
        pass
