"""benchmarks/allreduce.py: its arithmetic."""

import importlib.util
import json
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
