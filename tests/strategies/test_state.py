"""Which variables a training step changes: asked of TensorFlow's graph, and compared with what a step has changed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.collectives import Alone
from sparksplit.strategies.state import averaged_state, constants, counters
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import StepSync
from sparksplit.training.node.compiled.step import Step
from tests.training.node.steps import FEATURES, chunk_of, inputs_of, rows, squared_error


class Noting(keras.layers.Layer):
    """Assigns to some of its variables: always, within a branch, by TensorFlow's own means; and to one never."""

    def build(self, shape):
        add = lambda dtype: self.add_weight(shape=(), dtype=dtype, initializer="zeros", trainable=False)  # noqa: E731
        self.always, self.within, self.below, self.never = (add("float32") for _ in range(4))
        self.seen, self.fixed = add("int32"), add("int32")

    def call(self, x):
        self.always.assign_add(1.0)
        self.seen.assign_add(tf.shape(x)[0])
        within = lambda: self.within.value.assign_add(1.0) + 0.0  # noqa: E731
        many = tf.cond(tf.shape(x)[0] > 1, within, lambda: tf.identity(self.never.value))
        tf.raw_ops.AssignAddVariableOp(resource=self.below.value.handle, value=many)
        return x + self.never + tf.cast(self.fixed, x.dtype)


def frozen(layer):
    layer.trainable = False
    return layer


LAYERS = {
    "dense": lambda: keras.layers.Dense(3),
    "norm": keras.layers.BatchNormalization,
    "spectral": lambda: keras.layers.SpectralNormalization(keras.layers.Dense(3)),
    "noting": Noting,
    "lstm": lambda: keras.Sequential([keras.layers.Reshape((2, -1)), keras.layers.LSTM(3)]),
    "dropout": lambda: keras.layers.Dropout(0.5),
}
CHANGING = {"norm": 2, "spectral": 1, "noting": 4}
"""Of a layer that is trained: how many of its non-trainable variables change, of those that are no random state."""


def trained(layer):
    """(model, the names of the non-trainable variables that an update has changed)."""
    model = keras.Sequential([keras.layers.Input((FEATURES,)), layer, keras.layers.Dense(1)])
    step = Step(
        model, keras.optimizers.SGD(0.1), squared_error, {}, inputs_of(), StepSync(Alone(), SyncConfig()), Alone()
    )
    before = [variable.numpy().copy() for variable in model.non_trainable_variables]
    x, y = rows(8, 1)
    step.train(chunk_of(x, y, [0, 4, 8]))
    after = [variable.numpy() for variable in model.non_trainable_variables]
    return model, {
        variable.path
        for variable, old, new in zip(model.non_trainable_variables, before, after, strict=True)
        if old.tobytes() != new.tobytes() and variable.name != "seed_generator_state"
    }


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("is_frozen", [False, True])
def test_what_changes_is_found_and_nothing_else(name, is_frozen):
    layer = frozen(LAYERS[name]()) if is_frozen else LAYERS[name]()
    model, changed = trained(layer)
    found = {variable.path for variable in (*averaged_state(model), *counters(model))}
    assert found == changed
    if not is_frozen:
        assert len(found) == CHANGING.get(name, 0)
    rest = {variable.path for variable in model.non_trainable_variables if variable.name != "seed_generator_state"}
    assert {variable.path for variable in constants(model)} == rest - changed


def test_a_frozen_norm_keeps_its_statistics_and_a_frozen_kernel_that_is_normalised_does_not():
    """Keras runs the one in inference mode; the other assigns its kernel whether it is frozen or not."""
    assert averaged_state(trained(frozen(keras.layers.BatchNormalization()))[0]) == []
    names = {variable.name for variable in averaged_state(trained(frozen(LAYERS["spectral"]()))[0])}
    assert names == {"kernel", "vector_u"}


def test_a_weight_that_was_frozen_by_itself_is_constant():
    layer = keras.layers.Dense(3)
    layer.build((None, FEATURES))
    layer.kernel.trainable = False
    model, _ = trained(layer)
    assert [variable.name for variable in constants(model)] == ["kernel"]


def test_before_it_is_known_everything_counts_as_changing():
    model = keras.Sequential([keras.layers.Input((2,)), frozen(keras.layers.Dense(3))])
    assert (len(averaged_state(model)), constants(model)) == (2, [])
    assert np.isfinite(model(np.ones((1, 2))).numpy()).all()
