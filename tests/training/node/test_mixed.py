"""Layers that compute in 16 bits: what is left out, by whom, and what a checkpoint keeps of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.config import parse
from sparksplit.collectives import Alone
from sparksplit.collectives.ring import Ring
from sparksplit.collectives.virtual import Stage, VirtualCollective
from sparksplit.model import build
from sparksplit.model.floats import outputs_of, set_floats
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, StepSync
from sparksplit.training.node.compiled.step import Step
from sparksplit.training.node.state import assign, named
from sparksplit.training.train_config import TrainConfig
from tests.nodes import in_threads
from tests.training.node.steps import FEATURES, chunk_of, inputs_of, rows, squared_error


@pytest.fixture
def policy(request):
    set_floats(request.param)
    yield request.param
    set_floats("float32")


BOTH = pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"], indirect=True)
SCALED = pytest.mark.parametrize("policy", ["mixed_float16"], indirect=True)


def optimizer_of(dtype, **keys):
    values = {"data": "d", "output": "o", "dtype": dtype, "optimizer": {"learning_rate": 0.05, **keys}}
    return build.build_optimizer(parse(TrainConfig, values))


def model_of(dtype):
    """dtype: the policy's name; said here, since a thread has its own."""
    dense = keras.layers.Dense(1, kernel_initializer="ones", dtype=dtype)
    return keras.Sequential([keras.layers.Input((FEATURES,)), dense])


def step_of(model, dtype, sync, collective, parts=1, **keys):
    made = optimizer_of(dtype, **keys)
    return Step(model, made, squared_error, {}, inputs_of(), sync, collective, accumulate=parts), made


def chunks(nodes, updates, spoilt=None, at=0):
    """By rank. spoilt: the update in which the last node has a value that is too large; at: the first one's number."""
    found = []
    for rank in range(nodes):
        x, y = rows(8 * updates, 10 * at + rank)
        y = x.sum(axis=1) + 0.02 * y  # near what the model begins with: times 2 ** 15, the gradients are float16's
        if spoilt is not None and rank == nodes - 1:
            x[8 * spoilt] = 300, -300, 0, 300  # and of these they are not, in both directions
        found.append(chunk_of(x, y, np.arange(updates + 1) * 8, [8 * nodes] * updates))
    return found


def trained(dtype, nodes, sync_of=StepSync, virtual=False, parts=1, spoilt=1):
    """[(losses, weights, scale, iterations)] by rank."""
    given = chunks(nodes, 3, spoilt)

    def train(step, model, made, rank):
        losses = step.train(given[rank])
        scale = float(made.dynamic_scale.numpy()) if dtype == "mixed_float16" else None
        return losses, model.get_weights(), scale, int(made.iterations.numpy())

    if virtual:
        stage, model = Stage(nodes), model_of(dtype)
        collectives = [VirtualCollective(rank, stage) for rank in range(nodes)]
        syncs = [sync_of(each, SyncConfig()) for each in collectives]
        first, made = step_of(model, dtype, syncs[0], collectives[0], parts)
        steps = [first.with_sync(sync, each) for sync, each in zip(syncs, collectives, strict=True)]
        stage.set(first.variables())
        return stage.play(lambda rank: train(steps[rank], model, made, rank))

    models = [model_of(dtype) for _ in range(nodes)]

    def work(rank, gather):
        collective = Alone() if nodes == 1 else Ring.connect(rank, nodes, "127.0.0.1", b"s", gather, 30)
        try:
            step, made = step_of(models[rank], dtype, sync_of(collective, SyncConfig()), collective, parts)
            return train(step, models[rank], made, rank)
        finally:
            collective.close()

    return in_threads(nodes, work)


