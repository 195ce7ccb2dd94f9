"""A real Spark standalone cluster: a master, and workers, each on an address or a host of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparksplit.spark.settings.java import java_home
from tests.hadoop.processes import Kept, KeptFolder, tail
from tests.hosts import Host
from tests.ports import free_ports

ROOT = Path(__file__).parent.parent
LOOPBACK = [(Host(f"127.0.0.{2 + number}"), 1) for number in range(3)]
"""Three workers of one core."""
_WAIT_SECONDS = 90.0  # on two busy cores; idle ones need 3 s for a master and its workers
_JAVA = "-XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class StandaloneCluster:
    """The daemons of pyspark's own Spark, in a temporary folder and on free ports; nothing of them outlives this
    process.

    workers: the host of each, and its cores; with 1 GiB for each core. driver: where the master and the commands are.
    master: what `spark.master` is to be. folder: the temporary one; tests may write below it. Executors have one core,
    and their logs are below `work(i)`.
    """

    def __init__(
        self,
        workers: Sequence[tuple[Host, int]] = LOOPBACK,
        driver: Host = Host("127.0.0.1"),  # noqa: B008 (it is frozen)
    ) -> None:
        import pyspark

        self._kept_folder = KeptFolder("sparksplit-standalone-")
        self.folder = self._kept_folder.path
        self.workers = len(workers)
        self._driver, self._hosts = driver, [host for host, _ in workers]
        self._home = Path(pyspark.__file__).parent
        port, self._page = driver.inside(lambda: free_ports(driver.address, 2))
        self.master = f"spark://{driver.address}:{port}"
        self._commands = {
            "master": (driver, [*self._daemon("master.Master", driver, self._page), "--port", str(port)]),
            **{
                f"worker-{number}": (host, self._worker(number, host, cores))
                for number, (host, cores) in enumerate(workers)
            },
        }
        self._running: dict[str, Kept] = {}
        self._started: list[subprocess.Popen[str]] = []
        for name in ("logs", "tmp", "empty"):
            (self.folder / name).mkdir()

    def __enter__(self) -> StandaloneCluster:
        try:
            self.restore()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def address(self, worker: int) -> str:
        return self._hosts[worker].address

    def work(self, worker: int) -> Path:
        """The folder with an APPLICATION/EXECUTOR/stderr for each executor that the worker has started."""
        return self.folder / f"work-{worker}"

    def restore(self) -> None:
        """Start what does not run; returns when the master uses all workers and no application is left."""
        for name in self._commands:
            if name not in self._running or self._running[name].status is not None:
                self._start(name)
        self._wait_for("the workers", lambda: len(self._alive()) == self.workers)
        self._wait_for("the last application's end", lambda: not self.state()["activeapps"])

    def kill_worker(self, worker: int) -> None:
        """Kill a worker with its executors and nodes at once, as when its host loses power; the master notices."""
        self._running[f"worker-{worker}"].stop()
        self._wait_for("the worker's end", lambda: self.address(worker) not in self._alive())

    def start_worker(self, worker: int) -> None:
        """Start one that was killed; returns when the master uses it."""
        self._start(f"worker-{worker}")
        self._wait_for("the worker", lambda: self.address(worker) in self._alive())

    def used_cores(self) -> list[int]:
        """How many executors each worker holds; the master still knows of those that were killed."""
        used = {one["host"]: one["coresused"] for one in self.state()["workers"] if one["state"] == "ALIVE"}
        return [used.get(self.address(worker), 0) for worker in range(self.workers)]

    def used_workers(self) -> list[int]:
        """The workers that hold executors."""
        return [worker for worker, cores in enumerate(self.used_cores()) if cores]

    def state(self) -> dict[str, Any]:
        """What the master's page tells: workers, activeapps, ..."""
        return self._driver.inside(self._state)

    def _state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self._driver.address}:{self._page}/json/", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The variables for a command whose Spark is this cluster, with the shipped settings and `settings`."""
        conf = self.folder / "conf"
        conf.mkdir(exist_ok=True)
        shipped = (ROOT / "conf" / "spark-defaults-standalone.conf").read_text(encoding="utf-8")
        own = {
            "spark.driver.host": self._driver.address,
            "spark.driver.bindAddress": self._driver.address,
            "spark.driver.extraJavaOptions": f"{_JAVA} -Djava.io.tmpdir={self.folder / 'tmp'}",
            "spark.executor.extraJavaOptions": f"{_JAVA} -Djava.io.tmpdir={self.folder / 'tmp'}",
            "spark.executor.memory": "512m",
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.ui.enabled": "false",
            "spark.master": self.master,
            **settings,
        }
        lines = "".join(f"{key} {value}\n" for key, value in own.items())
        (conf / "spark-defaults.conf").write_text(f"{shipped}\n{lines}", encoding="utf-8")
        return {
            **_without_spark(),
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": self._driver.address,
        }

    def command(self, *arguments: str, settings: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start `sparksplit ARGUMENTS`. settings: Spark's keys. `stop` kills it if it still runs."""
        command = subprocess.Popen(
            [*self._driver.enter, sys.executable, "-m", "sparksplit.commands.cli", *arguments],
            cwd=self.folder,
            env=self.environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(command)
        return command

    def stop(self) -> None:
        """Kill commands that a failed test has left, and all daemons with their executors. Remove the folder."""
        for command in self._started:
            if command.poll() is None:
                command.kill()
                command.communicate()
        for daemon in reversed(self._running.values()):
            daemon.stop()
        self._kept_folder.remove()

    def _start(self, name: str) -> None:
        host, command = self._commands[name]
        environment = {
            **_without_spark(),
            "JAVA_HOME": java_home(),
            "SPARK_HOME": str(self._home),
            "SPARK_CONF_DIR": str(self.folder / "empty"),
            "SPARK_LOCAL_IP": host.address,
            "SPARK_LOCAL_DIRS": str(self.folder / f"local-{name}"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{_JAVA} -Djava.io.tmpdir={self.folder / 'tmp'}",
        }
        log = self.folder / "logs" / f"{name}.log"
        self._running[name] = Kept(self.folder, [*host.enter, *command], log, environment)
        if name == "master":
            self._wait_for("the master's page", lambda: bool(self.state()))

    def _daemon(self, name: str, host: Host, page: int) -> list[str]:
        # Not java itself: the script also says which Scala this is, without which a worker starts no executor.
        program = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        return [*program, "--host", host.address, "--webui-port", str(page)]

    def _worker(self, number: int, host: Host, cores: int) -> list[str]:
        size = ["--cores", str(cores), "--memory", f"{cores}g", "--work-dir", str(self.work(number))]
        return [*self._daemon("worker.Worker", host, 0), *size, self.master]

    def _alive(self) -> set[str]:
        return {one["host"] for one in self.state()["workers"] if one["state"] == "ALIVE"}

    def _wait_for(self, what: str, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                if ready():
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass  # it is not there yet
            ended = [name for name, process in self._running.items() if process.status is not None]
            if time.monotonic() > end or "master" in ended:
                logs = "\n".join(tail(file, 10) for file in sorted((self.folder / "logs").iterdir()))
                raise RuntimeError(f"no sign of {what}; ended: {ended}; the logs end:\n{logs}")
            time.sleep(0.1)


def _without_spark() -> dict[str, str]:
    """This process's variables without those that name another Spark."""
    names = ("MASTER", "SPARK_", "PYSPARK_", "HADOOP_")
    return {name: value for name, value in os.environ.items() if not name.startswith(names)}
