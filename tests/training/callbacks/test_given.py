"""Callbacks that fit their run, or say why not, before anything starts."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.training.callbacks.given import Given, logs_of
from sparksplit.training.train_config import TrainConfig

ROOT = Path(__file__).parents[3]


def manifest(rows=10, classes=3):
    label = SimpleNamespace(classes=[str(each) for each in range(classes)])
    return SimpleNamespace(label=label, splits={"validation": SimpleNamespace(rows=rows)})


def ready(callback, rows=10, **keys):
    config = parse(TrainConfig, {"data": "data", "output": "out", **keys})
    given, _ = Given.of([callback], keys, "out")
    return given.ready(config, manifest(rows))


class Observing(keras.callbacks.Callback):
    def __init__(self, held=None):
        super().__init__()
        self.held = held


class Steering(Observing):
    def get_state(self):
        return None

    def set_state(self, state):
        """Nothing."""


def test_only_callbacks_that_may_change_training_have_an_identity():
    assert ready(Observing(threading.Event)).identity is None
    assert ready(Steering(1)).identity == ready(Steering(1)).identity != ready(Steering(2)).identity
    assert ready(Steering(1)).sent.changing == [True]
    assert Given().ready(parse(TrainConfig, {"data": "data", "output": "out"}), manifest()) is None


def test_a_plateau_gets_the_mode_of_its_metric():
    plateau = keras.callbacks.ReduceLROnPlateau("val_accuracy")
    (sent,) = ready(plateau).sent.load()
    assert (sent.mode, plateau.mode) == ("max", "auto")
    (sent,) = ready(keras.callbacks.ReduceLROnPlateau("loss")).sent.load()
    assert sent.mode == "min"


def test_a_plateau_that_keras_has_used_is_the_same_plateau():
    fresh, used = (keras.callbacks.ReduceLROnPlateau("val_loss", min_delta=0.01) for _ in range(2))
    used.mode = "min"
    used._set_monitor_op()
    used.mode = "auto"
    assert used.min_delta == -0.01, "this test needs Keras's change"
    assert ready(used).identity == ready(fresh).identity
    (sent,) = ready(used).sent.load()
    assert (sent.min_delta, sent.monitor_op, used.min_delta) == (0.01, None, -0.01)


def test_what_was_seen_in_an_earlier_fit_stays_behind():
    callback = Observing(np.arange(3))
    callback.set_model(threading.Lock())  # nothing that can be sent
    (sent,) = ready(callback).sent.load()
    assert sent.model is None and list(sent.held) == [0, 1, 2]


def test_the_code_of_the_users_own_modules_goes_along(tmp_path, monkeypatch):
    """A node cannot import the file that the callback's class is in, nor what that file imports beside it."""
    (tmp_path / "beside.py").write_text("def name():\n    return 'beside'\n")
    (tmp_path / "of_mine.py").write_text(
        "import beside\nimport keras\nfrom beside import name\n\n\n"
        "class Mine(keras.callbacks.Callback):\n"
        "    def on_epoch_end(self, epoch, logs=None):\n        return [epoch, name(), beside.name()]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    sent = ready(importlib.import_module("of_mine").Mine()).sent
    code = (
        "import json, sys; from sparksplit.training.callbacks.sent import Sent; "
        "print(json.dumps(Sent([''], [False], sys.stdin.read()).load()[0].on_epoch_end(3)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], input=sent.pickled, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert json.loads(found.stdout) == [3, "beside", "beside"]


@pytest.mark.parametrize(
    ("callback", "keys", "message"),
    [
        (
            keras.callbacks.ReduceLROnPlateau("val_auc"), {},
            "callbacks[0] (ReduceLROnPlateau): monitor must be one of loss, accuracy, val_loss, val_accuracy (is",
        ),
        (
            keras.callbacks.ReduceLROnPlateau(), {"rows": 0},
            "monitor must be one of loss, accuracy (is 'val_loss'); the data set has no validation rows",
        ),
        (keras.callbacks.ReduceLROnPlateau("val_sum"), {"metrics": ["sum"]}, "mode must be min or max: the name"),
        (
            keras.callbacks.LearningRateScheduler(lambda epoch: 0.1),
            {"optimizer": {"learning_rate": {"name": "CosineDecay"}}},
            "optimizer.learning_rate: must be a number with callbacks[0] (LearningRateScheduler)",
        ),
        (
            Steering(threading.Lock()), {},
            "callbacks[0] (Steering): changes training, so it is part of the run's identity, but held is a lock",
        ),
        (Observing(threading.Lock()), {}, "callbacks[0] (Observing): cannot be sent to a node (TypeError: cannot"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(callback, keys, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        ready(callback, **keys)


def test_other_commands_and_files_say_where_callbacks_are():
    with pytest.raises(ConfigError, match=r"^callbacks: is for Python: sparksplit\.train"):
        parse(TrainConfig, {"data": "data", "output": "out", "callbacks": []})
    with pytest.raises(ConfigError, match=r"^callbacks: is for train: runs are compared at equal passes"):
        parse(CompareConfig, {"data": "data", "output": "out", "callbacks": []})
    with pytest.raises(ConfigError, match=r"^callbacks: must be a list of callbacks \(is Observing\)$"):
        Given.of(Observing(), {}, "out")


def test_logs_have_keras_names():
    record = SimpleNamespace(train={"loss": 1.0, "auc": None}, validation={"loss": 2.0})
    logs = logs_of(record)
    assert (logs["loss"], logs["val_loss"], list(logs)) == (1.0, 2.0, ["loss", "auc", "val_loss"])
    assert np.isnan(logs["auc"])
    assert logs_of(SimpleNamespace(train={"loss": 1.0}, validation=None)) == {"loss": 1.0}
