"""benchmarks/control_plane.py plays nodes for the driver, and the right one is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "control_plane.py"


@pytest.mark.slow
def test_faults_of_played_nodes_are_noticed() -> None:
    command = [sys.executable, str(BENCHMARK), "--nodes", "20", "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["noticed_kill_seconds"] < 5 < found["noticed_silence_seconds"]
    assert 0 < found["driver_cpu"] < 1
