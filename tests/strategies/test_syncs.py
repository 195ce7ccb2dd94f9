"""What the nodes agree on beside the weights, on two nodes as threads with a real ring."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.errors import PeerLost
from sparksplit.collectives import Alone
from sparksplit.collectives.ring import Ring
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, RoundSync, StepSync
from sparksplit.training.node.compiled.step import Step
from tests.nodes import in_threads
from tests.training.node.steps import FEATURES, chunk_of, inputs_of, rows, squared_error


class Counting(keras.layers.Layer):
    """Counts the rows that it has seen."""

    def build(self, shape):
        self.seen = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False)

    def call(self, x):
        self.seen.assign_add(tf.shape(x)[0])
        return x


def agreed(sync_class, shares):
    """The models of two nodes after one update each and a sync."""
    totals = [sum(len(x) for x, _ in shares)]
    models = []
    for _ in shares:
        parts = [Counting(), keras.layers.BatchNormalization(momentum=0.0), keras.layers.Dense(1)]
        models.append(keras.Sequential([keras.layers.Input((FEATURES,)), *parts]))

    def work(rank, gather):
        collective = Ring.connect(rank, len(shares), "127.0.0.1", b"s", gather, 30)
        sync = sync_class(collective, SyncConfig())
        step = Step(models[rank], keras.optimizers.SGD(0.0), squared_error, {}, inputs_of(), sync, collective)
        x, y = shares[rank]
        models[rank].layers[0].seen.assign(1000 * rank)
        sync.begin(models[rank])
        step.train(chunk_of(x, y, [0, len(x)], totals if sync.every_step else None))
        step.synchronise(len(x))
        collective.close()

    in_threads(len(shares), work)
    return models


@pytest.mark.parametrize("sync", [StepSync, LocalSync, RoundSync])
def test_statistics_are_averaged_by_rows_and_counts_are_rank_0s(sync):
    (x1, y1), (x2, y2) = rows(100, 1), rows(300, 2)
    x1, x2 = x1 + 5, x2 - 1
    expected = (100 * x1.mean(axis=0) + 300 * x2.mean(axis=0)) / 400
    for model in agreed(sync, [(x1, y1), (x2, y2)]):
        np.testing.assert_allclose(model.layers[1].moving_mean.numpy(), expected, rtol=1e-4)
        # The first node has seen 100 rows, after none; the example that builds a model counts, too, in none of them.
        assert int(model.layers[0].seen.numpy()) == 100


@pytest.mark.parametrize("sync", [StepSync, LocalSync])
def test_a_node_without_rows_takes_what_the_others_have(sync):
    (x, y), nothing = rows(40, 3), (np.zeros((0, FEATURES), np.float32), np.zeros(0, np.float32))
    for model in agreed(sync, [(x, y), nothing]):
        np.testing.assert_allclose(model.layers[1].moving_mean.numpy(), x.mean(axis=0), rtol=1e-4, atol=1e-6)
        assert int(model.layers[0].seen.numpy()) == 40


@pytest.mark.parametrize("sync", [StepSync, LocalSync, RoundSync])
def test_frozen_weights_do_not_travel_and_keep_their_bits(sync):
    """A frozen kernel of 40,000 numbers and a frozen BatchNorm: 300 of the former would be more than what is sent."""
    shares = [rows(3, 1), rows(4, 2)]
    models = []
    for _ in shares:
        inner = [keras.layers.Dense(10_000), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
        outer = keras.Sequential([keras.layers.Input((FEATURES,)), *inner, keras.layers.Dense(1)])
        for layer in inner:
            layer.trainable = False
        inner[1].moving_mean.assign(np.linspace(0.0, 1.0, 10_000))
        models.append(outer)
    models[1].set_weights(models[0].get_weights())
    before = [variable.numpy().tobytes() for variable in models[0].non_trainable_variables]

    def work(rank, gather):
        collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
        agreeing = sync(collective, SyncConfig())
        step = Step(models[rank], keras.optimizers.SGD(0.1), squared_error, {}, inputs_of(), agreeing, collective)
        x, y = shares[rank]
        agreeing.begin(models[rank])
        step.train(chunk_of(x, y, [0, len(x)], [7] if agreeing.every_step else None))
        step.synchronise(len(x))
        collective.close()
        return collective.bytes_sent

    sent = in_threads(2, work)
    # Kernel and bias of the last layer, the loss or the number of rows; nothing else.
    assert all(0 < found < 1200 for found in sent)
    for model in models:
        assert [variable.numpy().tobytes() for variable in model.non_trainable_variables] == before
    assert models[0].get_weights()[-2].tobytes() == models[1].get_weights()[-2].tobytes()


def test_a_lost_peer_is_named_as_such_and_the_weights_stay():
    """TensorFlow makes another error of it, since the sum is in a graph."""
    model = keras.Sequential([keras.layers.Input((FEATURES,)), keras.layers.Dense(1)])
    before = [weight.tobytes() for weight in model.get_weights()]

    def work(rank, gather):
        collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
        if rank == 0:
            sync = LocalSync(collective, SyncConfig(outer="nesterov"))
            sync.begin(model)
            gather("begun", None)
            with pytest.raises(PeerLost, match="node 1"):
                sync.agree(model, 5)
        else:
            gather("begun", None)
        collective.close()

    in_threads(2, work)
    assert [weight.tobytes() for weight in model.get_weights()] == before


def test_a_sync_without_rows_changes_nothing():
    """Not even by what momentum has kept."""
    models = [keras.Sequential([keras.layers.Input((FEATURES,)), keras.layers.Dense(1)]) for _ in range(2)]
    models[1].set_weights(models[0].get_weights())
    seen = []

    def work(rank, gather):
        collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
        sync, (kernel, _) = LocalSync(collective, SyncConfig(outer="momentum")), models[rank].trainable_variables
        sync.begin(models[rank])
        for count in (10 * rank, 0):
            kernel.assign(kernel + 1.0)
            sync.agree(models[rank], count)
            seen.append((rank, count, models[rank].get_weights()[0], sync.state()["u0000"]))
        collective.close()

    begun = models[0].get_weights()[0]
    in_threads(2, work)
    for rank in range(2):
        (_, _, first, velocity), (_, _, second, same) = [each for each in seen if each[0] == rank]
        np.testing.assert_allclose(first, begun + 1.0, rtol=1e-6)
        np.testing.assert_allclose(second, first + 1.0, rtol=1e-6)  # its own, not agreed on
        assert velocity.tobytes() == same.tobytes()


def test_what_was_restored_goes_on_whenever_it_comes():
    """Also after `begin`, as a strategy of one's own may have it."""
    model = keras.Sequential([keras.layers.Input((FEATURES,)), keras.layers.Dense(1)])
    kept = {"u0000": np.full((FEATURES, 1), 2.0, "f"), "u0001": np.full(1, 3.0, "f")}
    for late in (False, True):
        sync = LocalSync(Alone(), SyncConfig(outer="nesterov"))
        if late:
            sync.begin(model)
        sync.restore({**kept, "v0000": np.zeros(3)})
        if not late:
            sync.begin(model)
        assert {name: value.tolist() for name, value in sync.state().items()} == {
            name: value.tolist() for name, value in kept.items()
        }


