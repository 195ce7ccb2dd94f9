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

from hdfs_io import filesystem, lease
from sparksplit.base.options import Options
from sparksplit.training import checkpoints
from tests.faults.driver import KEYS
from tests.training.runs import run

SECONDS = 120
"""For whatever is waited for, however busy the machine."""


def contents(folder: str) -> dict[str, str]:
    """A digest of each file below `folder`, but for the test's own."""
    names = [name for name in filesystem.tree(folder) if name.rpartition("/")[2] != "go"]
    return {name: hashlib.sha256(filesystem.read_bytes(f"{folder}/{name}")).hexdigest() for name in names}


def superseded(data: Path, runs: str, nodes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in the folder `runs` whose driver is taken for dead, while its nodes never stand still, writes nothing more
    once another has taken it over. nodes: a folder for the first one's."""
    output = f"{runs}/run"
    filesystem.make_folder(runs)
    nodes.mkdir()
    command = [sys.executable, "-m", "tests.faults.driver", str(data), output, str(nodes)]
    environment = {**os.environ, "TEST_HELD": output}
    first = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        give_up = time.monotonic() + SECONDS
        while checkpoints.latest(output) is None:
            assert first.poll() is None and time.monotonic() < give_up
            time.sleep(0.05)
        first.send_signal(signal.SIGSTOP)
        # The second one is not as patient as others.
        monkeypatch.setattr(lease, "EXPIRE_SECONDS", 1.0)
        monkeypatch.setattr(lease, "WATCH_SECONDS", 1.0)
        record = run(data, output, Options(resume=True), **KEYS)
        assert record["ledger"]["exact"] and [each["how"] for each in record["attempts"]] == ["start", "resume"]
        finished = contents(runs)
        assert {f"run/{name}" for name in ("_SUCCESS", "run.json", "metrics.jsonl", "model.keras")} <= finished.keys()
        filesystem.write_bytes(f"{output}/go", b"")
        time.sleep(1)
        assert contents(runs) == finished
        first.send_signal(signal.SIGCONT)
        errors = first.communicate(timeout=SECONDS)[1]
    finally:
        first.kill()
        first.wait()
    assert first.returncode == 1
    assert f"{output}: another run has taken over this output; this one ends" in errors.splitlines()[-1]
    assert contents(runs) == finished
