"""Runs on real nodes with callbacks: what node 0 calls, and changes that all nodes make at the same update."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import keras
import numpy as np
import pytest

import sparksplit
from sparksplit.base.config import nested, parse
from sparksplit.base.errors import RunError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training import checkpoints
from sparksplit.training.callbacks.given import Given
from sparksplit.training.progress_record import read_history
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig
from tests.training.runs import MODELS, without_end

ROWS, BATCH = 320, 32
UPDATES = ROWS // BATCH
"""Updates of an epoch in which the nodes share mini-batches."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("callbacks") / "data"
    generator = np.random.default_rng(7)
    label = generator.integers(0, 4, ROWS + 40)
    x = (generator.integers(0, 9, (ROWS + 40, 4, 4)) + 12 * np.eye(4, 16)[label].reshape(-1, 4, 4)).astype("u1")
    splits = {"train": (x[:ROWS], label[:ROWS]), "validation": (x[ROWS:], label[ROWS:])}
    from_arrays(str(folder), splits, scaling="unit", classes=4, lanes=7)
    return folder


class Steering(keras.callbacks.Callback):
    """Halves the learning rate after every second call, and ends the run after `calls` calls."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def on_train_begin(self, logs=None):
        self.count = 0

    def on_epoch_end(self, epoch, logs=None):
        self.count += 1
        if self.count % 2 == 0:
            self.model.optimizer.learning_rate = float(self.model.optimizer.learning_rate) * 0.5
        if self.count == self.calls:
            self.model.stop_training = True

    def get_state(self):
        return {"count": self.count}

    def set_state(self, state):
        self.count = state["count"]


class Noting(keras.callbacks.Callback):
    """Writes down every call, and ends its process with SIGKILL once, at the end of epoch `kills`."""

    def __init__(self, file, kills=None):
        super().__init__()
        self.file, self.kills = Path(file), kills

    def _note(self, *values):
        with self.file.open("a") as file:
            file.write(json.dumps([*values, float(self.model.optimizer.learning_rate)]) + "\n")

    def on_train_begin(self, logs=None):
        self._note("train begins", self.params["epochs"])

    def on_epoch_begin(self, epoch, logs=None):
        self._note("begins", epoch)

    def on_epoch_end(self, epoch, logs=None):
        self._note("ends", epoch, logs)
        mark = self.file.with_suffix(".killed")
        if epoch == self.kills and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_end(self, logs=None):
        self._note("train ends", len(self.model.layers))

    @property
    def notes(self):
        return [json.loads(line) for line in self.file.read_text().splitlines()]


def run(data, output, callbacks, options=Options(), **keys):  # noqa: B008
    """The content of run.json."""
    strategy = "single" if keys.get("nodes", 1) == 1 else "batch"
    values = {**SETTINGS, "strategy": strategy, **keys, "data": str(data), "output": str(output)}
    given, mapped = Given.of(callbacks, nested(values), str(output))
    record = train(parse(TrainConfig, {**values, **mapped}), options, callbacks=given)
    given.fill(read_history(str(output)))
    return record.to_json()


SETTINGS = {
    "epochs": 8, "batch_size": BATCH, "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    "model": {"build": f"{MODELS}:with_state"}, "checkpoint": {"every": "epoch", "keep": 99}, "max_restarts": 1,
}  # fmt: skip
LOCAL = {"nodes": 2, "strategy": "local", "sync": {"every": 4, "outer": "momentum"}}
SAME = ("weights", "metrics", "ledger", "passes", "updates", "steps", "syncs", "stopped_early", "config_hash")


def assert_same(one, other):
    assert {key: one.get(key) for key in SAME} == {key: other.get(key) for key in SAME}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "each", "goes_on"),
    [
        ({"nodes": 2}, 1, True),
        ({"nodes": 2, "strategy": "epoch", "epochs": 12}, 2, False),
        ({"nodes": 2, "strategy": "epoch-delayed", "epochs": 12}, 2, False),
        (LOCAL, 1, False),
        ({**LOCAL, "nodes": {"virtual": 3}}, 1, True),
    ],
    ids=["batch", "epoch", "epoch-delayed", "local", "virtual"],
)
def test_a_node_that_is_killed_between_two_changes_changes_nothing(forked, data, tmp_path, keys, each, goes_on):
    """each: epochs of a round. goes_on: whether the run is killed, and ended, too: with nodes that share mini-batches,
    and with nodes that have weights of their own. Callbacks know no more of strategies."""
    straight = run(data, tmp_path / "straight", [Steering(5), noting := Noting(tmp_path / "straight.txt")], **keys)
    ended = 5 * each
    assert straight["stopped_early"] == {
        "epoch": ended, "update": straight["updates"], "metric": None, "best": None,
        "callback": "callbacks[0] (Steering)",
    }  # fmt: skip
    assert straight["passes"] == ended < straight["epochs"] and straight["ledger"]["exact"]
    # Once a round, by the passes that all nodes have completed, with Keras's names.
    ends = [note for note in noting.notes if note[0] == "ends"]
    assert [note[1] for note in ends] == list(range(each - 1, ended, each))
    assert [note[1] for note in noting.notes if note[0] == "begins"] == list(range(0, ended, each))
    rounds = read_history(str(tmp_path / "straight"))
    for note, record in zip(ends, rounds, strict=True):
        assert note[2] == {**record.train, **{f"val_{name}": value for name, value in record.validation.items()}}
    assert [note[-1] for note in ends] == pytest.approx([0.05, 0.025, 0.025, 0.0125, 0.0125])
    assert noting.notes[-1][0] == "train ends"
    if not goes_on:
        return

    killed = run(data, tmp_path / "killed", [Steering(5), Noting(tmp_path / "killed.txt", 3 * each - 1)], **keys)
    assert killed["restarts"] == 1 and (tmp_path / "killed.killed").exists()
    assert_same(killed, straight)
    one, other = (checkpoints.read(checkpoints.latest(str(tmp_path / name)), 1) for name in ("straight", "killed"))
    for name in one.state:
        np.testing.assert_array_equal(one.state[name], other.state[name])

    # A run that was killed after a callback had ended it, before it could say so.
    without_end(tmp_path / "straight", tmp_path / "ended", keep=99)
    again = run(data, tmp_path / "ended", [Steering(5)], **keys)
    assert_same(again, straight)


def falling(epoch, rate):
    return 0.05 if epoch < 2 else 0.005


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys", [{}, {"nodes": 2}, {"nodes": 2, "strategy": "epoch"}], ids=["single", "batch", "epoch"]
)
def test_a_scheduler_has_the_bits_of_a_schedule_with_the_same_learning_rates(forked, data, tmp_path, keys):
    keys = {**keys, "epochs": 4}
    scheduled = run(data, tmp_path / "scheduled", [keras.callbacks.LearningRateScheduler(falling)], **keys)
    rounds = read_history(str(tmp_path / "scheduled"))
    before = [each.updates for each in rounds if each.epoch == 2]
    schedule = {"name": "PiecewiseConstantDecay", "boundaries": [before[0] - 1], "values": [0.05, 0.005]}
    optimizer = {**SETTINGS["optimizer"], "learning_rate": schedule}
    planned = run(data, tmp_path / "planned", [], **{**keys, "optimizer": optimizer})
    assert (scheduled["weights"], scheduled["metrics"]) == (planned["weights"], planned["metrics"])
    assert scheduled["config_hash"] != planned["config_hash"]


@pytest.mark.slow
def test_a_plateau_lowers_the_learning_rate_as_in_keras(forked, data, tmp_path):
    """Keras's own callback, fed the same values, sets the same learning rates."""

    def plateau():
        return keras.callbacks.ReduceLROnPlateau(monitor="val_accuracy", factor=0.3, patience=2, cooldown=1, mode="max")

    noting, history = Noting(tmp_path / "notes.txt"), keras.callbacks.History()
    callbacks = [plateau(), noting, history]
    optimizer = {**SETTINGS["optimizer"], "learning_rate": 0.2}
    straight = run(data, tmp_path / "run", callbacks, nodes=2, optimizer=optimizer)
    logs = [note[2] for note in noting.notes if note[0] == "ends"]
    assert history.epoch == list(range(8))
    assert history.history["val_accuracy"] == [each["val_accuracy"] for each in logs]

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.2))
    reference, rates = plateau(), []
    reference.set_model(model)
    reference.on_train_begin()
    for epoch, each in enumerate(logs):
        reference.on_epoch_end(epoch, dict(each))
        rates.append(float(model.optimizer.learning_rate))
    assert [note[-1] for note in noting.notes if note[0] == "ends"] == rates
    assert len(set(rates)) > 1

    # The callback goes on with its state, whatever checkpoint the run goes on from.
    without_end(tmp_path / "run", tmp_path / "resumed", keep=5)
    resumed = run(data, tmp_path / "resumed", [plateau()], nodes=2, optimizer=optimizer)
    assert_same(resumed, straight)


