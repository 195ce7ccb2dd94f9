"""Variables of 16 bits: what the nodes make of them together, and how a checkpoint holds them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.collectives import Alone
from sparksplit.collectives.ring import Ring
from sparksplit.collectives.virtual import Stage, VirtualCollective
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, StepSync
from sparksplit.training import checkpoints
from sparksplit.training.node.compiled.step import Step
from sparksplit.training.node.state import assign, named
from tests.nodes import in_threads
from tests.training.node.steps import FEATURES, chunk_of, inputs_of, rows

NARROW = pytest.mark.parametrize("dtype", ["bfloat16", "float16"])


def model_of(dtype):
    """With statistics that stay as they are, so that whatever they become is the sync's doing."""
    kept = keras.layers.BatchNormalization(
        momentum=1.0, moving_mean_initializer=keras.initializers.Constant(0.7), dtype=dtype
    )
    return keras.Sequential(
        [keras.layers.Input((FEATURES,)), kept, keras.layers.Dense(1, kernel_initializer="ones", dtype=dtype)]
    )


def error(labels, outputs):
    return tf.square(tf.cast(outputs[:, 0], tf.float32) - labels)


def step_of(model, sync, collective):
    return Step(model, keras.optimizers.SGD(0.05), error, {}, inputs_of(), sync, collective)


def updated(dtype, counts, virtual=False):
    """[(losses, weights as they are)] by rank, after updates on these rows: counts by node, then by update."""
    nodes = len(counts)
    totals = np.sum(counts, axis=0)
    given = [[rows(count, 7 * turn + rank) for turn, count in enumerate(own)] for rank, own in enumerate(counts)]

    def train(step, model, rank):
        x, y = (np.concatenate(parts) for parts in zip(*given[rank], strict=True))
        losses = step.train(chunk_of(x, y, np.cumsum([0, *counts[rank]]), totals))
        return losses, [np.array(variable.numpy()) for variable in model.variables]

    if virtual:
        stage, model = Stage(nodes), model_of(dtype)
        collectives = [VirtualCollective(rank, stage) for rank in range(nodes)]
        first = step_of(model, StepSync(collectives[0], SyncConfig()), collectives[0])
        steps = [first.with_sync(StepSync(each, SyncConfig()), each) for each in collectives]
        stage.set(first.variables())
        return stage.play(lambda rank: train(steps[rank], model, rank))

    models = [model_of(dtype) for _ in range(nodes)]

    def work(rank, gather):
        collective = Alone() if nodes == 1 else Ring.connect(rank, nodes, "127.0.0.1", b"s", gather, 30)
        found = train(step_of(models[rank], StepSync(collective, SyncConfig()), collective), models[rank], rank)
        collective.close()
        return found

    return in_threads(nodes, work)


@NARROW
def test_nodes_agree_in_each_bit_and_statistics_do_not_drift(dtype):
    """A third of 0.7, three times, is not 0.7 in 8 bits. One node has no rows of an update."""
    found = updated(dtype, [(4, 5, 6), (4, 0, 6), (4, 7, 6)])
    losses, weights = found[0]
    assert np.isfinite(losses).all()
    mean = weights[2].astype(np.float32)
    assert (mean == np.float32(tf.cast(0.7, dtype))).all()
    for _, other in found[1:]:
        assert [array.tobytes() for array in other] == [array.tobytes() for array in weights]
    assert {array.dtype.name for array in weights} == {dtype}


@NARROW
def test_two_real_nodes_and_two_virtual_ones_have_the_same_bits(dtype):
    counts = [(4, 5), (3, 9)]
    for (real, weights), (played, others) in zip(updated(dtype, counts), updated(dtype, counts, True), strict=True):
        np.testing.assert_array_equal(real, played)
        assert [array.tobytes() for array in weights] == [array.tobytes() for array in others]


@NARROW
def test_weights_are_averaged_by_many_rows_and_rounded_once(dtype):
    """Times 40,000 rows, most numbers are too large for float16."""
    models = [model_of(dtype) for _ in range(2)]

    def work(rank, gather):
        collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
        sync = LocalSync(collective, SyncConfig(every=1))
        sync.begin(models[rank])
        models[rank].trainable_variables[-2].assign([[5.0], [1.0], [-3.0], [2.0]] if rank else [[1.0]] * FEATURES)
        sync.agree(models[rank], 40_000 if rank else 20_000)
        collective.close()
        return models[rank].trainable_variables[-2].numpy()

    expected = np.array([11 / 3, 1.0, -5 / 3, 5 / 3], np.float32)[:, None]
    for found in in_threads(2, work):
        assert found.tobytes() == expected.astype(found.dtype).tobytes()


@NARROW
def test_a_checkpoint_keeps_every_bit(tmp_path, dtype):
    one, other = model_of(dtype), model_of(dtype)
    one.trainable_variables[-1].assign([1.2345])
    facts = checkpoints._pack(str(tmp_path / "state.npz"), named("v", one.variables))
    assign("v", other.variables, checkpoints._unpack(str(tmp_path / "state.npz"), facts), "here")
    for mine, kept in zip(one.variables, other.variables, strict=True):
        assert mine.numpy().tobytes() == kept.numpy().tobytes()
