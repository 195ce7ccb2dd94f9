"""What the tests start ends with them, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.hadoop.processes import Kept, KeptFolder

ROOT = Path(__file__).parent.parent.parent

STARTER = """
import signal, sys
from tests.hadoop.processes import Kept, KeptFolder

folder = KeptFolder("sparksplit-test-")
# A daemon, and what it has started and let go.
Kept(folder.path, ["sh", "-c", "setsid sleep 1000 & setsid sleep 1000 & sleep 1000"], folder.path / "log", {})
print(folder.path, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_its_starter(number):
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    folder = Path(starter.stdout.readline().strip())
    this = psutil.Process(starter.pid)
    while len(sleepers := [each for each in this.children(recursive=True) if each.name() == "sleep"]) < 3:
        assert starter.poll() is None
    keepers = this.children()
    starter.send_signal(number)
    starter.communicate(timeout=60)
    _, left = psutil.wait_procs(sleepers + keepers, timeout=60)
    assert left == []
    assert not folder.exists()


def test_a_command_that_ends_takes_its_children_along(tmp_path):
    log = tmp_path / "log"
    kept = Kept(tmp_path, ["sh", "-c", "setsid sleep 1000 & echo $!; exit 3"], log, dict(os.environ))
    assert kept.wait(20) == 3
    assert not psutil.pid_exists(int(log.read_text()))
    kept.stop()


def test_a_wait_that_takes_too_long_quotes_the_log(tmp_path):
    log = tmp_path / "log"
    kept = Kept(tmp_path, ["sh", "-c", "echo the reason; exec sleep 1000"], log, dict(os.environ))
    while not log.read_text():
        assert kept.status is None
    with pytest.raises(TimeoutError, match="the reason"):
        kept.wait(0.01)
    kept.stop()
    assert kept.status == 128 + signal.SIGKILL


def test_a_folder_is_removed():
    folder = KeptFolder("sparksplit-test-")
    (folder.path / "file").write_text("text")
    folder.remove()
    assert not folder.path.exists()
