"""What benchmarks/sealed.py says of its predictions."""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

import benchmarks.sealed as program
from benchmarks.sealed import (
    LINKS,
    MODELS,
    NODES,
    PAIRS,
    PASSES,
    ROWS,
    SAVED,
    STRATEGIES,
    commit,
    file_of,
    minutes,
    settings,
)
from benchmarks.sealed_results import (
    add_measured,
    broken,
    figures,
    goals,
    joined,
    measured_rows,
    measurements,
    seal,
    sealed,
    table,
    taken,
)
from benchmarks.slow_link_hosts import limits
from tests.planning.made_up import measured


def cell(model: str, strategy: str, seconds: float, measured: float) -> dict[str, object]:
    return {
        "model": model, "mbit": 10, "strategy": strategy, "seconds": seconds, "memory": 100, "measured": measured,
        "measured_memory": 105,
    }  # fmt: skip


def test_a_changed_file_is_refused(tmp_path):
    file = tmp_path / "sealed.json"
    assert "predict" in (broken(file, settings()) or "")
    content = sealed([{"model": "mlp", "seconds": 1.0}], {**settings(), "commit": "a"})  # later commits may measure it
    seal(file, content)
    assert broken(file, settings()) is None
    assert broken(file, {**settings(), "passes": {}}) is not None
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
    cells = [cell("mlp", strategy, 1.0, 1.1) for strategy in STRATEGIES]
    for number, one in enumerate(cells):
        add_measured(file, content["digest"], one, 1.1, 105)
        assert [row["strategy"] for row in measured_rows(file)] == list(STRATEGIES)[: number + 1]
    assert joined(cells, measured_rows(file)) == cells
    assert broken(file, settings()) is None
    add_measured(file, "another", cells[0], 1.1, 105)
    assert "other predictions" in (broken(file, settings()) or "")
    file.unlink()
    assert str(measurements(file)) in (taken(file) or "")  # new predictions would come after the measurements


def test_all_strategies_of_a_link_make_as_many_passes():
    assert len(PAIRS) * len(STRATEGIES) == 48
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


def test_predictions_are_those_under_the_seal():
    """Were: those beside the measurements, which no digest covers."""
    sealed_cell = {key: value for key, value in cell("mlp", "batch", 1.0, 0.0).items() if "measured" not in key}
    forged = {**cell("mlp", "batch", 2.0, 2.0), "memory": 105}
    assert joined([sealed_cell], [forged, cell("mlp", "batch", 1.0, 1.0)]) == [cell("mlp", "batch", 1.0, 2.0)]


def test_a_cell_that_was_not_measured_is_missed():
    cells = [cell("mlp", strategy, 1.0, 1.0) for strategy in STRATEGIES]
    rows = joined(cells, cells[1:])
    found = figures(rows)
    assert (found["measured"], found["within_15_percent"], found["memory_within_10_percent"]) == (3, 3, 3)
    assert (found["median_error"], found["largest_error"], found["fastest_named"], found["pairs"]) == (0.0, None, 0, 1)
    told, are_met = goals(found, len(rows))
    assert not are_met and "3 of 4" in told[2]
    assert sum("not measured" in line for line in table(rows)) == 1
    assert "inf%" in goals(figures(joined(cells, [])), 4)[0][1]


def test_a_run_that_fails_leaves_the_other_cells_to_be_measured(tmp_path, monkeypatch, capsys):
    """Was: `measure` ended there, and began there again."""
    cells = [{**cell("mlp", strategy, 1.0, 0.0), "mbit": 1000} for strategy in STRATEGIES]
    content = sealed([{key: one[key] for key in one if "measured" not in key} for one in cells], settings())
    seal(file := file_of(tmp_path, "mlp-1000"), content)

    def train(one, data, work):
        if one["strategy"] == "epoch":
            raise RuntimeError("ended with 1")
        return 1.0, 105

    class Hosts:
        def __init__(self, *_):
            self.limit = lambda _: None

    monkeypatch.setattr(program, "_train", train)
    monkeypatch.setattr(program, "_carried", lambda *_: 100.0)
    monkeypatch.setattr(program, "_prepared", lambda *_: tmp_path)
    monkeypatch.setattr("benchmarks.slow_link_hosts.Hosts", Hosts)
    monkeypatch.setattr("benchmarks.slow_link_hosts.spark", lambda *_, **__: nullcontext())
    monkeypatch.setattr("sparksplit.spark.session.spark_session", lambda *_: nullcontext())
    assert program._measure(SimpleNamespace(folder=tmp_path, only=["mlp-1000"], inside=tmp_path)) == 1
    said, problem = capsys.readouterr()
    last = json.loads(said.splitlines()[-1])
    assert (last["cells"], last["measured"], len(measured_rows(file))) == (4, 3, 3)
    assert last["digests"] == {"mlp-1000": content["digest"]}
    assert "mlp, epoch, 1000 Mbit/s: not measured: ended with 1" in problem


def test_steps_of_one_node_alone_are_never_sealed(tmp_path, monkeypatch):
    """Was: without time for both nodes side by side, the steps of one node alone counted."""
    monkeypatch.setattr(program, "_prepared", lambda *_: tmp_path)
    monkeypatch.setattr(program, "_plan_config", lambda *_: None)
    monkeypatch.setattr("benchmarks.slow_link_hosts.Hosts", lambda _: None)
    monkeypatch.setattr("benchmarks.slow_link_hosts.spark", lambda *_, **__: nullcontext())
    monkeypatch.setattr("sparksplit.spark.session.spark_session", lambda *_: nullcontext())
    monkeypatch.setattr("sparksplit.planning.plan_config.on_nodes", lambda *_: None)
    monkeypatch.setattr("sparksplit.planning.workload.step_sizes", lambda *_: [])
    monkeypatch.setattr("sparksplit.planning.plan.measure", lambda *_: measured(beside=[]))
    with pytest.raises(RuntimeError, match="mlp-10: no time was left"):
        program._predict(SimpleNamespace(folder=tmp_path, only=["mlp-10"], inside=tmp_path))
    assert not list(tmp_path.iterdir())


def test_nodes_of_an_earlier_run_do_not_count(monkeypatch):
    """Was: a node that has not ended yet counted as one of the next cell."""

    class Node(SimpleNamespace):
        __hash__ = object.__hash__

    earlier, own = Node(pid=os.getpid()), Node(pid=os.getpid())
    looked, nodes = threading.Semaphore(0), {earlier}
    monkeypatch.setattr(program, "_nodes", lambda: looked.release() or nodes)
    with program._peaks() as peaks:
        nodes = {earlier, own}
        assert all(looked.acquire(timeout=10) for _ in range(3))  # the third look begins after the second one
    assert len(peaks) == 1 and peaks[0] > 1 << 20


def test_the_commit_is_sealed():
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", commit() or "0" * 40)


@pytest.mark.parametrize(("measured", "named"), [(1.0, 1), (1.05, 1), (1.06, 0)])
def test_the_fastest_may_be_missed_by_a_twentieth(measured, named):
    rows = [cell("mlp", "batch", 0.5, measured), cell("mlp", "local", 0.6, 1.0)]
    found = figures(rows)
    assert (found["fastest_named"], found["pairs"]) == (named, 1)
