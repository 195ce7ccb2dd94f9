"""What benchmarks/sealed.py says of its predictions."""

from __future__ import annotations

import json

import pytest

from benchmarks.sealed import broken, figures, sealed, table


def cell(model: str, strategy: str, seconds: float, measured: float) -> dict[str, object]:
    return {
        "model": model, "mbit": 10, "strategy": strategy, "seconds": seconds, "memory": 100, "measured": measured,
        "measured_memory": 105,
    }  # fmt: skip


def test_a_changed_file_is_refused(tmp_path):
    file = tmp_path / "sealed.json"
    assert "predict" in (broken(file) or "")
    content = sealed([{"model": "mlp", "seconds": 1.0}])
    file.write_text(json.dumps(content))
    assert broken(file) is None
    content["cells"][0]["seconds"] = 2.0
    file.write_text(json.dumps(content))
    assert "was changed" in (broken(file) or "")


def test_errors_are_shares_of_the_measured_times():
    rows = [cell("mlp", "batch", 1.1, 1.0), cell("mlp", "local", 0.8, 1.0), cell("mlp", "epoch", 1.0, 1.0)]
    found = figures(rows)
    assert found["median_error"] == pytest.approx(0.1) and found["largest_error"] == pytest.approx(0.2)
    assert found["within_15_percent"] == 2 and found["memory_within_10_percent"] == 3
    assert len(table(rows)) == 4


@pytest.mark.parametrize(("measured", "named"), [(1.0, 1), (1.05, 1), (1.06, 0)])
def test_the_fastest_may_be_missed_by_a_twentieth(measured, named):
    rows = [cell("mlp", "batch", 0.5, measured), cell("mlp", "local", 0.6, 1.0)]
    found = figures(rows)
    assert (found["fastest_named"], found["pairs"]) == (named, 1)
