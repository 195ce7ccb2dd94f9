"""No node outlives its driver, whether that is killed or stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NODES = 2


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.driver", str(tmp_path), str(NODES)],
        cwd=Path(__file__).parents[2],
        start_new_session=True,
        stderr=subprocess.PIPE,
        # A killed driver cannot remove its session's folder.
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    yield process
    family = [process.pid]
    if process.poll() is None:
        family += [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        process.kill()
        process.wait()
    for pid in family:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)


def processes(folder: Path) -> list[psutil.Process]:
    """The nodes and their launchers, once all nodes work."""
    files = [folder / f"{rank}.json" for rank in range(NODES)]
    end = time.monotonic() + 120
    while not all(file.exists() for file in files):
        assert time.monotonic() < end
        time.sleep(0.05)
    facts = [json.loads(file.read_text()) for file in files]
    return [psutil.Process(fact[who]) for fact in facts for who in ("pid", "launcher")]


def seconds_until_gone(left: list[psutil.Process], limit: float) -> float:
    begin = time.monotonic()
    _, alive = psutil.wait_procs(left, timeout=limit)
    assert not alive
    return time.monotonic() - begin


def test_a_killed_driver_takes_its_nodes_along(driver: subprocess.Popen[bytes], tmp_path: Path) -> None:
    left = processes(tmp_path)
    family = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    driver.wait()
    print(f"nodes and launchers gone after {seconds_until_gone(left, 15):.2f} s")
    print(f"everything gone after another {seconds_until_gone(family, 60):.2f} s")


def test_nodes_of_a_stopped_driver_end_themselves(driver: subprocess.Popen[bytes], tmp_path: Path) -> None:
    nodes = processes(tmp_path)[::2]
    os.kill(driver.pid, signal.SIGSTOP)
    seconds = seconds_until_gone(nodes, 60)
    print(f"nodes gone after {seconds:.1f} s")
    assert seconds > 15
    os.kill(driver.pid, signal.SIGCONT)
    _, text = driver.communicate(timeout=120)
    assert driver.returncode != 0
    assert re.search(rb"NodeFailed: the driver stood still for (1[89]|[2-9]\d) s \(it was stopped, or", text)
