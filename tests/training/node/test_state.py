"""What a checkpoint keeps of a node: variables as arrays, and back."""

import hashlib
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.errors import InputError, RunError
from sparksplit.strategies.state import observe
from sparksplit.training.node.state import State, _by_rank, assign, named
from tests.nodes import in_threads


class Variable:
    """What of a Keras variable is used."""

    def __init__(self, value):
        self.value = np.asarray(value)
        self.shape = self.value.shape

    def numpy(self):
        return self.value

    def assign(self, value):
        self.value = value


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
    model = SimpleNamespace(variables=[weight, seed, mean])
    process = SimpleNamespace(model=model, optimizer=None, random_states=lambda: [seed])
    state = State(process, None, None, None, None)
    state.take_best()
    assert weight.value.tolist() == [1.0, 2.0], "nothing has been kept"
    state.keep_best()
    weight.value += 1
    mean.value, seed.value = np.array([4.0]), np.array([7, 9])
    state.take_best()
    assert [each.value.tolist() for each in (weight, mean, seed)] == [[1.0, 2.0], [3.0], [7, 9]]


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
