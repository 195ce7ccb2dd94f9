"""Gradients of a few rows of a large embedding: sums of these rows alone, on nodes as threads with a real ring."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.collectives import Alone
from sparksplit.collectives.ring import Ring
from sparksplit.collectives.virtual import Stage, VirtualCollective
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.strategies import slices
from sparksplit.strategies.slices import no_rows, rounded, summed, takes_slices, used_rows, wants_slices
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, StepSync
from sparksplit.training.node.compiled.step import Step
from tests.nodes import in_threads
from tests.training.node.steps import chunk_of

TOKENS, WIDTH, LENGTH = 40_000, 8, 3


@given(st.integers(0, 2**40))
def test_sizes_are_rounded_up_by_less_than_an_eighth(count):
    found = int(rounded(tf.constant(count, tf.int64)))
    assert count <= found < max(2, count * 1.125)
    assert found == int(rounded(tf.constant(found, tf.int64)))


def test_few_sizes_are_left_after_rounding():
    assert len({int(rounded(tf.constant(count, tf.int64))) for count in range(1000, 2001)}) <= 10


def test_only_a_large_variables_rows_are_told_apart():
    large = tf.Variable(tf.zeros((TOKENS, WIDTH)))
    small = tf.Variable(tf.zeros((slices.LARGE // 32 - 1, WIDTH)))
    gradient = tf.IndexedSlices(tf.ones((3, WIDTH)), [7, 2, 7], [TOKENS, WIDTH])
    found = used_rows(gradient, large)
    assert dict(zip(found.indices.numpy().tolist(), found.values.numpy()[:, 0].tolist(), strict=True)) == {7: 2, 2: 1}
    assert found.indices.dtype == no_rows(large).indices.dtype == tf.int64
    assert no_rows(large).values.shape == (0, WIDTH)
    assert isinstance(used_rows(tf.IndexedSlices(gradient.values, [7, 2, 7], small.shape), small), tf.Tensor)
    assert isinstance(used_rows(tf.zeros(large.shape), large), tf.Tensor)


def test_only_an_update_that_says_so_is_given_rows():
    """One of a user's own, which takes signs or norms of gradients, goes on as it was written."""

    class Own(StepSync):
        def update(self, values, model, optimizer):
            return super().update(values, model, optimizer)

    class Knowing(StepSync):
        @takes_slices
        def update(self, values, model, optimizer):
            return super().update(values, model, optimizer)

    class Inherited(StepSync):
        pass

    made = {sync: wants_slices(sync(Alone(), SyncConfig())) for sync in (StepSync, LocalSync, Own, Knowing, Inherited)}
    assert made == {StepSync: True, LocalSync: False, Own: False, Knowing: True, Inherited: True}


def parts_of(nodes, seed):
    """By rank: (the rows' numbers, values) for each of two embeddings; the last node has none of the first."""
    generator = np.random.default_rng(seed)
    parts = []
    for rank in range(nodes):
        sizes = [0 if rank == nodes - 1 else 4 + 9 * rank, 30]
        numbers = [generator.choice(50, size, replace=False) for size in sizes]
        parts.append([(own, generator.normal(size=(len(own), 2)).astype(np.float32)) for own in numbers])
    return parts


def sums_of(collective, parts):
    variables = [tf.Variable(tf.zeros((50, 2))), tf.Variable(tf.zeros(3)), tf.Variable(tf.zeros((50, 2)))]
    first, second = [tf.IndexedSlices(values, tf.constant(numbers)) for numbers, values in parts]
    plain = tf.fill((3,), float(collective.rank))
    sums = summed(collective, [first, plain, second, tf.constant(1.0)], variables)
    return [np.array(found) for found in sums]


def check(parts, found):
    for place, number in ((0, 0), (2, 1)):
        expected = np.zeros((50, 2))
        for own in parts:
            np.add.at(expected, own[number][0], own[number][1].astype(np.float64))
        np.testing.assert_allclose(found[0][place], expected, atol=1e-5)
    nodes = len(parts)
    assert (found[0][1] == nodes * (nodes - 1) / 2).all() and found[0][3] == nodes
    for other in found:
        assert [array.tobytes() for array in other] == [array.tobytes() for array in found[0]]


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_sums_of_rows_are_whole_sums(nodes):
    parts = parts_of(nodes, nodes)

    def work(rank, gather):
        ring = Ring.connect(rank, nodes, "127.0.0.1", b"s", gather, 30)
        found = sums_of(ring, parts[rank])
        ring.close()
        return found

    check(parts, in_threads(nodes, work))
    stage = Stage(nodes)
    stage.set([])
    check(parts, stage.play(lambda rank: sums_of(VirtualCollective(rank, stage), parts[rank])))


