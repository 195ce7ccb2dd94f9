"""Compiled by XLA, or without a deterministic kernel: what is computed, and what the error says."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.collectives import Alone
from sparksplit.collectives.ring import Ring
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import StepSync
from sparksplit.training.node.compiled.step import Step
from sparksplit.training.node.kernels import naming_keys
from sparksplit.training.train_config import TrainConfig
from tests.nodes import in_threads
from tests.training.node.steps import FEATURES, chunk_of, inputs_of, rows, squared_error


def config_of(**keys):
    return parse(TrainConfig, {"data": "d", "output": "o", **keys})


def model_of(layer):
    keras.utils.set_random_seed(1)
    normed = keras.layers.BatchNormalization(momentum=0.5)
    return keras.Sequential([keras.layers.Input((FEATURES,)), normed, layer(), keras.layers.Dense(1)])


def hidden():
    return keras.layers.Dense(8, "relu", kernel_regularizer="l2")


def step_of(model, collective, jit, parts=1):
    made = keras.optimizers.SGD(0.05, momentum=0.9), squared_error, {}, inputs_of()
    return Step(model, *made, StepSync(collective, SyncConfig()), collective, accumulate=parts, jit=jit)


def trained(nodes, jit, parts=1):
    """[(losses, weights)] by rank, after two updates of uneven shares, of which one is empty."""
    models = [model_of(hidden) for _ in range(nodes)]
    counts = [(12, 5)] if nodes == 1 else [(5, 5), (7, 0)]
    x, y = rows(17, 1)

    def work(rank, gather):
        collective = Alone() if nodes == 1 else Ring.connect(rank, nodes, "127.0.0.1", b"s", gather, 60)
        try:
            first, second = counts[rank]
            begin = 5 * rank
            own = np.r_[begin : begin + first, 12 : 12 + second]
            step = step_of(models[rank], collective, jit, parts)
            losses = step.train(chunk_of(x[own], y[own], [0, first, first + second], [12, 5]))
            return losses, models[rank].get_weights()
        finally:
            collective.close()

    return in_threads(nodes, work)


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "parts"), [(1, 1), (2, 1), (1, 3)])
def test_what_xla_compiles_gives_the_same_within_rounding(nodes, parts):
    """On every rank the same bits."""
    plain, compiled = trained(nodes, False, parts), trained(nodes, True, parts)
    for (losses, weights), (found, others) in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(found, losses, rtol=1e-4)
        for one, other, first in zip(others, weights, compiled[0][1], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)
            assert one.tobytes() == first.tobytes()


class Printing(keras.layers.Layer):
    """An operation that XLA does not know."""

    def call(self, x):
        return x + tf.stop_gradient(tf.strings.to_number(tf.strings.as_string(x)))


class Timed(keras.layers.Layer):
    """An operation that has no deterministic kernel."""

    def call(self, x):
        return x + 0 * tf.cast(tf.timestamp(), x.dtype)


def test_an_operation_that_xla_cannot_compile_is_named_with_the_key():
    config, collective, (x, y) = config_of(jit_compile=True), Alone(), rows(4, 1)
    said = r"^jit_compile: is true, but XLA cannot .* \(TensorFlow: .*String"
    with pytest.raises(ConfigError, match=said) as caught, naming_keys(config):
        step_of(model_of(Printing), collective, True).train(chunk_of(x, y, [0, 4]))
    assert "\n" not in str(caught.value)


@pytest.fixture
def determinism():
    from tensorflow.python.framework import config

    was = config.is_op_determinism_enabled()
    tf.config.experimental.enable_op_determinism()
    yield
    if not was:
        config.disable_op_determinism()


def test_an_operation_without_a_deterministic_kernel_is_named_with_the_key(determinism):
    collective, (x, y) = Alone(), rows(4, 1)
    said = r"^deterministic: is true, but an operation .*\(TensorFlow: .*[Tt]imestamp"
    with pytest.raises(ConfigError, match=said), naming_keys(config_of()):
        step_of(model_of(Timed), collective, False).train(chunk_of(x, y, [0, 4]))


@pytest.mark.parametrize("keys", [{}, {"deterministic": False}])
def test_other_errors_stay_what_they_are(keys):
    error = tf.errors.InvalidArgumentError(None, None, "indices[3] = 7 is not in [0, 5)")
    if keys:
        error = tf.errors.UnimplementedError(None, None, "Determinism is not yet supported in X")
    with pytest.raises(tf.errors.OpError) as caught, naming_keys(config_of(**keys)):
        raise error
    assert caught.value is error


def test_a_lack_of_memory_is_not_taken_for_what_xla_cannot_do():
    error = tf.errors.ResourceExhaustedError(None, None, "Out of memory in XLA")
    with pytest.raises(tf.errors.ResourceExhaustedError), naming_keys(config_of(jit_compile=True)):
        raise error
