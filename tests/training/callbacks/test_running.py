"""Callbacks on nodes, without processes: who calls which hook, and what all nodes take over."""

from __future__ import annotations

import math
import re

import keras
import numpy as np
import pytest

from sparksplit.base.errors import CallbackFailed, RunError
from sparksplit.training.callbacks.running import Running, SeenOptimizer
from sparksplit.training.callbacks.sent import Sent
from sparksplit.training.progress_record import Changed, Progress
from tests.nodes import in_threads
from tests.training.node.stand_ins import Member, Together


class Rate:
    """A variable of a node."""

    def __init__(self, value):
        self.value = value

    def assign(self, value):
        self.value = float(value)

    def numpy(self):
        return np.float64(self.value)


class Node:
    """A model and its optimizer, as far as callbacks see them."""

    def __init__(self, rate):
        self.variables, self.learning_rate = [], rate


class Record:
    def __init__(self, epoch, loss=1.0):
        self.epoch, self.train, self.validation = epoch, {"loss": loss}, None


class Steering(keras.callbacks.Callback):
    """Adds up the losses. The learning rate is 1 / the sum, and a sum above `most` ends the run."""

    total, most = 0.0, math.inf

    def on_epoch_end(self, epoch, logs=None):
        self.total += logs["loss"]
        self.model.optimizer.learning_rate = 1 / self.total
        self.model.stop_training = self.total > self.most

    def get_state(self):
        return self.total

    def set_state(self, state):
        self.total = state


def running(callbacks, changing, rank=0, size=1, gather=None, rate=0.5, epochs=9):
    names = [f"callbacks[{place}]" for place in range(len(callbacks))]
    rate, node = Rate(rate), Node(rate)
    sent = Sent(names, changing, "")
    object.__setattr__(sent, "load", lambda: callbacks)
    together = Together(rank, size, gather or (lambda name, value: [value]))
    return Running(sent, node, node, rate, Member(rank, size), together, epochs), rate


def test_all_nodes_take_over_what_node_0_has_changed():
    def node(rank, gather):
        steering = Steering()
        steering.most = 3.0
        one, rate = running([steering], [True], rank, 3, gather)
        one.begin(Progress("hash", 3), False, False)
        begun = one.changed
        rates = []
        for epoch in range(1, 4):
            one.epoch_done(Record(epoch, 0.5 * epoch), False)
            rates.append(rate.value)
        return begun, rates, one.changed, one.has_stopped

    found = in_threads(3, node)
    assert [each[0] for each in found] == [Changed(0.5, None, ["0.0"]), Changed(0.5), Changed(0.5)]
    assert all(each[1] == [2.0, 1 / 1.5, 1 / 3.0] for each in found)
    assert not any(each[3] for each in found)  # a sum of 3 is not above 3
    assert found[0][2].states == ["3.0"] and found[1][2].states == []


def test_a_callback_that_ends_the_run_is_named_on_all_nodes():
    def node(rank, gather):
        steering = Steering()
        steering.most = 0.9
        one, _ = running([keras.callbacks.LambdaCallback(), steering], [False, True], rank, 2, gather)
        one.begin(Progress("hash", 2), False, False)
        one.epoch_done(Record(1), False)
        return one.has_stopped, one.changed.stopped

    assert in_threads(2, node) == [(True, "callbacks[1]")] * 2


def test_a_later_callback_may_take_back_the_end_as_in_keras():
    first, second = Steering(), Steering()
    first.most, second.most = 0.9, math.inf
    one, _ = running([first, second], [True, True])
    one.begin(Progress("hash", 1), False, False)
    one.epoch_done(Record(1), False)
    assert not one.has_stopped
    second.most = 1.9
    one.epoch_done(Record(2), False)
    assert one.changed.stopped == "callbacks[0]"


