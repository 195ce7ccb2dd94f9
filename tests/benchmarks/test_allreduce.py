"""benchmarks/allreduce.py: its arithmetic, and that our contenders run."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "allreduce.py"


@pytest.fixture(scope="module")
def allreduce():
    spec = importlib.util.spec_from_file_location("allreduce", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_share_is_of_medians(allreduce, capsys):
    rounds = {
        ("hot", "400", "shared"): [4.0, 5.0, 6.0],
        ("hot", "400", "memcpy"): [1.0, 2.0, 9.0],
        ("cold", "400", "ring"): [3.0],
    }
    allreduce.report(rounds, {"load": 0.5})
    found = json.loads(capsys.readouterr().out)
    assert found["milliseconds"] == {"hot": {"400": {"shared": 5.0, "memcpy": 2.0}}, "cold": {"400": {"ring": 3.0}}}
    assert found["share_of_memcpy"] == {"hot": {"400": 0.4}, "cold": {}}
    assert (found["spread"], found["load"]) == ({"hot": {"400": 40}, "cold": {}}, 0.5)


def test_it_runs():
    command = [sys.executable, str(SCRIPT), "--rounds", "1", "--repeats", "2", "--sizes", "4000", "800000"]
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parent.parent)}
    done = subprocess.run(
        [*command, "--only", "shared", "ring"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for by_size in found["milliseconds"].values():
        assert list(by_size) == ["4000", "800000"]
        assert all(min(each[name] for name in ("shared", "ring", "memcpy")) > 0 for each in by_size.values())
