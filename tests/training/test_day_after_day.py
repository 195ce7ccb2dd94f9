"""What a scheduled pipeline does: data sets trained on as one, and runs that begin with another run's weights."""

from __future__ import annotations

import numpy as np
import pytest

from sparksplit.base.errors import UsageError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from tests.forked import nodes_of
from tests.training.runs import MODELS, MOMENTUM, largest_difference, run, weights, without_end

SETTINGS = {"batch_size": 64, "epochs": 3, "optimizer": MOMENTUM, "model": {"params": {"hidden": [16]}}}


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Two days of 700 and 430 rows in 96 lanes, few of which have a full block."""
    folder, generator = tmp_path_factory.mktemp("days"), np.random.default_rng(7)
    for name, rows in (("ds=1", 700), ("ds=2", 430)):
        label = generator.integers(0, 4, rows)
        x = (generator.random((rows, 6)) + np.eye(4, 6)[label]).astype(np.float32)
        parts = {"train": slice(rows), "validation": slice(50), "test": slice(30)}
        splits = {split: (x[part], label[part]) for split, part in parts.items()}
        from_arrays(str(folder / name), splits, classes=4, block_size=1024)
    return folder


@pytest.fixture(scope="module")
def first(zygote, days, tmp_path_factory):
    """(folder, result) of a run on the first day."""
    folder = tmp_path_factory.mktemp("first") / "run"
    with nodes_of(zygote):
        return folder, run(f"{days}/ds=1", folder, **SETTINGS)


@pytest.mark.slow
def test_two_days_are_trained_on_as_one(forked, days, tmp_path, capsys):
    one, two = (run(f"{days}/ds=*", tmp_path / f"{nodes}", nodes=nodes, **SETTINGS) for nodes in (1, 2))
    assert "data: 2 prepared data sets as one, 1,130 training rows\n" in capsys.readouterr().err
    for result in (one, two):
        assert (result["rows"], result["ledger"]["rows"], result["ledger"]["exact"]) == (1130, 3 * 1130, True)
        assert sorted(result["data"]["folders"]) == [f"{days}/ds=1", f"{days}/ds=2"]
    assert one["data"] == two["data"]
    assert largest_difference(weights(tmp_path / "1"), weights(tmp_path / "2")) < 1e-4
    np.testing.assert_allclose(one["metrics"]["validation"]["loss"], two["metrics"]["validation"]["loss"], atol=1e-4)
    capsys.readouterr()
    again = run([f"{days}/ds=2", f"{days}/ds=1"], tmp_path / "2", nodes=2, **SETTINGS)
    assert again["run_id"] == two["run_id"] and "is up to date" in capsys.readouterr().err
    with pytest.raises(UsageError, match="made with another configuration"):
        run(f"{days}/ds=2", tmp_path / "2", nodes=2, **SETTINGS)
    without_end(tmp_path / "2", tmp_path / "resumed", 1)
    resumed = run(f"{days}/ds=*", tmp_path / "resumed", Options(resume=True), nodes=2, **SETTINGS)
    assert resumed["weights"] == two["weights"] and resumed["ledger"]["exact"] is True


@pytest.mark.slow
def test_a_run_begins_with_the_weights_of_another(forked, days, first, tmp_path, capsys):
    folder, result = first
    assert "init" not in result
    capsys.readouterr()
    second = run(f"{days}/ds=2", tmp_path / "second", nodes=2, init=str(folder), **SETTINGS)
    file = f"{folder}/model.keras"
    assert second["init"]["file"] == file and second["init"]["layers"] == ["dense", "dense_1"]
    assert second["init"]["fresh"] == []
    assert f"init: begins with the weights of {file}: dense, dense_1\n" in capsys.readouterr().err
    assert second["metrics"]["train"]["loss"][0] < result["metrics"]["train"]["loss"][0] - 0.1
    with pytest.raises(UsageError, match=r"made with another configuration \(init has changed\)"):
        run(f"{days}/ds=2", tmp_path / "second", nodes=2, **SETTINGS)

    without_end(tmp_path / "second", tmp_path / "resumed", 1)
    resumed = run(f"{days}/ds=2", tmp_path / "resumed", Options(resume=True), nodes=2, init=str(folder), **SETTINGS)
    assert (resumed["weights"], resumed["init"]) == (second["weights"], second["init"])


def test_weights_that_fit_no_layer_are_the_users_mistake(forked, days, first, tmp_path):
    narrow = {**SETTINGS, "model": {"build": f"{MODELS}:with_state"}}
    with pytest.raises(UsageError, match=rf"^init: {first[0]}/model\.keras: no layer has the same name and shapes"):
        run(f"{days}/ds=1", tmp_path / "second", init=str(first[0]), **narrow)
    assert not (tmp_path / "second").exists()