class Failing(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.optimizer.learning_rate = {}["rate"]


class Lowering(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.optimizer.learning_rate.assign(0.001)


class Ending(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = True


class Shaking(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.trainable_variables[0].assign_add(self.model.trainable_variables[0])


class Unreachable(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        raise ConnectionRefusedError("no server")


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (Failing, r"\(Failing\): on_epoch_end failed \(.*test_runs.py:\d+\): KeyError: 'rate'"),
        (Lowering, r"\(Lowering\): on_epoch_end changes the learning rate, but it has no get_state\(\) and set_state"),
        (Ending, r"\(Ending\): on_epoch_end changes model.stop_training, but it has no get_state\(\) and set_state"),
        (Shaking, r"\(Shaking\): on_epoch_begin changes weights or the optimizer's state; only updates may"),
        (Unreachable, r"\(Unreachable\): on_train_begin failed .*: ConnectionRefusedError: no server"),
    ],
)
def test_a_callback_that_fails_or_changes_what_it_may_not_ends_the_run(
    forked, data, tmp_path, capsys, callback, message
):
    with pytest.raises(RunError, match=r"^node 0 on .*: callbacks\[1\] " + message) as caught:
        run(data, tmp_path / "run", [keras.callbacks.History(), callback()], nodes=2, epochs=2)
    assert not caught.value.may_pass
    # The driver shows the traceback in the user's function, and nothing of its own.
    assert capsys.readouterr().err.count("File ") == (1 if " failed " in message else 0)


@pytest.mark.slow
def test_callbacks_that_only_observe_are_no_part_of_the_configuration(forked, data, tmp_path):
    first = run(data, tmp_path / "run", [Noting(tmp_path / "notes.txt")], epochs=2)
    before = re.sub(r"\s", "", (tmp_path / "notes.txt").read_text())
    assert run(data, tmp_path / "run", [Noting(tmp_path / "others.txt")], epochs=2) == first
    assert before and not (tmp_path / "others.txt").exists()
    assert run(data, tmp_path / "plain", [], epochs=2)["weights"] == first["weights"]


@pytest.mark.slow
def test_the_function_maps_keras_callbacks_also_where_spark_feeds_the_rows(fed, data, tmp_path):
    """EarlyStopping is the key `early_stop`: the run is up to date for a call with the key."""
    keys = {**SETTINGS, "nodes": 2, "strategy": "batch", "input_mode": "spark", "epochs": 4}
    stopping = keras.callbacks.EarlyStopping("val_accuracy", patience=2, restore_best_weights=True)
    best = keras.callbacks.ModelCheckpoint(f"{tmp_path}/run/model.keras", "val_accuracy", save_best_only=True)
    noting = Noting(tmp_path / "notes.txt")
    found = sparksplit.train(
        str(data), f"{tmp_path}/run", callbacks=[best, stopping, noting, keras.callbacks.TerminateOnNaN()], **keys
    )
    assert found.record.best.metric == "accuracy" and found.record.best.kept
    assert [note[1] for note in noting.notes if note[0] == "ends"] == [each - 1 for each in found.history.index]
    assert found.record.callbacks == ["callbacks[2] (Noting)"]
    before = noting.file.read_text()
    early_stop = {"metric": "accuracy", "patience": 2}
    again = sparksplit.train(str(data), f"{tmp_path}/run", early_stop=early_stop, keep_best=True, **keys)
    assert again.record == found.record and noting.file.read_text() == before
