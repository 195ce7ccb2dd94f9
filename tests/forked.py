"""Training runs whose nodes are forked processes instead of Spark's: for what nodes do, not for how they are started.

Everything but Spark and TensorFlowOnSpark is the product's: the driver's NodeCluster and channel, the launchers (here
threads), the nodes with their ring, files and results.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from sparksplit.cluster import launcher
from sparksplit.cluster.beside_driver import Launchers
from sparksplit.cluster.member import Start

_ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS = 120.0


class Zygote:
    """tests/zygote.py, started; it ends with this process, or by `end`. folder: for its socket and nodes' output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fate: dict[str, Any] | None = None
        self._socket = str(folder / "zygote")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote", self._socket],
            cwd=_ROOT,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.DEVNULL,
        )

    def connect(self) -> socket.socket:
        """A connection for one node; waits until the zygote is ready."""
        give_up = time.monotonic() + _START_SECONDS
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self._socket)
                return connection
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
                assert time.monotonic() < give_up and self._process.poll() is None
                time.sleep(0.05)

    @contextmanager
    def befalls(self, rank: int, signum: int, before: str = "") -> Iterator[None]:
        """Within the block, the first node of this rank gets a signal before it calls `module:name`; nothing: before it
        calls the driver. It must come to pass."""
        once = self.folder / f"fate-{secrets.token_hex(4)}"
        self._fate = {"rank": rank, "signum": signum, "before": before, "once": str(once)}
        try:
            yield
        finally:
            self._fate = None
        assert once.exists()

    def become(self, start: Start, output: Path) -> str:
        """What asks for a node."""
        return json.dumps({"start": asdict(start), "output": str(output), "fate": self._fate})

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class _Node:
    """Stands in for the launcher's `_Node`."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._lock = threading.Lock()
        self._killed = self._ended = False
        self._pid: int | None = None

    def run(self, start: Start) -> tuple[int, list[str]]:
        output = self._zygote.folder / f"output-{start.post.secret[:8]}-{start.post.rank}"
        with self._zygote.connect() as connection, connection.makefile("rw") as lines:
            with self._lock:
                if self._killed:
                    return -signal.SIGKILL, []
                print(self._zygote.become(start, output), file=lines, flush=True)
                self._pid = int(lines.readline())
            status = int(lines.readline())
            with self._lock:
                self._ended = True
        return status, output.read_text(errors="replace").splitlines()[-launcher.OUTPUT_LINES :]

    def is_stopped(self) -> bool:
        with suppress(psutil.NoSuchProcess):
            return self._pid is not None and psutil.Process(self._pid).status() == psutil.STATUS_STOPPED
        return False

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            if self._pid is not None and not self._ended:
                with suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)

    def write_stack(self) -> None:
        return

    def end(self) -> None:
        self.kill()


def _job(sc: Any, name: str, nodes: int, arguments: dict[str, Any], executors: Any = None) -> Launchers:
    """Stands in for tensorflowonspark.Job: launchers as threads of this process."""
    return Launchers(sc, name, nodes, arguments)


class _Context:
    """What is asked of a SparkContext where nodes are not Spark's."""

    master, applicationId = "local-cluster[4,1,1024]", "forked"  # noqa: N815

    def getConf(self) -> _Context:  # noqa: N802
        return self

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802
        return [("spark.master", self.master), ("spark.driver.host", "127.0.0.1")]

    def get(self, key: str, default: str | None = None) -> str | None:
        return dict(self.getAll()).get(key, default)


@contextmanager
def session(*_: Any, **__: Any) -> Iterator[Any]:
    """What stands for a Spark session."""
    yield SimpleNamespace(sparkContext=_Context(), conf=_Context())


@contextmanager
def nodes_of(zygote: Zygote, spark: bool = False) -> Iterator[None]:
    """Have `train`, `search` and `compare` take nodes from `zygote` within the block. spark: whether they also have
    Spark."""
    with pytest.MonkeyPatch.context() as patch:
        # A disk for each rank, as executors have their own folders.
        patch.setenv("SPARK_LOCAL_DIRS", ",".join(str(zygote.folder / f"disk-{rank}") for rank in range(8)))
        if not spark:
            patch.setattr("sparksplit.training.train.spark_session", session)
            patch.setattr("sparksplit.training.in_session.asking", lambda _: nullcontext())
            patch.setattr("sparksplit.searching.search.spark_session", session)
            patch.setattr("sparksplit.searching.search.executors_of", lambda _: 4)
            patch.setattr("sparksplit.comparison.compare.spark_session", session)
            patch.setattr("sparksplit.diagnosis.diagnose.spark_session", session)
            patch.setattr("sparksplit.planning.plan.spark_session", session)
        patch.setattr("sparksplit.cluster.requirements.await_executors", lambda *_: 0.0)
        patch.setattr("sparksplit.cluster.tensorflowonspark.Job", _job)
        patch.setattr(launcher, "_Node", lambda *_: _Node(zygote))
        yield
