"""Mini-batches computed in parts: what comes of them is what comes of the whole ones."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.collectives import Alone
from sparksplit.collectives.ring import Ring
from sparksplit.collectives.virtual import Stage, VirtualCollective
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.graphs.weights import Weights
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, StepSync
from sparksplit.training.node.compiled.accumulated import accumulated
from sparksplit.training.node.compiled.step import Step
from tests.nodes import in_threads
from tests.training.node.steps import chunk_of

TOKENS, WIDTH, LENGTH = 70_000, 5, 3
FLOATS = pytest.mark.parametrize("floats", ["float32", "float64"], indirect=True)


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 40), parts=st.integers(1, 9), static=st.booleans())
def test_every_row_is_in_one_part_and_sizes_differ_by_one(rows, parts, static):
    def sizes(share):
        size = tf.shape(share[0])[0]
        return [tf.one_hot(size, 50, dtype=tf.int32), tf.reduce_sum(share[0])]

    spec = tf.TensorSpec([rows if static else None], tf.float64)
    found = tf.function(lambda column: accumulated([column], parts, sizes), input_signature=[spec], autograph=False)
    counts, total = (each.numpy() for each in found(tf.range(rows, dtype=tf.float64)))
    assert total == rows * (rows - 1) / 2
    occurring = np.flatnonzero(counts)
    assert (counts * np.arange(50)).sum() == rows and counts[0] == 0
    assert counts.sum() == min(rows, parts) and np.ptp(occurring) <= 1


def test_sums_of_16_bits_are_rounded_once_and_rows_listed_again_are_summed():
    def values(share):
        ones = tf.ones([2], tf.bfloat16) * tf.cast(share[0][0], tf.bfloat16)
        return [ones, tf.IndexedSlices(tf.ones((1, 2)), tf.constant([3], tf.int64))]

    column = tf.constant([256.0, 1.0, 1.0, 1.0, 1.0])
    narrow, slices = tf.function(lambda: accumulated([column], 5, values), autograph=False)()
    assert narrow.dtype == tf.bfloat16 and narrow.numpy().astype(float).tolist() == [260.0] * 2
    assert slices.indices.numpy().tolist() == [3] and slices.values.numpy().tolist() == [[5.0, 5.0]]


def model_of():
    keras.utils.set_random_seed(1)
    table = keras.layers.Embedding(TOKENS, WIDTH)
    last = keras.layers.Dense(1, kernel_regularizer=keras.regularizers.L2(0.1))
    return keras.Sequential([keras.layers.Input((LENGTH,)), table, keras.layers.Flatten(), last])


def data(updates):
    """Rows of a large table; every other mini-batch uses a few of it again and again."""
    generator = np.random.default_rng(4)
    sizes = [12, 12, 5, 1][:updates]
    return [
        (
            generator.integers(0, TOKENS if update % 2 else 20, (rows, LENGTH)).astype(np.int32),
            generator.normal(size=rows).astype(np.float32),
        )
        for update, rows in enumerate(sizes)
    ]


def error(labels, outputs):
    return (outputs[:, 0] - tf.cast(labels, outputs.dtype)) ** 2


def inputs():
    spec = TensorSpec(name="x", dtype="int32", shape=[LENGTH])
    return Inputs(Description(tensors=[spec], label=LabelSpec(dtype="float32"), preprocessing=FittedPreprocessing()))


def step_of(model, sync, collective, parts):
    optimizer, metrics = keras.optimizers.SGD(0.1, momentum=0.9), {"mae": keras.metrics.MeanAbsoluteError()}
    return Step(model, optimizer, error, metrics, inputs(), sync, collective, accumulate=parts)


def cuts(nodes, rows, update):
    """Where the nodes' shares begin and end: uneven, and sometimes empty."""
    edges = {1: [0, rows], 2: [0, rows // 3, rows], 3: [0, 0 if update % 2 else rows // 4, rows // 2, rows]}
    return edges[nodes]


def trained(nodes, parts, sync_of=StepSync, share=None, virtual=False):
    """[(losses, weights)] by rank: an update of each size, one of fewer rows than parts among them."""
    batches = data(2 if share else 4)
    totals = [len(y) for _, y in batches]

    def train(step, model, sync, rank):
        own = [slice(*cuts(nodes, len(y), update)[rank : rank + 2]) for update, (_, y) in enumerate(batches)]
        x, y = ([columns[part] for columns, part in zip(each, own, strict=True)] for each in zip(*batches, strict=True))
        offsets = np.cumsum([0, *map(len, x)])
        local = totals if sync.every_step else np.diff(offsets)
        sync.begin(model)
        losses = step.train(chunk_of(np.concatenate(x), np.concatenate(y), offsets, local, share))
        step.synchronise(int(offsets[-1]))
        return losses, [*model.get_weights(), np.array(step.metric_results()["mae"])]

    if virtual:
        stage, model = Stage(nodes), model_of()
        collectives = [VirtualCollective(rank, stage) for rank in range(nodes)]
        syncs = [sync_of(each, SyncConfig()) for each in collectives]
        first = step_of(model, syncs[0], collectives[0], parts)
        steps = [first.with_sync(sync, each) for sync, each in zip(syncs, collectives, strict=True)]
        stage.set(first.variables())
        return stage.play(lambda rank: train(steps[rank], model, syncs[rank], rank))

    models = [model_of() for _ in range(nodes)]

    def work(rank, gather):
        collective = Alone() if nodes == 1 else Ring.connect(rank, nodes, "127.0.0.1", b"s", gather, 30)
        # Threads of one process that wait within graphs would need as many of TensorFlow's.
        collective.in_graphs = nodes < 3
        sync = sync_of(collective, SyncConfig())
        found = train(step_of(models[rank], sync, collective, parts), models[rank], sync, rank)
        collective.close()
        return found

    return in_threads(nodes, work)


@pytest.mark.parametrize("floats", ["float64"], indirect=True)
@pytest.mark.slow
def test_parts_of_any_number_give_the_whole_mini_batchs_result(floats):
    """Also where the last mini-batch has fewer rows than there are parts, on every number of nodes."""
    losses, weights = trained(1, 1)[0]
    for nodes, parts in ((1, 5), (2, 4), (3, 3)):
        found = trained(nodes, parts)
        for own, others in found:
            np.testing.assert_allclose(own, losses, atol=floats, rtol=0)
            for one, other, first in zip(others, weights, found[0][1], strict=True):
                np.testing.assert_allclose(one, other, atol=floats, rtol=0)
                assert one.tobytes() == first.tobytes()


@pytest.mark.slow
@FLOATS
def test_parts_of_known_sizes_give_the_same(floats):
    """12 rows in 4 parts of 3 are known when the graph is made, in 5 parts they are not."""
    losses, weights = trained(1, 1, share=12)[0]
    for parts in (4, 5, 12):
        found, others = trained(1, parts, share=12)[0]
        np.testing.assert_allclose(found, losses, atol=floats, rtol=0)
        for one, other in zip(others, weights, strict=True):
            np.testing.assert_allclose(one, other, atol=floats, rtol=0)


@pytest.mark.parametrize("floats", ["float32"], indirect=True)
@pytest.mark.slow
def test_virtual_nodes_and_nodes_with_gradients_of_their_own_give_the_same(floats):
    for sync_of, virtual in ((StepSync, True), (LocalSync, False)):
        whole, parts = (trained(2, number, sync_of, virtual=virtual) for number in (1, 4))
        for (losses, weights), (found, others) in zip(whole, parts, strict=True):
            np.testing.assert_allclose(found, losses, atol=floats, rtol=0)
            for one, other in zip(others, weights, strict=True):
                np.testing.assert_allclose(one, other, atol=floats, rtol=0)


def test_rows_with_weights_count_by_them_whatever_part_they_are_in():
    (x, y), *_ = data(1)
    spec = [TensorSpec(name="x", dtype="int32", shape=[LENGTH]), TensorSpec(name="weight", dtype="float32", shape=[])]
    description = Description(tensors=spec, label=LabelSpec(dtype="float32"), preprocessing=FittedPreprocessing())
    weight = np.array([0, 0, 0, *range(1, 10)], np.float32)  # the first part weighs nothing
    found = []
    for parts in (1, 4):
        model, alone = model_of(), Alone()
        made = keras.optimizers.SGD(0.1), error, {}, Inputs(description), StepSync(alone, SyncConfig()), alone
        chunk = chunk_of(x, y, [0, 12])
        chunk.tensors.append(weight)
        losses = Step(model, *made, Weights(description, None), accumulate=parts).train(chunk)
        found.append(np.concatenate([losses, *map(np.ravel, model.get_weights())]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_statistics_are_those_after_the_last_part_by_the_nodes_rows():
    """BatchNorm sees each part by itself, which is what it costs."""

    def normed():
        keras.utils.set_random_seed(1)
        layers = [keras.layers.BatchNormalization(momentum=0.5), keras.layers.Dense(1)]
        return keras.Sequential([keras.layers.Input((LENGTH,)), *layers])

    (x, y), *_ = data(1)
    models = [normed(), normed()]

    def work(rank, gather):
        collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
        own = slice(0, 4) if rank == 0 else slice(4, 12)
        step = step_of(models[rank], StepSync(collective, SyncConfig()), collective, 2)
        step.train(chunk_of(x[own], y[own], [0, len(x[own])], [12]))
        collective.close()

    in_threads(2, work)
    rows = x.astype(float)
    means = [0.25 * rows[a:b].mean(0) + 0.5 * rows[b:c].mean(0) for a, b, c in ((0, 2, 4), (4, 8, 12))]
    for model in models:
        found = model.layers[0].moving_mean.numpy()
        np.testing.assert_allclose(found, (4 * means[0] + 8 * means[1]) / 12, rtol=1e-5)
