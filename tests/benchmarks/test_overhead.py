"""benchmarks/overhead.py: its arithmetic."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks import overhead_report as report

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


def test_ratios_are_to_the_faster_peer_and_the_ceiling() -> None:
    rates = {
        "single": 100.0,
        "loop": 125.0,
        "fit1": 60.0,
        "batch2": 150.0,
        "local2": 160.0,
        "ceiling": 200.0,
        "fit2": 120.0,
        "mwms": 30.0,
    }
    assert report.ratios({"cnn": rates}) == {
        "cnn_single_ratio": 0.8,
        "cnn_batch2_ratio": 0.75,
        "cnn_batch2_to_single": 1.5,
        "cnn_local2_ratio": 0.8,
        "cnn_batch2_to_mwms": 5.0,
        "cnn_batch2_to_keras2": 1.25,
    }
    assert report.ratios({"cnn": {**rates, "fit1": 200.0}})["cnn_single_ratio"] == 0.5
    assert report.ratios({"mlp": {"single": 1.0, "mwms": 2.0}}) == {}


def test_a_ratio_is_of_one_round_and_reported_is_the_median(capsys: pytest.CaptureFixture[str]) -> None:
    """A machine that gets slower from round to round changes no ratio."""
    found = {"mlp": {"single": [100.0, 50.0, 10.0], "batch2": [150.0, 75.0, 15.0]}}
    assert report.ratios_of(found) == {"mlp_batch2_to_single": [1.5, 1.5, 1.5]}
    found["mlp"]["batch2"] = [200.0, 75.0, 10.0]
    report.report(found, [0.02, 0.5], {"single": "One.", "batch2": "Two; both."})
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["mlp_batch2_to_single"] == 1.5
    assert told["spread"] == {"mlp_batch2_to_single": 33.3}
    assert (told["wide"], told["busy"]) == (["mlp_batch2_to_single"], [0.02, 0.5])


def test_the_spread_is_that_of_the_middle_half() -> None:
    assert report.spread([1.0]) is None
    assert report.spread([1.0, 1.1, 1.2]) == pytest.approx(100 * 0.1 / 1.1)
    assert report.spread([1.0, 1.0, 1.0, 1.0, 9.0]) == 0


def test_rounds_go_on_until_the_spread_is_small_or_the_time_is_over() -> None:
    narrow, scattered = {"a": [1.0, 1.05, 1.1]}, {"a": [1.0, 1.05, 1.1], "b": [1.0, 1.5, 2.0]}
    assert report.goes_on({}, 3, [], -1)  # the first one, however little time there is
    assert report.goes_on({"a": [1.0, 1.0]}, 3, [10, 10], 10)
    assert not report.goes_on(narrow, 3, [10, 10, 10], 100)
    assert report.goes_on(scattered, 3, [10, 10, 10], 100)
    assert not report.goes_on(scattered, 3, [10, 12, 10], 11)
    assert report.wide(scattered) == ["b"]
    assert report.wide({"a": [1.0]}) == ["a"]


def test_generated_rows_are_images_with_labels(overhead: ModuleType) -> None:
    x, y = overhead._generated(50)
    assert (x.dtype, x.shape, y.dtype, y.shape) == (np.uint8, (50, 28, 28), np.int64, (50,))
    assert set(y) <= set(range(10))