def embedded():
    keras.utils.set_random_seed(1)
    inner = [keras.layers.Embedding(TOKENS, WIDTH), keras.layers.Flatten(), keras.layers.Dense(1)]
    return keras.Sequential([keras.layers.Input((LENGTH,)), *inner])


def inputs():
    spec = TensorSpec(name="x", dtype="int32", shape=[LENGTH])
    return Inputs(Description(tensors=[spec], label=LabelSpec(dtype="float32"), preprocessing=FittedPreprocessing()))


def any_float_error(labels, outputs):
    return (outputs[:, 0] - tf.cast(labels, outputs.dtype)) ** 2


def trained(nodes, optimizer, updates=6, rows=12):
    """[(losses, weights, bytes sent)] by rank. Shares are uneven, of every other update one is empty; every other
    update uses the same few rows again and again."""
    generator = np.random.default_rng(4)
    batches = [
        (
            generator.integers(0, TOKENS if update % 2 else 20, (rows, LENGTH)).astype(np.int32),
            generator.normal(size=rows).astype(np.float32),
        )
        for update in range(updates)
    ]
    cuts = {1: ([0, 12], [0, 12]), 2: ([0, 5, 12], [0, 0, 12]), 3: ([0, 5, 9, 12], [0, 0, 9, 12])}[nodes]
    models = [embedded() for _ in range(nodes)]

    def work(rank, gather):
        collective = Alone() if nodes == 1 else Ring.connect(rank, nodes, "127.0.0.1", b"s", gather, 30)
        # Three threads of one process that wait within graphs would need as many of TensorFlow's.
        collective.in_graphs = nodes < 3
        sync = StepSync(collective, SyncConfig())
        step = Step(models[rank], optimizer(), any_float_error, {}, inputs(), sync, collective)
        own = [slice(*cuts[update % 2][rank : rank + 2]) for update in range(updates)]
        x, y = (
            [columns[part] for columns, part in zip(every, own, strict=True)] for every in zip(*batches, strict=True)
        )
        offsets = np.cumsum([0, *map(len, x)])
        losses = step.train(chunk_of(np.concatenate(x), np.concatenate(y), offsets, [rows] * updates))
        collective.close()
        return losses, models[rank].get_weights(), collective.bytes_sent

    return in_threads(nodes, work)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "floats"),
    [
        (lambda: keras.optimizers.SGD(0.1, momentum=0.9), "float32"),
        (lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.5), "float64"),
    ],
    indirect=["floats"],
)
def test_one_two_and_three_nodes_give_the_same_result(optimizer, floats):
    """Momentum and Adam change rows that a mini-batch did not use, too: they are given whole gradients."""
    alone = trained(1, optimizer)[0]
    for nodes in (2, 3):
        found = trained(nodes, optimizer)
        for losses, weights, sent in found:
            np.testing.assert_allclose(losses, alone[0], atol=floats, rtol=0)
            for one, other, first in zip(weights, alone[1], found[0][1], strict=True):
                np.testing.assert_allclose(one, other, atol=floats, rtol=0)
                assert one.tobytes() == first.tobytes()
            # 6 updates of at most 36 rows, and of 1.3 MB (2.6 MB) as a whole.
            assert 0 < sent < 40_000


@pytest.mark.slow
def test_two_nodes_have_the_same_bits_as_with_whole_gradients_and_the_same_twice(monkeypatch):
    def optimizer():
        return keras.optimizers.SGD(0.1, momentum=0.9)

    (_, weights, few), (_, again, _) = (trained(2, optimizer)[0] for _ in range(2))
    monkeypatch.setattr(slices, "LARGE", 1 << 40)
    _, whole, many = trained(2, optimizer)[0]
    assert [weight.tobytes() for weight in weights] == [weight.tobytes() for weight in again]
    assert [weight.tobytes() for weight in weights] == [weight.tobytes() for weight in whole]
    assert many > 6 * TOKENS * WIDTH * 4 and few < many / 500
