"""benchmarks/h2o.py: its arithmetic, and how it reads both contenders' records."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def _load(name: str) -> ModuleType:
    # Scripts, not a package's modules: they run where only the product is installed.
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def h2o() -> ModuleType:
    return _load("h2o")


def test_the_points_are_those_of_the_training_clock(h2o: ModuleType) -> None:
    epochs = [
        {"rows": 60_000, "seconds": {"train": 0.5, "total": 0.9}, "validation": {"accuracy": 0.94, "loss": 0.2}},
        {"rows": 60_000, "seconds": {"train": 0.25, "total": 0.6}, "validation": {"accuracy": 0.96, "loss": 0.1}},
    ]
    assert h2o.points_of(epochs) == [(60_000, 0.5, 0.94), (120_000, 0.75, 0.96)]


def test_h2os_points_leave_out_the_untrained_network_and_its_scoring() -> None:
    header = ["", "duration", "training_speed", "epochs", "samples", "validation_classification_error"]
    rows = [
        ["", " 0.000 sec", None, 0.0, 0.0, float("nan")],
        ["", "14.000 sec", "5000 obs/sec", 1.0, 60_000.0, 0.08],
        ["", "27.000 sec", "5000 obs/sec", 2.0, 120_000.0, 0.05],
    ]
    assert _load("h2o_contender").points_of(header, rows) == [(60_000, 12.0, 0.92), (120_000, 24.0, 0.95)]


def test_the_ratio_is_of_each_repeat_and_the_median_of_all(h2o: ModuleType) -> None:
    repeats = [
        ([(1, 0.5, 0.96)], [(1, 10.0, 0.94), (2, 100.0, 0.95)]),
        ([(1, 0.25, 0.94), (2, 0.5, 0.97)], [(1, 60.0, 0.951)]),
        ([(1, 1.0, 0.95)], [(1, 40.0, 0.93), (2, 80.0, 0.96)]),
    ]
    found = h2o.summary(repeats, 0.95)
    assert (found["ours_seconds"], found["h2o_seconds"], found["ratio"]) == (0.5, 80.0, 120.0)
    assert (found["h2o_best"], found["ours_best"], found["ratio_at_least"]) == (0.96, 0.97, 120.0)
    assert (found["ours_epoch_seconds"], found["h2o_epoch_seconds"]) == (0.5, 50.0)


def test_a_peer_that_never_arrives_has_no_ratio(h2o: ModuleType) -> None:
    never, late, nothing = [(1, 90.0, 0.93)], [(1, 100.0, 0.96)], []
    mine = [(1, 0.5, 0.96)]
    found = h2o.summary([(mine, never), (mine, late), (mine, nothing)], 0.95)
    assert (found["h2o_seconds"], found["ratio"], found["ratio_at_least"]) == (None, None, 180.0)
    assert (found["h2o_best"], found["h2o_epoch_seconds"]) == (0.96, 95.0)
    # Where it arrives in most repeats, it has one.
    assert h2o.summary([(mine, never), (mine, late), (mine, late)], 0.95)["ratio"] == 200.0


def test_ours_that_never_arrives_has_no_ratio_either(h2o: ModuleType) -> None:
    found = h2o.summary([([(1, 0.5, 0.9)], [(1, 100.0, 0.96)])], 0.95)
    assert (found["ours_seconds"], found["ratio"], found["ratio_at_least"]) == (None, None, None)
    assert found["h2o_seconds"] == 100.0


def test_the_table_has_a_line_for_each_width(h2o: ModuleType) -> None:
    result = {"hu32": h2o.summary([([(1, 0.5, 0.96)], [(1, 90.0, 0.93)])], 0.95)}
    _, line = h2o.table(result, [32])
    assert line.split() == ["32", "0.5", "-", "-", "0.93", "0.5", "90"]
