"""What benchmarks/sealed.py says of its predictions."""

from __future__ import annotations

import json

import pytest

from benchmarks.sealed import LINKS, MODELS, NODES, PASSES, ROWS, SAVED, STRATEGIES, minutes, settings
from benchmarks.sealed_results import (
    add_measured,
    broken,
    figures,
    goals,
    measured_rows,
    measurements,
    seal,
    sealed,
    table,
    taken,
)
from benchmarks.slow_link_hosts import limits


def cell(model: str, strategy: str, seconds: float, measured: float) -> dict[str, object]:
    return {
        "model": model, "mbit": 10, "strategy": strategy, "seconds": seconds, "memory": 100, "measured": measured,
        "measured_memory": 105,
    }  # fmt: skip


def test_a_changed_file_is_refused(tmp_path):
    file = tmp_path / "sealed.json"
    assert "predict" in (broken(file, settings()) or "")
    content = sealed([{"model": "mlp", "seconds": 1.0}], settings())
    seal(file, content)
    assert broken(file, settings()) is None
    assert "other runs" in (broken(file, {**settings(), "rows": {}}) or "")
    content["cells"][0]["seconds"] = 2.0
    file.write_text(json.dumps(content))
    assert "was changed" in (broken(file, settings()) or "")


def test_predictions_are_never_replaced(tmp_path):
    file = tmp_path / "sealed.json"
    assert taken(file) is None
    seal(file, sealed([], settings()))
    before = file.read_text()
    assert "never replaced" in (taken(file) or "")
    with pytest.raises(FileExistsError):
        seal(file, sealed([{"model": "mlp"}], settings()))
    assert file.read_text() == before and list(tmp_path.iterdir()) == [file]


def test_measurements_are_kept_one_by_one_and_belong_to_their_predictions(tmp_path):
    file = tmp_path / "sealed.json"
    content = sealed([], settings())
    seal(file, content)
    assert measured_rows(file) == []
    rows = [{"digest": content["digest"], **cell("mlp", strategy, 1.0, 1.1)} for strategy in STRATEGIES]
    for number, row in enumerate(rows):
        add_measured(file, row)
        assert measured_rows(file) == rows[: number + 1]
    assert broken(file, settings()) is None
    add_measured(file, {**rows[0], "digest": "another"})
    assert "other predictions" in (broken(file, settings()) or "")
    file.unlink()
    assert str(measurements(file)) in (taken(file) or "")  # new predictions would come after the measurements


def test_all_strategies_of_a_link_make_as_many_passes():
    assert len(MODELS) * len(LINKS) * len(STRATEGIES) == 48
    assert set(ROWS) == set(PASSES) == set(MODELS)
    assert all(PASSES[model][mbit] % NODES == 0 for model in MODELS for mbit in LINKS)


@pytest.mark.parametrize(("mbit", "burst"), [(10, 3072), (100, 6875), (1000, 68_750)])
def test_an_idle_link_saves_little(mbit, burst):
    """A frame at least. At 1,000 Mbit/s what TCP hands over at once, which the kernel else cuts to frames."""
    assert limits(mbit, SAVED)[3:5] == ["burst", str(burst)]
    assert limits(mbit)[3:5] == ["burst", str(max(32 << 10, mbit * 625))]


def test_a_run_takes_ten_seconds_beside_training():
    assert minutes([{"seconds": 50.0}, {"seconds": 110.0}]) == pytest.approx(3.0)


def test_the_goals_are_of_all_cells_or_of_as_large_a_part():
    found = {"median_error": 0.08, "within_15_percent": 43, "fastest_named": 11, "pairs": 12}
    told, are_met = goals({**found, "memory_within_10_percent": 48}, 48)
    assert are_met and len(told) == 5 and "43 of 48   at least 43  met" in told[2]
    told, are_met = goals({**found, "memory_within_10_percent": 47}, 48)
    assert not are_met and told[4].endswith("missed")
    part = {"median_error": 0.01, "within_15_percent": 10, "fastest_named": 3, "pairs": 3}
    assert not goals({**part, "memory_within_10_percent": 12}, 12)[1]  # eleven of twelve are wanted


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