@pytest.mark.parametrize(("sync", "outer"), [(LocalSync, "none"), (LocalSync, "nesterov"), (RoundSync, "none")])
def test_constraints_hold_after_what_the_nodes_agree_on(sync, outer):
    """What the outer optimiser adds to kernels within the norm, and averages of kernels that must have it, are not."""
    models = [
        keras.Sequential(
            [
                keras.layers.Input((FEATURES,)),
                keras.layers.Dense(3, kernel_constraint=keras.constraints.MaxNorm(0.5)),
                keras.layers.Dense(1, kernel_constraint=keras.constraints.UnitNorm(), bias_initializer="ones"),
            ]
        )
        for _ in range(2)
    ]
    models[1].set_weights(models[0].get_weights())

    def work(rank, gather):
        collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
        agreeing, trained = sync(collective, SyncConfig(outer=outer)), models[rank].trainable_variables
        agreeing.begin(models[rank])
        for turn in range(4):
            for place, variable in enumerate(trained):
                away = np.random.default_rng([rank, turn, place]).normal(0.2, 1, variable.shape)
                moved = variable + away.astype("f")
                variable.assign(moved if variable.constraint is None else variable.constraint(moved))
            agreeing.agree(models[rank], 10 + rank)
            assert np.linalg.norm(trained[0].numpy(), axis=0).max() <= 0.5 + 1e-5
            np.testing.assert_allclose(np.linalg.norm(trained[2].numpy(), axis=0), 1, atol=1e-5)
        collective.close()

    in_threads(2, work)
    for one, other in zip(*(model.get_weights() for model in models), strict=True):
        assert one.tobytes() == other.tobytes()


class Shapeless(Alone):
    """A collective of one's own, which does not say what shapes its sums have."""

    def sum_tensors(self, tensors):
        return tf.numpy_function(lambda *arrays: list(arrays), tensors, [tensor.dtype for tensor in tensors])


def test_a_collective_need_not_know_the_shapes_of_its_sums():
    model = keras.Sequential([keras.layers.Input((FEATURES,)), keras.layers.Dense(1)])
    kernel, _ = model.trainable_variables
    sync, begun = LocalSync(Shapeless(), SyncConfig(outer="momentum")), kernel.numpy()
    sync.begin(model)
    kernel.assign(kernel + 1.0)
    sync.agree(model, 3)
    np.testing.assert_allclose(kernel.numpy(), begun + 1.0, rtol=1e-6)
