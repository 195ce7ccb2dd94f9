"""Runs on real nodes that stop early: all at the same update, with the best weights, resumed to the same end."""

from __future__ import annotations

import hashlib
import json
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.errors import UsageError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training import checkpoints
from tests.training.runs import MODELS, run, without_end

ROWS = 1280


def splits():
    """Rows that are easily learnt, and validation rows of which each third has a wrong label: once a model is sure of
    what it has learnt, their loss rises."""
    generator = np.random.default_rng(7)
    label = generator.integers(0, 4, ROWS + 80)
    x = (generator.integers(0, 9, (ROWS + 80, 4, 4)) + 12 * np.eye(4, 16)[label].reshape(-1, 4, 4)).astype("u1")
    train, held, test = slice(ROWS), slice(ROWS, ROWS + 40), slice(ROWS + 40, None)
    wrong = np.where(np.arange(40) % 3, label[held], (label[held] + 1) % 4)
    return {"train": (x[train], label[train]), "validation": (x[held], wrong), "test": (x[test], label[test])}


@pytest.fixture(scope="module")
def misleading(tmp_path_factory):
    folder = tmp_path_factory.mktemp("misleading") / "data"
    from_arrays(str(folder), splits(), scaling="unit", classes=4, lanes=7)
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


def model_of(output):
    return keras.saving.load_model(output / "model.keras", compile=False)


def trained(model):
    """The weights without the random state of Dropout."""
    return [np.asarray(weight) for weight in model.get_weights() if weight.dtype != np.uint32]


def assert_ends_with(output, result, checkpoint):
    """The exported models, the test metrics and the digest are those of the weights at `checkpoint`."""
    state, model = checkpoints.read(str(checkpoint), 0).state, model_of(output)
    for place, weight in enumerate(trained(model)):
        np.testing.assert_array_equal(weight, state[f"v{place:04d}"])
    digest = hashlib.sha256()
    for variable in model.trainable_variables:
        digest.update(variable.numpy().tobytes())
    assert result["weights"] == digest.hexdigest()[:16]
    x, label = splits()["test"]
    served = tf.saved_model.load(str(output / "saved_model" / "1")).signatures["serving_default"]
    outputs = served(x=tf.constant(x))["outputs"].numpy()
    loss, accuracy = -np.log(outputs[np.arange(len(x)), label]).mean(), (outputs.argmax(1) == label).mean()
    assert result["metrics"]["test"] == pytest.approx({"loss": loss, "accuracy": accuracy}, rel=1e-4)


def assert_stops(output, result):
    """The run in `output` has stopped two rounds after the best, whose index this returns."""
    losses = result["metrics"]["validation"]["loss"]
    best = losses.index(min(losses))
    assert 0 < best == len(losses) - 3
    rounds = told(output)
    last, at_best = rounds[-1], rounds[best]
    assert result["stopped_early"] == {
        "epoch": last["epoch"], "update": last["updates"], "metric": "loss", "best": losses[best],
    }  # fmt: skip
    assert result["best"] == {
        "metric": "loss", "value": losses[best], "epoch": at_best["epoch"], "update": at_best["updates"], "kept": True,
    }  # fmt: skip
    assert (result["updates"], result["passes"]) == (last["updates"], last["epoch"])
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": ROWS * last["epoch"]}
    return best


def assert_is_resumed(misleading, straight, output, result, keep, settings):
    """From checkpoint number `keep` of the run in `straight`, the run comes to the same end."""
    without_end(straight, output, keep=keep)
    # Of the last round it is written before the checkpoint.
    shutil.copy(straight / "metrics.jsonl", output)
    resumed = run(misleading, output, Options(resume=True), **settings)
    same = ("weights", "metrics", "ledger", "passes", "updates", "steps", "syncs", "sync", "stopped_early", "best")
    assert {key: resumed[key] for key in same} == {key: result[key] for key in same}
    assert told(output) == told(straight)
    for one, other in zip(trained(model_of(output)), trained(model_of(straight)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "after"),
    [
        ({"strategy": "epoch"}, 3),
        ({"strategy": "epoch-delayed"}, 2),
        (LOCAL, 2),
        ({**LOCAL, "nodes": {"virtual": 3}}, 2),
    ],
    ids=["epoch", "epoch-delayed", "local", "virtual"],
)
def test_a_run_stops_with_the_best_weights_and_is_resumed_to_the_same_end(forked, misleading, tmp_path, keys, after):
    """From after the best validation; once from the checkpoint that the run was to end with."""
    settings = {**SETTINGS, **keys}
    straight = tmp_path / "straight"
    result = run(misleading, straight, **settings)
    best = assert_stops(straight, result)
    assert_ends_with(straight, result, sorted((straight / "checkpoints").iterdir())[best])
    assert_is_resumed(misleading, straight, tmp_path / "resumed", result, best + after, settings)


