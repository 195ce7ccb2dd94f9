"""`fit` against Keras's own `fit`: the same weights and the same History, on one node and on two."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import sparksplit
from sparksplit import ConfigError, InputError, RunError, UsageError
from sparksplit.api import fit as fitting
from sparksplit.training.checkpoints import FOLDER

ROOT = Path(__file__).parent.parent.parent
ROWS, CLASSES = 203, 3
RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(ROWS, 6)).astype(np.float32)
Y = np.argmax(X @ RANDOM.normal(size=(6, CLASSES)), axis=1)
WEIGHT = RANDOM.random(ROWS)
VALIDATION = X[:50] + 0.5, Y[:50], WEIGHT[:50]


def adam() -> Any:
    return keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.02, 4, 0.9), clipnorm=0.5)


def momentum() -> Any:
    return keras.optimizers.SGD(0.1, momentum=0.9)


def classifier(
    optimizer: Any, loss: Any = "sparse_categorical_crossentropy", last: str = "softmax", **compiled: Any
) -> Any:
    keras.utils.set_random_seed(3)
    layers = keras.layers
    hidden = layers.Dense(16, "relu", kernel_regularizer=keras.regularizers.L2(0.01), name="hidden")
    outputs = layers.Dense(CLASSES, last, name="last")
    model = keras.Sequential([layers.Input((6,), name="in"), hidden, outputs], name="classifier")
    model.compile(optimizer, loss, **{"metrics": ["accuracy"], **compiled})
    return model


class Own(keras.layers.Dense):
    """A layer that only this file has."""


def slower(epoch: int) -> float:
    return 0.1 / (epoch + 1)


def regression(optimizer: Any) -> Any:
    keras.utils.set_random_seed(4)
    left, right = keras.layers.Input((6,), name="left"), keras.layers.Input((1,), name="right")
    both = Own(8, "tanh")(keras.layers.Concatenate()([left, right]))
    model = keras.Model([left, right], keras.layers.Dense(1)(both))
    model.compile(optimizer, keras.losses.Huber(delta=0.5), metrics=["mse", keras.metrics.MeanSquaredError("mean")])
    return model


SMOOTHED = keras.losses.CategoricalCrossentropy(label_smoothing=0.1)
CASES = {
    "momentum, sample_weight": (2, lambda: classifier(momentum()), X, Y, {"sample_weight": WEIGHT}),
    "momentum, weighted metrics": (
        *(1, lambda: classifier(momentum(), metrics=None, weighted_metrics=["accuracy"])),
        *(X, Y, {"sample_weight": WEIGHT}),
    ),
    "adam, class_weight": (2, lambda: classifier(adam()), X, Y, {"class_weight": {0: 3.0, 1: 0.5}}),
    "adam, validation_data": (1, lambda: classifier(adam()), X, Y, {"validation_data": VALIDATION}),
    "adam, one-hot": (
        2,
        lambda: classifier(adam(), keras.losses.CategoricalCrossentropy(from_logits=True), "linear", metrics=["acc"]),
        *(X, np.eye(CLASSES)[Y], {}),
    ),
    "adam, smoothed": (
        *(1, lambda: classifier(adam(), SMOOTHED, metrics=["accuracy", keras.metrics.AUC(name="area")])),
        *(X, np.eye(CLASSES)[Y], {}),
    ),
    "momentum, two inputs, a callback": (
        *(2, lambda: regression(momentum()), {"left": X, "right": WEIGHT.reshape(-1, 1)}, X[:, :1] * 2),
        {"callbacks": [keras.callbacks.LearningRateScheduler(slower)]},
    ),
}
"""Nodes, model, rows, and further arguments of `fit`."""


@pytest.fixture
def nodes(forked: None) -> Iterator[None]:
    """Nodes without Spark."""
    yield


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rows_in_their_order_give_the_weights_of_keras(nodes: None, case: str) -> None:
    count, made, x, y, more = CASES[case]
    more = {"epochs": 2, "validation_split": 0.0 if "validation_data" in more else 0.2, **more}
    theirs, ours = made(), made()
    expected = theirs.fit(x, y, batch_size=20, shuffle=False, verbose=0, **more)
    found = sparksplit.fit(ours, x, y, batch_size=20, shuffle=False, nodes=count, **more)
    for weights, wanted in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(weights, wanted, rtol=1e-4, atol=2e-6)
    expected.history.pop("learning_rate", None)  # as a callback has set it
    assert found.history.keys() == expected.history.keys()
    for name, values in expected.history.items():
        if name != "val_loss" or ours.losses == []:  # Keras adds the regularisation to val_loss
            np.testing.assert_allclose(found.history[name], values, rtol=1e-4, err_msg=name)
    assert (found.epoch, found.params["epochs"], found.params["steps"]) == (
        *(expected.epoch, 2, expected.params["steps"]),
    )
    assert isinstance(found, keras.callbacks.History) and ours.history is found and found.model is ours


@pytest.mark.slow
def test_rows_that_spark_hands_over_keep_their_order(fed: None) -> None:
    theirs, ours = classifier(momentum()), classifier(momentum())
    theirs.fit(X, Y, batch_size=20, shuffle=False, verbose=0)
    sparksplit.fit(ours, X, Y, batch_size=20, shuffle=False, nodes=2, input_mode="spark")
    for weights, wanted in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(weights, wanted, rtol=1e-4, atol=2e-6)


@pytest.mark.slow
def test_the_same_call_returns_the_finished_run(nodes: None, tmp_path: Path) -> None:
    output = f"{tmp_path}/run"
    models = [classifier(momentum(), metrics=None) for _ in range(2)]
    histories = [sparksplit.fit(model, X, Y, output=output) for model in models]
    assert histories[0].history == histories[1].history and list(histories[0].history) == ["loss"]
    assert all(np.array_equal(*pair) for pair in zip(*(model.get_weights() for model in models), strict=True))
    assert {path.name for path in tmp_path.iterdir()} == {"run", "run-data"}
    run = sparksplit.TrainedRun.open(output)
    assert run.record.ledger.exact and run.record.epochs == 1
    assert sparksplit.PreparedDataSet.open(f"{output}-data").manifest.order == "hash"
    with pytest.raises(InputError, match="run-data: holds the rows of another call"):
        sparksplit.fit(classifier(momentum(), metrics=None), X + 1, Y, output=output)
    with pytest.raises(UsageError, match="run: exists, made with another configuration"):
        sparksplit.fit(classifier(momentum()), X + 1, Y, output=output)
    sparksplit.fit(classifier(momentum()), X + 1, Y, output=output, overwrite=True)
    assert sparksplit.TrainedRun.open(output).record.run_id != run.record.run_id


@pytest.mark.slow
def test_without_an_output_nothing_stays(nodes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "temporary_folder", lambda: tmp_path)
    sparksplit.fit(classifier(momentum()), X, Y)
    assert list(tmp_path.iterdir()) == []


def scripts() -> list[str]:
    """The page's script before and after."""
    return re.findall(r"```python\n(import keras\n.*?)```", (ROOT / "docs" / "from-keras.md").read_text(), re.DOTALL)


