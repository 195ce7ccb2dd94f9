"""Runs on real nodes that stop early: all at the same update, with the best weights, resumed to the same end."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

from sparksplit.base.errors import UsageError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from tests.training.runs import MODELS, run, without_end

ROWS = 1280


@pytest.fixture(scope="module")
def misleading(tmp_path_factory):
    """Rows that are easily learnt, and validation rows of which each third has a wrong label: once a model is sure of
    what it has learnt, their loss rises."""
    generator = np.random.default_rng(7)
    label = generator.integers(0, 4, ROWS + 80)
    x = (generator.integers(0, 9, (ROWS + 80, 4, 4)) + 12 * np.eye(4, 16)[label].reshape(-1, 4, 4)).astype("u1")
    train, held, test = slice(ROWS), slice(ROWS, ROWS + 40), slice(ROWS + 40, None)
    wrong = np.where(np.arange(40) % 3, label[held], (label[held] + 1) % 4)
    splits = {"train": (x[train], label[train]), "validation": (x[held], wrong), "test": (x[test], label[test])}
    folder = tmp_path_factory.mktemp("misleading") / "data"
    from_arrays(str(folder), splits, scaling="unit", classes=4, lanes=7)
    return folder


SETTINGS = {
    "nodes": 2, "epochs": 20, "batch_size": 32, "optimizer": {"name": "sgd", "learning_rate": 0.005, "momentum": 0.9},
    "model": {"build": f"{MODELS}:with_state"}, "checkpoint": {"every": "epoch", "keep": 99},
    "early_stop": {"patience": 2},
}  # fmt: skip
LOCAL = {
    "strategy": "local", "sync": {"every": 8, "outer": "momentum"},
    "optimizer": {"name": "sgd", "learning_rate": 0.001, "momentum": 0.9},
}  # fmt: skip


def told(output):
    """The rounds of metrics.jsonl, without times."""
    lines = (output / "metrics.jsonl").read_text().splitlines()
    keys = ("epoch", "updates", "steps", "train", "validation", "rows")
    return [{key: json.loads(line)[key] for key in keys} for line in lines]


def exported(output):
    """The weights of model.keras, without the random state of Dropout."""
    import keras

    model = keras.saving.load_model(output / "model.keras", compile=False)
    return [np.asarray(weight) for weight in model.get_weights() if weight.dtype != np.uint32]


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        {"strategy": "batch"},
        {"strategy": "epoch"},
        {"strategy": "epoch-delayed"},
        LOCAL,
        {**LOCAL, "nodes": {"virtual": 3}},
    ],
    ids=["batch", "epoch", "epoch-delayed", "local", "virtual"],
)
def test_a_run_stops_with_the_best_weights_and_is_resumed_to_the_same_end(forked, misleading, tmp_path, keys):
    settings = {**SETTINGS, **keys}
    straight = run(misleading, tmp_path / "straight", **settings)
    losses = straight["metrics"]["validation"]["loss"]
    best = losses.index(min(losses))
    assert 0 < best == len(losses) - 3
    rounds = told(tmp_path / "straight")
    last, at_best = rounds[-1], rounds[best]
    assert straight["stopped_early"] == {
        "epoch": last["epoch"], "update": last["updates"], "metric": "loss", "best": losses[best],
    }  # fmt: skip
    assert straight["best"] == {
        "metric": "loss", "value": losses[best], "epoch": at_best["epoch"], "update": at_best["updates"], "kept": True,
    }  # fmt: skip
    assert (straight["updates"], straight["passes"]) == (last["updates"], last["epoch"])
    assert straight["ledger"] == {**straight["ledger"], "exact": True, "rows": ROWS * last["epoch"]}

    # The weights are those of a run that ends where the best ones were.
    alone = {**settings, "early_stop": None, "epochs": at_best["epoch"]}
    ended = run(misleading, tmp_path / "ended", **alone)
    assert (ended["weights"], ended["metrics"]["test"]) == (straight["weights"], straight["metrics"]["test"])
    for one, other in zip(exported(tmp_path / "ended"), exported(tmp_path / "straight"), strict=True):
        np.testing.assert_array_equal(one, other)

    # From after the best validation; once also from before it, and from the checkpoint that it was to end with.
    for keep in (best, best + 2, best + 3) if keys["strategy"] == "batch" else (best + 2,):
        output = tmp_path / f"resumed-{keep}"
        without_end(tmp_path / "straight", output, keep=keep)
        # Of the last round it is written before the checkpoint.
        shutil.copy(tmp_path / "straight" / "metrics.jsonl", output)
        resumed = run(misleading, output, Options(resume=True), **settings)
        same = ("weights", "metrics", "ledger", "passes", "updates", "steps", "syncs", "sync", "stopped_early", "best")
        assert {key: resumed[key] for key in same} == {key: straight[key] for key in same}
        assert told(output) == rounds
        for one, other in zip(exported(output), exported(tmp_path / "straight"), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_run_that_has_stopped_is_complete(forked, misleading, tmp_path):
    """More epochs would change nothing about it, and are another configuration, as they are of any run."""
    output = tmp_path / "run"
    settings = {**SETTINGS, "strategy": "batch", "checkpoint": {"every": 15}}
    straight = run(misleading, output, **settings)
    assert straight["stopped_early"]
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*")}
    assert run(misleading, output, Options(resume=True), **settings) == straight
    with pytest.raises(UsageError, match=r"exists, made with another configuration \(epochs was \d+, is 24\)"):
        run(misleading, output, Options(resume=True), **{**settings, "epochs": 24})
    assert {path: path.stat().st_mtime_ns for path in output.rglob("*")} == before
    # The checkpoints within epochs hold the best weights, too.
    resumed = tmp_path / "resumed"
    without_end(output, resumed, keep=2)
    assert run(misleading, resumed, Options(resume=True), **settings)["weights"] == straight["weights"]


@pytest.mark.slow
def test_the_last_weights_are_kept_where_that_is_wanted(forked, misleading, tmp_path):
    settings = {**SETTINGS, "strategy": "batch"}
    stopped = run(misleading, tmp_path / "last", **{**settings, "keep_best": False})
    epochs = stopped["stopped_early"]["epoch"]
    assert stopped["best"]["kept"] is False and stopped["best"]["epoch"] < epochs
    whole = run(misleading, tmp_path / "whole", **{**settings, "early_stop": None, "epochs": epochs})
    assert (whole["weights"], "best" in whole) == (stopped["weights"], False)
    # And the best of a run that does not stop.
    best = run(misleading, tmp_path / "best", **{**settings, "early_stop": None, "epochs": epochs, "keep_best": True})
    assert "stopped_early" not in best
    assert best["best"] == {**stopped["best"], "kept": True}
    assert (best["passes"], best["weights"] != whole["weights"]) == (epochs, True)


def test_without_validation_rows_it_is_refused(misleading, tmp_path):
    data = tmp_path / "data"
    x = np.zeros((9, 2), "f4")
    from_arrays(str(data), {"train": (x, np.arange(9) % 2)}, classes=2)
    with pytest.raises(UsageError, match=re.escape("early_stop: needs validation rows, and")):
        run(data, tmp_path / "run", early_stop={})
    assert not (tmp_path / "run").exists()
