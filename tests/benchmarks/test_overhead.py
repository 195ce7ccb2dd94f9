"""benchmarks/overhead.py: its arithmetic, and that its contenders run."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "overhead.py"


@pytest.fixture(scope="module")
def overhead() -> ModuleType:
    # A script, not a package's module: it runs where only the product is installed.
    spec = importlib.util.spec_from_file_location("overhead", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_ratios_are_to_the_faster_peer_and_the_ceiling(overhead: ModuleType) -> None:
    rates = {
        "single": 90.0,
        "loop": 100.0,
        "fit1": 60.0,
        "batch2": 150.0,
        "ceiling": 200.0,
        "fit2": 120.0,
        "mwms": 30.0,
    }
    assert overhead.ratios({"cnn": rates}) == {
        "cnn_single_ratio": 0.9,
        "cnn_batch2_ratio": 0.75,
        "cnn_batch2_to_mwms": 5.0,
        "cnn_batch2_to_keras2": 1.25,
    }
    assert overhead.ratios({"cnn": {**rates, "fit1": 180.0}})["cnn_single_ratio"] == 0.5
    assert overhead.ratios({"mlp": {"single": 1.0, "mwms": 2.0}}) == {}


def test_generated_rows_are_images_with_labels(overhead: ModuleType) -> None:
    x, y = overhead._generated(50)
    assert (x.dtype, x.shape, y.dtype, y.shape) == (np.uint8, (50, 28, 28), np.int64, (50,))
    assert set(y) <= set(range(10))


@pytest.mark.slow
def test_a_contender_of_each_kind_runs() -> None:
    """On tiny inputs. `benchmarks/overhead.py --quick` runs all of them, with an environment that it makes for one."""
    kinds = ["batch2", "ceiling", "fit1"]
    # stderr stays on the terminal: it names the contender that failed.
    done = subprocess.run(
        [sys.executable, SCRIPT, "--quick", "--models", "mlp", "--only", *kinds],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["mlp_batch2_ratio"] > 0
    assert sorted(result["rows_per_second"]["mlp"]) == kinds
    assert all(rate > 0 for rate in result["rows_per_second"]["mlp"].values())
