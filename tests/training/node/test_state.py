"""What a checkpoint keeps of a node: variables as arrays, and back."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.errors import InputError, RunError
from sparksplit.model.optimizers import calls
from sparksplit.strategies.state import observe
from sparksplit.training import checkpoints
from sparksplit.training.node.saver import Saver
from sparksplit.training.node.state import State, _by_rank, assign, named
from tests.hdfs_io.outputs import fenced
from tests.nodes import in_threads
from tests.training.node.stand_ins import Member, Variable


def test_variables_are_known_by_their_place():
    saved = named("v", [Variable([1.0, 2.0]), Variable(3)])
    assert list(saved) == ["v0000", "v0001"]
    fresh = [Variable([0.0, 0.0]), Variable(0)]
    assign("v", fresh, saved, "here")
    assert [variable.value.tolist() for variable in fresh] == [[1.0, 2.0], 3]


@pytest.mark.parametrize("variables", [[[0.0, 0.0, 0.0], 0], [[0.0, 0.0], 0, 0]])
def test_another_models_checkpoint_is_refused(variables):
    saved = named("v", [Variable([1.0, 2.0]), Variable(3)])
    with pytest.raises(InputError, match="here: does not fit this model and optimizer"):
        assign("v", [Variable(value) for value in variables], saved, "here")


def test_the_best_weights_are_the_models_own_without_its_random_states():
    """They are a copy: what training changes in place stays changed."""
    weight, mean, seed = Variable([1.0, 2.0]), Variable([3.0]), Variable([7, 0])
    model = SimpleNamespace(variables=[weight, seed, mean], trainable_variables=[weight])
    process = SimpleNamespace(model=model, optimizer=None, random_states=lambda: [seed])
    state = State(process, None, None, None, None)
    state.end()
    assert weight.value.tolist() == [1.0, 2.0], "nothing has been kept"
    state.keep_best()
    weight.value += 1
    mean.value, seed.value = np.array([4.0]), np.array([7, 9])
    state.end()
    assert [each.value.tolist() for each in (weight, mean, seed)] == [[1.0, 2.0], [3.0], [7, 9]]


def test_what_a_run_ends_with_are_the_optimizers_averages():
    """And so are the best weights so far; training goes on with its own."""
    weight, average, mean = Variable([1.0]), Variable([0.25]), Variable([3.0])
    optimizer = SimpleNamespace(use_ema=True, _model_variables_moving_average=[average])
    model = SimpleNamespace(variables=[weight, mean], trainable_variables=[weight])
    process = SimpleNamespace(model=model, optimizer=optimizer, random_states=lambda: [])
    state = State(process, None, None, None, None)
    state.keep_best()
    assert (weight.value.tolist(), mean.value.tolist()) == ([1.0], [3.0])
    average.assign(np.array([0.75]))
    state.end()
    assert weight.value.tolist() == [0.25], "the best ones"
    State(process, None, None, None, None).end()
    assert weight.value.tolist() == [0.75], "the last ones"


OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Nadam(0.1, use_ema=True)),
}


class Playing:
    """A node whose model is one kernel, and which takes a step on each of some gradients."""

    def __init__(self, folder, name, sync, rank, size, gather, fence=None, checkpoint=None):
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)])
        self.model, self.optimizer = model, OPTIMIZERS[name]()
        self.optimizer.build(model.trainable_variables)
        seeds = [each for each in model.non_trainable_variables if each.shape == (2,)]
        payload = SimpleNamespace(checkpoint=checkpoint, config_hash="", record_only=False, fence=fence)
        process = SimpleNamespace(
            model=model, optimizer=self.optimizer, random_states=lambda: seeds, payload=payload,
            config=SimpleNamespace(checkpoint=SimpleNamespace(keep=3)),
        )  # fmt: skip
        member = Member(rank, size, gather)
        step = SimpleNamespace(metric_sums=dict, restore_metrics=lambda state: None)
        self.state = State(process, member, sync, step, Saver(member, beside=False))

    def train(self, rank, steps):
        for step in range(steps):
            gradients = [tf.fill(each.shape, 0.1 * rank + step) for each in self.model.trainable_variables]
            self.optimizer.apply(gradients, self.model.trainable_variables)

    def bits(self, seeds=True):
        model = self.model.variables if seeds else self.model.trainable_variables
        return [each.numpy().tobytes() for each in (*model, *self.optimizer.variables)]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("every_step", [True, False])
def test_another_number_of_nodes_goes_on_with_whole_optimizers(tmp_path, name, every_step):
    """As many have all bits; of others, each has the optimizer of one of those before."""
    sync, before = SimpleNamespace(every_step=every_step, state=dict, restore=lambda state: None), {}

    def began(rank, gather):
        node = before[rank] = Playing(tmp_path, name, sync, rank, 2, gather, fence)
        progress = node.state.begin()
        node.train(0 if every_step else rank, 4)
        gather("trained", None)
        # What a sync makes the same.
        for first, own in zip(before[0].state._common(), node.state._common(), strict=True):
            own.assign(first.numpy())
        node.state.save(replace(progress, update=4, step=4))

    with fenced(tmp_path) as fence:
        in_threads(2, began)
    path = checkpoints.latest(str(tmp_path))
    for size in (1, 2, 3):

        def went_on(rank, gather, size=size):
            node = Playing(tmp_path, name, sync, rank, size, gather, None, path)
            (resumed,) = node.state.begin().resumed
            assert node.bits(size == 2) == before[rank % 2].bits(size == 2)
            assert calls(node.optimizer) == 4
            return resumed.optimizer

        passed_on = None if every_step or size == 2 else "passed on"
        assert in_threads(size, went_on) == [passed_on] * size


@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize("last", [3.0, 4.0])
def test_all_nodes_must_hold_the_same_weights_frozen_ones_too(trainable, last):
    """They never travel, so nothing would make them the same: a builder that draws them without the seed."""
    models = []
    for value in (3.0, last):
        hidden = keras.layers.Dense(2, kernel_initializer=keras.initializers.Constant(value))
        model = keras.Sequential([keras.layers.Input((2,)), hidden, keras.layers.Dense(1, kernel_initializer="ones")])
        hidden.trainable = trainable
        observe(model, lambda x, model=model: model(x, training=True), [tf.TensorSpec((None, 2))])
        models.append(model)

    def work(rank, gather):
        process = SimpleNamespace(model=models[rank], optimizer=None)
        return State(process, SimpleNamespace(gather=gather), None, None, None).agreed_digest("now")

    if last != 3.0:
        with pytest.raises(RunError, match=r"the nodes' weights differ now: \w{16} on 0; \w{16} on 1"):
            in_threads(2, work)
        return
    trained = b"".join(variable.numpy().tobytes() for variable in models[0].trainable_variables)
    assert in_threads(2, work) == [hashlib.sha256(trained).hexdigest()[:16]] * 2


def test_the_nodes_that_differ_come_first_and_few_of_the_others():
    """A thousand digests would be 18 kB."""
    assert _by_rank(["a"] * 417 + ["b"] + ["a"] * 582) == "b on 417; a on 0, 1, 2, 3, 4, 5, 6, 7 and 991 more"
    assert _by_rank([f"{rank:03d}" for rank in range(1000)]).endswith("; 007 on 7 and 992 others")
