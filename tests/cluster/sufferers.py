"""A run of nodes of which one is made to fail, and what must be so after it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from sparksplit.base.errors import NodeFailed
from sparksplit.cluster import NodeCluster

WORKS = "tests.cluster.works"
NODES = 3
EXECUTORS = 4
"""Of the session's local cluster."""


class Sufferers:
    """The nodes of one run, from what they report of themselves; does something to them once all have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: list[dict[str, Any]] = []

    def await_all(self) -> None:
        files = [self.folder / f"{rank}.json" for rank in range(NODES)]
        while not all(file.exists() for file in files):
            time.sleep(0.01)
        self.facts = [json.loads(file.read_text()) for file in files]

    def act(self, action: Callable[[dict[str, Any]], None]) -> threading.Thread:
        """Do it to rank 1."""

        def wait_and_act() -> None:
            self.await_all()
            action(self.facts[1])

        thread = threading.Thread(target=wait_and_act, daemon=True)
        thread.start()
        return thread


def greeted(spark: Any) -> None:
    """A run, after which the driver has all the ports and threads that it keeps."""
    with NodeCluster(spark, NODES, f"{WORKS}:greet", {}) as cluster:
        cluster.run()


@contextmanager
def suffering(folder: Path, spark: Any) -> Iterator[Sufferers]:
    """Afterwards: the next run works in the same SparkContext, and of this one nothing is left. After `greeted`."""
    driver = psutil.Process()
    before = _listening(driver), driver.num_threads()
    sufferers = Sufferers(folder)
    yield sufferers
    alive = [process for facts in sufferers.facts if (process := _process(facts["pid"]))]
    assert not psutil.wait_procs(alive, timeout=10)[1]
    # One on every executor: what a killed worker has left is removed by the next node in its place.
    with NodeCluster(spark, EXECUTORS, f"{WORKS}:greet", {}) as cluster:
        results = cluster.run()
    assert [result["rank"] for result in results] == list(range(EXECUTORS))
    assert not [facts["local_dir"] for facts in sufferers.facts if Path(facts["local_dir"]).exists()]
    assert _listening(driver) == before[0]
    assert driver.num_threads() <= before[1] + 3


def _listening(process: psutil.Process) -> set[int]:
    return {c.laddr.port for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}


def fail(
    spark: Any,
    sufferers: Sufferers,
    payload: dict[str, Any],
    error: type[Exception] = NodeFailed,
    **options: Any,
) -> Exception:
    """Run to failure: what is raised."""
    given = {"folder": str(sufferers.folder), "rank": 1, **payload}
    with (
        pytest.raises(error) as caught,
        NodeCluster(spark, NODES, f"{WORKS}:suffer", given, **options) as cluster,
    ):
        cluster.run()
    return caught.value


def _process(pid: int) -> psutil.Process | None:
    """None for an ended process, also where its new parent has not asked for its exit status."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.NoSuchProcess:
        return None