class Calls(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_begin(self, logs=None):
        self.seen.append("train begins")

    def on_epoch_begin(self, epoch, logs=None):
        self.seen.append(("begins", epoch))

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(("ends", epoch))

    def on_train_end(self, logs=None):
        self.seen.append("train ends")


class CallsWithState(Calls):
    def get_state(self):
        return [list(each) if isinstance(each, tuple) else each for each in self.seen]

    def set_state(self, state):
        self.seen = [*state, "restored"]


class Printing(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"the loss of epoch {epoch} is {logs['loss']}")
        if epoch == 1:
            raise KeyError("rate")


def test_what_a_hook_prints_and_its_error_go_to_the_driver_and_into_the_log(capsys, caplog):
    one, _ = running([Printing()], [False])
    one.begin(Progress("hash", 1), False, False)
    one.epoch_done(Record(1), False)
    assert one._member.states[-1] == {"printed": [1, ["the loss of epoch 0 is 1.0"]]}
    with pytest.raises(CallbackFailed, match=r"on_epoch_end failed \(.*test_running.py:\d+\): KeyError: 'rate'$"):
        one.epoch_done(Record(2), False)
    last = one._member.states[-1]
    assert last["printed"][1][-1] == "the loss of epoch 1 is 1.0"
    assert last["traceback"].startswith("Traceback (most recent call last):\n") and 'running.py"' in last["traceback"]
    assert last["traceback"].count("File ") == 1 and last["traceback"].endswith("KeyError: 'rate'\n")
    assert "KeyError" in caplog.text and capsys.readouterr().out.count("the loss of epoch") == 2


def test_hooks_are_called_in_keras_order():
    calls = Calls()
    one, _ = running([calls], [False], epochs=2)
    one.begin(Progress("hash", 1), False, False)
    one.epoch_done(Record(1), False)
    one.epoch_done(Record(2), False)
    one.end()
    assert calls.seen == ["train begins", ("begins", 0), ("ends", 0), ("begins", 1), ("ends", 1), "train ends"]
    assert one.changed is None


def test_no_epoch_begins_after_an_early_stop():
    calls = Calls()
    one, _ = running([calls], [False])
    one.begin(Progress("hash", 1), False, False)
    one.epoch_done(Record(1), True)
    assert calls.seen[-1] == ("ends", 0)


def test_a_run_that_was_killed_after_its_last_epoch_begins_no_other():
    calls = Calls()
    one, _ = running([calls], [False], epochs=2)
    one.begin(Progress("hash", 1, history=[Record(2)]), True, False)
    one.end()
    assert calls.seen == ["train begins", "train ends"]


def test_a_run_goes_on_with_the_states_of_its_checkpoint():
    first, observer = CallsWithState(), Calls()
    one, rate = running([first, observer], [True, False])
    one.begin(Progress("hash", 1), False, False)
    one.epoch_done(Record(1), False)
    rate.value = 0.25
    one.epoch_done(Record(2), False)
    saved = Progress("hash", 1, changed=one.changed, history=[Record(2)])

    later, new = CallsWithState(), Calls()
    two, rate = running([later, new], [True, False])
    two.begin(saved, True, False)
    # What changes training has begun its epoch before the checkpoint; an observer begins it again.
    expected = ["train begins", ["begins", 0], ["ends", 0], ["begins", 1], ["ends", 1], ["begins", 2], "restored"]
    assert later.seen == expected
    assert new.seen == ["train begins", ("begins", 2)]
    assert (two.changed, rate.value) == (one.changed, 0.25)


@pytest.mark.parametrize("state", [(1, 2), {1: 2}, np.arange(2), {"a": {1, 2}}, [[(1,)]]])
def test_a_state_that_json_would_change_is_refused(state):
    class Odd(Steering):
        def get_state(self):
            return state

    one, _ = running([Odd()], [True])
    with pytest.raises(
        RunError, match=re.escape("callbacks[0]: get_state must return numbers, texts, lists and dicts")
    ):
        one.begin(Progress("hash", 1), False, False)


@pytest.mark.parametrize("state", [None, 0.1, np.float64(0.1), "x", {"a": [1, {"b": True}]}, float("nan"), math.inf])
def test_plain_states_are_kept(state):
    class Plain(Steering):
        def get_state(self):
            return state

    one, _ = running([Plain()], [True])
    one.begin(Progress("hash", 1), False, False)
    assert len(one.changed.states) == 1
    read = Progress.from_json(Progress("hash", 1, changed=one.changed).to_json(), "here")
    assert read.changed == one.changed


class EndsAtOnce(Steering):
    def on_train_begin(self, logs=None):
        self.model.stop_training = True


def test_only_the_end_of_an_epoch_can_end_a_run():
    one, _ = running([EndsAtOnce()], [True])
    with pytest.raises(RunError, match=r"on_train_begin sets model\.stop_training; only on_epoch_end can end a run$"):
        one.begin(Progress("hash", 1), False, False)


def test_a_schedule_cannot_be_set():
    optimizer = Node(0.3)
    seen = SeenOptimizer(optimizer, None)
    assert seen.learning_rate == 0.3 and seen.variables is optimizer.variables
    with pytest.raises(TypeError, match=r"^optimizer\.learning_rate is a schedule, so a callback cannot set it$"):
        seen.learning_rate = 0.1


@pytest.mark.parametrize("name", ["weight_decay", "iterations", "rho"])
def test_nothing_but_the_learning_rate_can_be_set(name):
    class Sets(Steering):
        def on_epoch_end(self, epoch, logs=None):
            setattr(self.model.optimizer, name, 0)

    one, _ = running([Sets()], [True])
    one.begin(Progress("hash", 1), False, False)
    with pytest.raises(RunError, match=rf"optimizer\.{name} cannot be set by a callback; only the learning rate can$"):
        one.epoch_done(Record(1), False)