@pytest.mark.slow
def test_the_best_weights_are_kept_or_the_last_ones_and_a_run_that_has_stopped_is_complete(
    forked, misleading, tmp_path
):
    """A checkpoint at the half and at the end of each epoch."""
    settings = {**SETTINGS, "strategy": "batch", "checkpoint": {"every": 20, "keep": 99}}
    straight = tmp_path / "straight"
    result = run(misleading, straight, **settings)
    best = assert_stops(straight, result)
    assert_ends_with(straight, result, sorted((straight / "checkpoints").iterdir())[2 * best + 1])

    # More epochs would change nothing about it, and are another configuration, as they are of any run.
    before = {path: path.stat().st_mtime_ns for path in straight.rglob("*")}
    assert run(misleading, straight, Options(resume=True), **settings) == result
    with pytest.raises(UsageError, match=r"exists, made with another configuration \(epochs was \d+, is 24\)"):
        run(misleading, straight, Options(resume=True), **{**settings, "epochs": 24})
    assert {path: path.stat().st_mtime_ns for path in straight.rglob("*")} == before

    # From before the best validation, and from within an epoch after it: such checkpoints hold the best weights, too.
    for keep in (2 * best, 2 * best + 3):
        assert_is_resumed(misleading, straight, tmp_path / f"resumed-{keep}", result, keep, settings)

    # A run without the best weights ends with the last ones.
    last = run(misleading, tmp_path / "last", **{**settings, "keep_best": False})
    assert last["best"] == {**result["best"], "kept": False} and last["stopped_early"] == result["stopped_early"]
    assert_ends_with(tmp_path / "last", last, sorted((straight / "checkpoints").iterdir())[-1])

    # A run that does not stop early ends with the best ones, too.
    whole = {**settings, "early_stop": None, "epochs": result["passes"], "keep_best": True}
    kept = run(misleading, tmp_path / "kept", **whole)
    assert "stopped_early" not in kept and kept["passes"] == result["passes"]
    same = ("best", "weights", "metrics")
    assert {key: kept[key] for key in same} == {key: result[key] for key in same}


def test_validation_sees_the_averaged_weights_that_are_exported(forked, misleading, tmp_path):
    averaged = {**SETTINGS["optimizer"], "use_ema": True, "ema_momentum": 0.99}
    settings = {**SETTINGS, "nodes": 1, "epochs": 3, "optimizer": averaged, "early_stop": None, "keep_best": True}
    result = run(misleading, tmp_path / "run", **settings)
    x, label = splits()["validation"]
    served = tf.saved_model.load(str(tmp_path / "run" / "saved_model" / "1")).signatures["serving_default"]
    outputs = served(x=tf.constant(x))["outputs"].numpy()
    assert result["best"]["value"] == pytest.approx(-np.log(outputs[np.arange(len(x)), label]).mean(), rel=1e-4)
    assert result["best"]["value"] == min(result["metrics"]["validation"]["loss"])


def test_without_validation_rows_it_is_refused(misleading, tmp_path):
    data = tmp_path / "data"
    x = np.zeros((9, 2), "f4")
    from_arrays(str(data), {"train": (x, np.arange(9) % 2)}, classes=2)
    with pytest.raises(UsageError, match=re.escape("early_stop: needs validation rows, and")):
        run(data, tmp_path / "run", early_stop={})
    assert not (tmp_path / "run").exists()
