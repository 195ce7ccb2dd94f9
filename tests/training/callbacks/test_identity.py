"""The identity of callbacks that change training: the same in another process, another for another behaviour."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import keras
import numpy as np
import pytest

from sparksplit.training.callbacks.identity import NotHashed, identity, is_installed

TEMPLATE = """
import math
import keras
import numpy as np
FACTOR = {factor}
best = object()

def scaled(value, by={default}):
    return value * FACTOR * by

class Base(keras.callbacks.Callback):
    floor = {floor}
    def lower(self, rate):
        return max(self.floor, [scaled(each) for each in (rate,)][0])

class Mine(Base):
    def __init__(self, every):
        super().__init__()
        self.every, self.table, self.best = every, np.arange({table}), None
    def on_epoch_end(self, epoch, logs=None):
        {line}
        self.best = math.floor(epoch)
    def get_state(self):
        return {{}}
    def set_state(self, state):
        pass
"""
VALUES = {"factor": 0.5, "default": 1, "floor": 0.0, "table": 3, "line": "pass", "every": 2}


def identity_of(tmp_path, **values):
    """The identity in a process of its own."""
    file = tmp_path / "mine.py"
    wanted = {**VALUES, **values}
    file.write_text(textwrap.dedent(TEMPLATE).format(**wanted))
    code = (
        "import json, mine; from sparksplit.training.callbacks.identity import identity; "
        f"print(json.dumps(identity(mine.Mine({wanted['every']})), sort_keys=True))"
    )
    path = f"{tmp_path}:{Path(__file__).parents[3]}"
    return subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    ).stdout.splitlines()[-1]


@pytest.mark.slow
def test_it_is_the_same_in_each_process_and_changes_with_whatever_the_callback_does(tmp_path):
    first = identity_of(tmp_path)
    assert identity_of(tmp_path) == first
    others = {"factor": 0.25, "default": 2, "floor": 0.1, "table": 4, "line": "epoch + 1", "every": 3}
    found = [identity_of(tmp_path, **{name: value}) for name, value in others.items()]
    assert len({first, *found}) == 1 + len(found)


def rate_after(start, function=None):
    def schedule(epoch, rate):
        return function(start) if function else start

    return keras.callbacks.LearningRateScheduler(schedule)


def half(value):
    return value / 2


def test_a_schedule_has_the_values_that_it_closes_over():
    same, other = identity(rate_after(0.1)), identity(rate_after(0.2))
    assert same == identity(rate_after(0.1)) != other
    assert identity(rate_after(0.1, half)) not in (same, other)
    json.dumps(same)


def test_keras_own_are_known_by_their_parameters_and_not_by_what_they_print():
    plateau = keras.callbacks.ReduceLROnPlateau
    assert identity(plateau(patience=3)) == identity(plateau(patience=3, verbose=1))
    assert identity(plateau(patience=3)) != identity(plateau(patience=4))


class Holding(keras.callbacks.Callback):
    def __init__(self, held):
        super().__init__()
        self.held = held


@pytest.mark.parametrize("held", [1, 0.5, True, None, "x", b"x", Path("x"), [1, (2,)], {1: {"a"}}, np.arange(2), np])
def test_plain_values_are_taken(held):
    assert identity(Holding(held)) == identity(Holding(held))
    assert identity(Holding(held)) != identity(Holding("other"))
    json.dumps(identity(Holding(held)))


def test_values_of_different_types_differ():
    values = [1, 1.0, True, "1", np.float32(1), np.int64(1), [1], {1}]
    found = [json.dumps(identity(Holding(each))) for each in values]
    assert len(set(found)) == len(values)
    assert identity(Holding({"a": 1, "b": 2})) == identity(Holding({"b": 2, "a": 1}))


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (threading.Lock(), "its held is a lock"),
        ({"by": [object()]}, "its held['by'] is a object"),
        (np.array([object()]), "its held is a ndarray"),
        (rate_after(threading.Lock()).schedule, "start in rate_after.<locals>.schedule is a lock"),
        (eval("lambda epoch: 0.1"), "the source of <lambda> is not known; define it in a file or a notebook cell"),
    ],
)
def test_what_cannot_be_part_of_it_is_named(held, message):
    with pytest.raises(NotHashed, match=f"^{re.escape(message)}$"):
        identity(Holding(held))


def test_functions_that_call_each_other_have_an_end():
    def even(number):
        return number == 0 or odd(number - 1)

    def odd(number):
        return number != 0 and even(number - 1)

    assert identity(Holding(even)) == identity(Holding(even)) != identity(Holding(odd))


def test_modules_that_other_processes_can_import_are_known_by_their_names():
    assert all(map(is_installed, ("json", "keras.src.callbacks", "numpy", "sparksplit.training", "builtins")))
    assert not any(map(is_installed, ("__main__", __name__)))