@SCALED
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("virtual", [False, True])
def test_an_update_that_overflows_on_one_node_is_left_out_on_all(policy, parts, virtual):
    """It is the sum that is looked at: an infinite part makes it infinite, the same on every rank."""
    found = trained(policy, 2, parts=parts, virtual=virtual)
    for losses, weights, scale, iterations in found:
        assert np.isfinite(losses).all() and np.isfinite(weights[0]).all()
        assert (scale, iterations) == (2.0**14, 2)
        assert weights[0].tobytes() == found[0][1][0].tobytes()
        assert weights[0].dtype == np.float32


@SCALED
def test_a_node_with_gradients_of_its_own_decides_for_itself(policy):
    scales = [scale for _, _, scale, _ in trained(policy, 2, LocalSync)]
    assert scales == [2.0**15, 2.0**14]


@BOTH
def test_two_nodes_learn_what_one_would_in_float32(policy):
    """A scale that is not taken out of gradients, or of losses, would be 2 ** 15."""
    found = trained(policy, 2, spoilt=None)
    x, y = zip(*(((chunk.tensors[0]), chunk.label) for chunk in chunks(2, 3)), strict=True)
    kernel, bias, losses = np.ones(FEATURES), 0.0, []
    for k in range(3):
        some = slice(8 * k, 8 * k + 8)
        values, labels = np.concatenate([each[some] for each in x]), np.concatenate([each[some] for each in y])
        error = values @ kernel + bias - labels
        losses.append((error**2).mean())
        kernel, bias = kernel - 0.1 * values.T @ error / 16, bias - 0.1 * error.mean()
    for own, weights, _, _ in found:
        # Outputs near 1 have 8 bits in bfloat16, and each processor rounds in its own way. The errors are near 0.07.
        np.testing.assert_allclose(own, losses, rtol=0.5)
        np.testing.assert_allclose(weights[0][:, 0], kernel, atol=0.03)


@SCALED
def test_the_scale_goes_on_from_a_checkpoint(policy):
    """And so does when it is to grow: the same updates give the same bits."""
    collective = Alone()
    made = [step_of(model_of(policy), policy, StepSync(collective, SyncConfig()), collective) for _ in "ab"]
    models = [step._model for step, _ in made]
    (first, own), (other, fresh) = made
    first.train(chunks(1, 3, 1)[0])
    for prefix, mine, theirs in (
        ("v", models[0].variables, models[1].variables),
        ("o", own.variables, fresh.variables),
    ):
        assign(prefix, theirs, named(prefix, mine), "here")
    for step in (first, other):
        step.train(chunks(1, 3, 2, at=1)[0])
    assert float(own.dynamic_scale.numpy()) == float(fresh.dynamic_scale.numpy()) == 2.0**13
    assert own.step_counter.numpy() == fresh.step_counter.numpy() == 0
    assert [w.tobytes() for w in models[0].get_weights()] == [w.tobytes() for w in models[1].get_weights()]


def test_a_scale_of_the_users_own_is_taken_out_again():
    """Keras's optimizers divide by loss_scale_factor, whoever multiplies."""
    found = []
    for keys in ({}, {"loss_scale_factor": 1024.0}):
        collective, model = Alone(), model_of("float32")
        step, _ = step_of(model, "float32", StepSync(collective, SyncConfig()), collective, **keys)
        losses = step.train(chunks(1, 3)[0])
        found.append(np.concatenate([losses, *map(np.ravel, model.get_weights())]))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


@BOTH
def test_tokens_are_not_rounded_before_they_are_looked_up(policy):
    """257 is no number of bfloat16."""
    table = keras.layers.Embedding(400, 1, embeddings_initializer=lambda shape, dtype: tf.range(400.0)[:, None])
    for layers in ([table], [keras.layers.Reshape((3,)), table]):
        model = keras.Sequential([keras.layers.Input((3,)), *layers])
        found = outputs_of(model, tf.constant([[255.0, 257.0, 259.0]]), training=False)
        assert found.dtype == tf.float32
        assert len(set(np.ravel(found.numpy()).tolist())) > 1
