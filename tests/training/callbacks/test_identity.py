"""The identity of callbacks that change training: the same in another process, another for another behaviour."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import keras
import numpy as np
import pytest

from sparksplit.training.callbacks.own import identity

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
VALUES = {"factor": 0.5, "default": 1, "floor": 0.0, "table": 3, "line": "pass"}


PROGRAM = """
import sys
from sparksplit.training.callbacks.own import identity

folder, *names = sys.argv[1:]
for name in names:
    sys.path.insert(0, f"{folder}/{name}")
    import mine
    every = 3 if name == "every" else 2
    print(name, identity(mine.Mine(every)))
    del sys.path[0], sys.modules["mine"]
"""


def identities(folder, names):
    """The identity of each name's callback, all in a process of their own, in this order."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), *names],
        env={"PYTHONPATH": str(Path(__file__).parents[3])}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(line.split() for line in done.stdout.splitlines()[-len(names) :])


@pytest.mark.slow
def test_it_is_the_same_in_each_process_and_changes_with_whatever_the_callback_does(tmp_path):
    changed = {"factor": 0.25, "default": 2, "floor": 0.1, "table": 4, "line": "epoch + 1", "every": None}
    for name, value in {"first": None, **changed}.items():
        (tmp_path / name).mkdir()
        values = VALUES if value is None else {**VALUES, name: value}
        (tmp_path / name / "mine.py").write_text(textwrap.dedent(TEMPLATE).format(**values))
    names = ["first", *changed]
    found = identities(tmp_path, names)
    assert len(set(found.values())) == len(names)
    # Neither the process nor what it has looked at before counts.
    assert identities(tmp_path, names[::-1]) == found


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


def test_keras_own_are_known_by_their_parameters_and_not_by_what_they_print():
    plateau = keras.callbacks.ReduceLROnPlateau
    assert identity(plateau(patience=3)) == identity(plateau(patience=3, verbose=1))
    assert identity(plateau(patience=3)) != identity(plateau(patience=4))


class Holding(keras.callbacks.Callback):
    def __init__(self, held):
        super().__init__()
        self.held = held


def test_attributes_count_save_those_that_keras_sets():
    seen = Holding([1])
    seen.set_model(threading.Lock())
    seen.set_params({"epochs": 3})
    assert identity(seen) == identity(Holding([1])) != identity(Holding([2]))


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (threading.Lock(), "held is a lock, "),
        ({"by": [object()]}, "held['by'][0] is an object, "),
        (np.array([object()]), "held is a ndarray, "),
        (rate_after(threading.Lock()).schedule, "start (in schedule) is a lock, "),
        (eval("lambda epoch: 0.1"), "<lambda> has no source text; define it in a notebook cell or in a file"),
    ],
)
def test_what_cannot_be_part_of_it_is_named(held, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        identity(Holding(held))
