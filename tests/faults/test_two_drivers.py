"""Two live drivers on one output: the first stands still for longer than its lease lasts, and then goes on."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hdfs_io import lease
from sparksplit.base.command import Options
from tests.faults.driver import KEYS
from tests.training.runs import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]

SECONDS = 120
"""For whatever is waited for, however busy the machine."""


def contents(folder: Path) -> dict[str, str]:
    """A digest of each file below `folder`, but for the test's own."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "go"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_driver_that_was_taken_for_dead_writes_nothing_more(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do its nodes, which never stood still."""
    output, nodes = tmp_path / "runs" / "run", tmp_path / "nodes"
    output.parent.mkdir()
    nodes.mkdir()
    command = [sys.executable, "-m", "tests.faults.driver", str(digits), str(output), str(nodes)]
    environment = {**os.environ, "TEST_HELD": str(output)}
    first = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        give_up = time.monotonic() + SECONDS
        while not any((output / "checkpoints").glob("update-*")):
            assert first.poll() is None and time.monotonic() < give_up
            time.sleep(0.05)
        first.send_signal(signal.SIGSTOP)
        long_ago = time.time() - lease.EXPIRE_SECONDS
        os.utime(lease.file_of(str(output)), (long_ago, long_ago))
        monkeypatch.setattr(lease, "WATCH_SECONDS", 1.0)
        record = run(digits, output, Options(resume=True), **KEYS)
        assert record["ledger"]["exact"] and [each["how"] for each in record["attempts"]] == ["start", "resume"]
        finished = contents(output.parent)
        (output / "go").touch()
        time.sleep(1)
        assert contents(output.parent) == finished
        first.send_signal(signal.SIGCONT)
        errors = first.communicate(timeout=SECONDS)[1]
    finally:
        first.kill()
        first.wait()
    assert first.returncode == 1
    assert f"{output}: another run has taken over this output; this one ends" in errors.splitlines()[-1]
    assert contents(output.parent) == finished
