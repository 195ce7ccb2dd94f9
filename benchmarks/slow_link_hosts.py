"""Two hosts on one machine, for slow_link.py: network namespaces, the limited link between them, and Spark on both.

Everything lives in a PID namespace and in network namespaces without names, which the kernel ends with their
processes: `isolated` kills the first process of them, and nothing is left, however the benchmark ends.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

from tests.hosts import Host, link, new_network

ROOT = Path(__file__).resolve().parent.parent
NEAR, FAR = "10.77.0.1", "10.77.0.2"
"""The hosts' addresses. The driver and Spark's master are on the near one."""
MASTER_PORT = 7077
"""Free for certain: the namespace is new."""
_ISOLATE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
_START_SECONDS = 60.0


def missing(mbit: int) -> str | None:
    """What two hosts need and this machine lacks, in a line; None where they can be made."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    for program, package in (
        ("ip", "iproute2"),
        ("tc", "iproute2"),
        ("unshare", "util-linux"),
        ("nsenter", "util-linux"),
    ):
        if shutil.which(program) is None and (program != "tc" or mbit):
            return f"needs the program {program} (Debian's package {package})"
    link = "ip link add dev probe type veth peer name other"
    limit = f" && tc qdisc add dev probe root {' '.join(limits(mbit))}" if mbit else ""
    tried = subprocess.run([*_ISOLATE, "sh", "-c", link + limit], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"cannot make network namespaces with a limited link here: {' '.join(tried.stderr.split())[:300]}"
    return None


def limits(mbit: int, saved: float = 5.0) -> list[str]:
    """tc's words for a token bucket of `mbit` Mbit/s.

    saved: the milliseconds of an idle link that the bucket saves for later. By default more than a tick of the kernel's
    clock, and at least 32 KiB. Less needs timers of high resolution, and is closer to a real link, which saves nothing.
    """
    burst = max(32 << 10 if saved >= 5 else 3 << 10, round(mbit * 125 * saved))
    return ["tbf", "rate", f"{mbit}mbit", "burst", str(burst), "latency", "50ms"]


def isolated(command: Sequence[str], temporary: Path) -> int:
    """Run `command` in namespaces of its own; its exit status. Nothing of it is left when this returns or raises.

    temporary: where it keeps its temporary files.
    """
    from sparksplit.base.orphans import die_with_parent

    # The shell is the namespace's first process: it collects the orphans.
    process = subprocess.Popen(
        [*_ISOLATE, "sh", "-c", '"$@"; exit $?', "sh", *command],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,  # Ctrl-C is for this process, which then ends that one
        preexec_fn=die_with_parent,  # noqa: PLW1509 (no thread runs yet)
    )
    try:
        return process.wait()
    finally:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the first process of the namespace, and with it all others; `unshare` returns when they are gone."""
    if process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), 9)
        if not children:
            process.kill()
        process.wait()


class Hosts:
    """The near host, which is this process's network, and the far one, joined by a link. Only inside `isolated`."""

    def __init__(self, mbit: int, saved: float = 5.0) -> None:
        """mbit: the most that the link carries in each direction, in Mbit/s; 0: no limit. saved: as for `limits`."""
        self.mbit, self._saved = mbit, saved
        self._network = new_network()
        self._near, self._far = Host(NEAR), Host(FAR, self._network.pid)
        link(self._near, self._far)
        for host in (self._near, self._far):
            # Messages of 200 KB had 79 % of 10 Mbit/s with a machine's BBR, and 88 to 93 % with Reno, which each
            # kernel lets a new network have. On such a short link, CUBIC, the choice of most machines, is Reno.
            host.do("sh", "-c", "echo reno > /proc/sys/net/ipv4/tcp_congestion_control")
        if mbit:
            self.limit(mbit)

    def limit(self, mbit: int) -> None:
        """Have the link carry no more than that from now on, in each direction."""
        self.mbit = mbit
        for host in (self._near, self._far):
            host.do("tc", "qdisc", "replace", "dev", "link", "root", *limits(mbit, self._saved))

    def enter(self, host: str) -> list[str]:
        """What to put before a command that is to run on `host`."""
        return self._far.enter if host == FAR else []

    def measured(self) -> float:
        """MB/s of the link in each direction, with both in use, as a ring uses it.

        Raises RuntimeError where that is more than the limit.
        """
        size = 3 * self.mbit * 1_000_000 // 8 if self.mbit else 500_000_000
        with socket.create_server((NEAR, 0)) as server, ThreadPoolExecutor(1) as calling:
            address = server.getsockname()
            there = calling.submit(
                self._far.inside, lambda: _exchange(socket.create_connection(address, _START_SECONDS), size)
            )
            server.settimeout(_START_SECONDS)
            connection, _ = server.accept()
            rate = min(_exchange(connection, size), there.result()) / 1e6
        if self.mbit and rate > 1.1 * self.mbit / 8:
            raise RuntimeError(f"the link carries {rate:.1f} MB/s, and its limit is {self.mbit} Mbit/s")
        return rate


def _exchange(connection: socket.socket, size: int) -> float:
    """Send `size` bytes and receive as many, at the same time; bytes/s received."""
    with connection:
        connection.settimeout(_START_SECONDS)
        sending = Thread(target=connection.sendall, args=(bytes(size),))
        sending.start()
        left, buffer, began = size, bytearray(1 << 20), time.perf_counter()
        while left:
            received = connection.recv_into(buffer, min(left, len(buffer)))
            if not received:
                raise RuntimeError("the link's measurement was cut")
            left -= received
        seconds = time.perf_counter() - began
        sending.join()
    return size / seconds


@contextmanager
def spark(hosts: Hosts, places: Sequence[str], folder: Path, pinned: bool = False) -> Iterator[None]:
    """A Spark standalone cluster: a master on the near host, and a worker of one core on each of `places`.

    folder: for Spark's files; is made. pinned: whether a worker and all that it starts stay on a processor of their
    own. Meanwhile a `spark_session` of this process uses the cluster.
    """
    for name in ("conf", "tmp"):
        (folder / name).mkdir(parents=True)
    java = f"-XX:-UsePerfData -XX:TieredStopAtLevel=1 -Djava.io.tmpdir={folder / 'tmp'}"
    settings = {
        "spark.master": f"spark://{NEAR}:{MASTER_PORT}",
        "spark.driver.host": NEAR,
        "spark.driver.bindAddress": NEAR,
        "spark.driver.extraJavaOptions": java,
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": java,
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.local.dir": str(folder / "local"),
        "spark.speculation": "false",
        "spark.task.cpus": "1",
        "spark.ui.enabled": "false",
    }
    lines = "".join(f"{key} {value}\n" for key, value in settings.items())
    (folder / "conf" / "spark-defaults.conf").write_text(lines)
    # spark.pyspark.python is for spark-submit alone.
    os.environ.update(SPARK_CONF_DIR=str(folder / "conf"), SPARK_LOCAL_IP=NEAR, PYSPARK_PYTHON=sys.executable)
    with ExitStack() as stack:
        master = _daemon(hosts, NEAR, folder, java, "master.Master", ["--port", str(MASTER_PORT)])
        stack.callback(_end, master)
        _await_port(master, folder)
        processors = sorted(os.sched_getaffinity(0))
        for number, place in enumerate(places):
            options = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{number}")]
            options.append(f"spark://{NEAR}:{MASTER_PORT}")
            pin = ["taskset", "--cpu-list", str(processors[number % len(processors)])] if pinned else []
            worker = _daemon(hosts, place, folder, java, "worker.Worker", options, pin)
            stack.callback(_end, worker)
        yield


def clean_environment() -> None:
    """Drop what this process's variables say about another Spark, and put this checkout on the path of all Pythons."""
    for name in list(os.environ):
        if name == "MASTER" or name.startswith(("SPARK_", "PYSPARK_", "HADOOP_")):
            del os.environ[name]
    os.environ.update(PYTHONPATH=str(ROOT), TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")


def _daemon(
    hosts: Hosts, host: str, folder: Path, java: str, name: str, options: list[str], within: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    import pyspark

    from sparksplit.spark.settings.java import java_home

    home = Path(pyspark.__file__).parent
    # Not java itself: the script also says which Scala this is, without which a worker starts no executor.
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(
            [*hosts.enter(host), *within, *command, "--host", host, "--webui-port", "0", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "JAVA_HOME": java_home(),
                "SPARK_HOME": str(home),
                "SPARK_LOCAL_IP": host,
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": java,
            },
        )


def _await_port(master: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection((NEAR, MASTER_PORT), 1).close()
        except OSError:
            if master.poll() is not None or time.monotonic() > deadline:
                said = (folder / "daemons.log").read_text()[-2000:]
                raise RuntimeError(f"Spark's master did not start:\n{said}") from None
            time.sleep(0.1)
        else:
            return


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