def test_the_pages_script_changes_in_two_lines() -> None:
    before, after = (script.splitlines() for script in scripts())
    added = [line for line in difflib.ndiff(before, after) if line.startswith("+ ")]
    assert [line.split("(")[0] for line in added] == ["+ import sparksplit", "+ history = sparksplit.fit"]


@pytest.mark.slow
def test_the_pages_scripts_end_with_the_same_weights(nodes: None) -> None:
    weights = []
    for script in scripts():
        names: dict[str, Any] = {}
        exec(compile(script, "from-keras.md", "exec"), names)
        weights.append(names["model"].get_weights())
    for found, wanted in zip(*weights, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=5e-6)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_run_that_fails_after_a_checkpoint_stays_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], checkpoint: bool
) -> None:
    def fails(_data: object, folder: str, **__: object) -> None:
        if checkpoint:
            (Path(folder) / FOLDER / "update-000000001").mkdir(parents=True)
        raise RunError("a node is gone")

    monkeypatch.setattr(fitting, "temporary_folder", lambda: tmp_path)
    monkeypatch.setattr(fitting, "train", fails)
    with pytest.raises(RunError, match="a node is gone"):
        sparksplit.fit(classifier(momentum()), X, Y, shuffle=False)
    if not checkpoint:
        assert list(tmp_path.iterdir()) == [] and "is kept" not in capsys.readouterr().err
        return
    (folder,) = tmp_path.iterdir()
    assert f"the same call with output='{folder}/run' goes on from there" in capsys.readouterr().err
    data = sparksplit.PreparedDataSet.open(f"{folder}/run-data")
    assert data.manifest.order == "given" and data.manifest.splits["train"].rows == ROWS


def uncompiled() -> Any:
    return keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(3)])


def summed() -> Any:
    return classifier("adam", keras.losses.SparseCategoricalCrossentropy(reduction="sum"))


def both() -> Any:
    return classifier("adam", weighted_metrics=["accuracy"])


@pytest.mark.parametrize(
    ("model", "more", "problem"),
    [
        (uncompiled, {}, "model: is not compiled"),
        (lambda: "mlp", {}, r"model: must be a keras.Model \(is str\)"),
        (summed, {}, "model: SparseCategoricalCrossentropy with reduction 'sum' is not supported"),
        (both, {}, "the model has metrics and weighted_metrics"),
        (lambda: classifier("adam"), {"steps_per_epoch": 3}, "steps_per_epoch: is not an argument of sparksplit.fit"),
        (lambda: classifier("adam"), {"epoch": 3}, "epoch: unknown key; did you mean 'epochs'"),
        (
            lambda: classifier("adam"),
            {"callbacks": keras.callbacks.CSVLogger("log.csv")},
            r"callbacks\[0\] \(CSVLogger\): remove it; the History that fit returns",
        ),
        (
            lambda: classifier("adam"),
            {"callbacks": keras.callbacks.ModelCheckpoint("m.keras")},
            r"\(ModelCheckpoint\): remove it; after the call, the model has the last weights",
        ),
        (
            lambda: classifier("adam"),
            {"callbacks": keras.callbacks.EarlyStopping()},
            r"\(EarlyStopping\): watches val_loss, so give validation_split or validation_data$",
        ),
        (lambda: classifier("adam"), {"keep_best": True}, "keep_best: needs validation rows, so give validation_split"),
        (lambda: classifier("adam"), {"sample_weight": -WEIGHT}, "x, y: train: tensor weight: row 0"),
    ],
)
def test_what_is_refused(
    model: Any, more: dict[str, Any], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "temporary_folder", lambda: tmp_path)
    with pytest.raises(ConfigError, match=problem):
        sparksplit.fit(model(), X, Y, **more)
    assert list(tmp_path.iterdir()) == []


def test_rows_without_labels_are_refused_by_a_line() -> None:
    with pytest.raises(ConfigError, match=r"^y: is missing; give the labels"):
        sparksplit.fit(classifier("adam"), X)


def test_a_cluster_needs_a_folder_that_all_machines_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparksplit.spark.session.known_settings", lambda: {"spark.master": "yarn"})
    with pytest.raises(ConfigError, match=r"output: give a folder that all machines can reach.*spark.master is yarn"):
        sparksplit.fit(classifier("adam"), X, Y)
