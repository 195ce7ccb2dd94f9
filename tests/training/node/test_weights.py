"""Weights of rows and classes: updates on one to three nodes, real rings and virtual ones, against plain NumPy."""

import math

import keras
import numpy as np
import pytest

from sparksplit.base.memory import aligned
from sparksplit.collectives import Alone
from sparksplit.collectives.base import NumPyCollective
from sparksplit.collectives.ring import Ring
from sparksplit.collectives.virtual import Stage, VirtualCollective
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.graphs.weights import Weights
from sparksplit.model.own_metrics import Auc, ByClass
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.ledger import Entry
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import LocalSync, StepSync
from sparksplit.training.node.compiled.step import Step
from sparksplit.training.node.jackknife import jackknife
from tests.nodes import in_threads

BY_CLASS, RATE, FEATURES = [1.0, 3.0, 0.25], 0.05, 4
DESCRIPTION = Description(
    tensors=[
        TensorSpec(name="x", dtype="float32", shape=[FEATURES]),
        TensorSpec(name="weight", dtype="float32", shape=[]),
    ],
    label=LabelSpec(classes=["a", "b", "c"], dtype="int64"),
    preprocessing=FittedPreprocessing(),
)
INPUTS = Inputs(DESCRIPTION)
UPDATES = [[(7,), (5,)], [(100, 300), (5, 0), (0, 9)], [(3, 0, 8), (1, 1, 1), (0, 6, 0)]]
"""By number of nodes: rows of each mini-batch on each node."""


def squared_error(labels, outputs):
    return (outputs[:, 0] - keras.ops.cast(labels, outputs.dtype)) ** 2


def linear():
    regular = keras.regularizers.L2(0.5)
    dense = keras.layers.Dense(1, kernel_initializer="ones", kernel_regularizer=regular)
    return keras.Sequential([keras.layers.Input((FEATURES,)), dense])


def rows(count, seed):
    """(x, weight, label)"""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(count, FEATURES)).astype(np.float32)
    return x, generator.random(count).astype(np.float32), generator.integers(0, 3, count)


def step_of(model, collective, metrics=(), weights=None, sync=StepSync):
    weights = weights or Weights(DESCRIPTION, BY_CLASS)
    sgd = keras.optimizers.SGD(RATE)
    return Step(model, sgd, squared_error, dict(metrics), INPUTS, sync(collective, SyncConfig()), collective, weights)


def chunk_of(shares, totals=None):
    """The chunk of one node's shares (x, weight, label) of some mini-batches. totals: rows of these on all nodes."""
    x, weight, label = (np.concatenate(parts) for parts in zip(*shares, strict=True))
    offsets = np.cumsum([0, *(len(share[0]) for share in shares)])
    totals = np.diff(offsets) if totals is None else totals
    return Chunk(0, [x, weight], label, offsets.astype(np.int64), np.asarray(totals, np.int64), Entry(len(x), 0), None)


def numpy_updates(batches, by_rows=False):
    """(losses, kernel, bias). by_rows: divide by the number of rows, not by the sum of their weights"""
    kernel, bias, losses = np.ones(FEATURES), 0.0, []
    for x, own, label in batches:
        weight = own * np.array(BY_CLASS)[label]
        error = x @ kernel + bias - label
        divisor = len(x) if by_rows else weight.sum()
        losses.append((weight * error**2).sum() / divisor + 0.5 * (kernel**2).sum())
        # The regularisation is no row's, so it is not divided.
        gradient = 2 * x.T @ (weight * error) / divisor + kernel
        kernel, bias = kernel - RATE * gradient, bias - RATE * 2 * (weight * error).sum() / divisor
    return losses, kernel, bias


def shares_of(counts):
    """(by update the whole mini-batch; by node its shares; by update all nodes' rows)"""
    updates = [[rows(count, 10 * k + node) for node, count in enumerate(per_node)] for k, per_node in enumerate(counts)]
    batches = [tuple(map(np.concatenate, zip(*update, strict=True))) for update in updates]
    return batches, list(zip(*updates, strict=True)), [sum(per_node) for per_node in counts]


def check(found, batches, by_rows=False):
    losses, kernel, bias = numpy_updates(batches, by_rows)
    for found_losses, (found_kernel, found_bias) in found:
        np.testing.assert_allclose(found_losses, losses, rtol=1e-4)
        np.testing.assert_allclose(found_kernel[:, 0], kernel, rtol=1e-4)
        np.testing.assert_allclose(found_bias[0], bias, rtol=1e-3, atol=1e-5)
        assert found_kernel.tobytes() == found[0][1][0].tobytes()


@pytest.mark.parametrize("reduction", ["mean_with_sample_weight", "sum_over_batch_size"])
@pytest.mark.parametrize("counts", UPDATES)
def test_weighted_updates_are_those_of_numpy_on_the_joined_rows(counts, reduction):
    """Invariant 1 with weights: shares are uneven in rows and in weight, and some are empty."""
    weights = Weights(DESCRIPTION, BY_CLASS, reduction)
    batches, shares, totals = shares_of(counts)
    models = [linear() for _ in shares]

    def work(rank, gather):
        nodes = len(shares)
        collective = Alone() if nodes == 1 else Ring.connect(rank, nodes, "127.0.0.1", b"s", gather, 30)
        losses = step_of(models[rank], collective, weights=weights).train(chunk_of(shares[rank], totals))
        collective.close()
        return losses, models[rank].get_weights()

    check(in_threads(len(shares), work), batches, by_rows=reduction == "sum_over_batch_size")


def test_evaluation_divides_by_rows_where_the_reduction_says_so():
    x, weight, label = rows(50, 7)
    step = step_of(linear(), Alone(), weights=Weights(DESCRIPTION, BY_CLASS, "sum_over_batch_size"))
    losses = (x.sum(axis=1) - label) ** 2
    found = step.evaluate([chunk_of([(x, weight, label)])])
    np.testing.assert_allclose(found.loss, (weight * losses).mean(), rtol=1e-5)


def test_virtual_nodes_divide_by_all_nodes_weights_too():
    batches, shares, totals = shares_of(UPDATES[2])
    model, stage = linear(), Stage(3)
    first = step_of(model, VirtualCollective(0, stage))
    others = [VirtualCollective(rank, stage) for rank in (1, 2)]
    steps = [first, *(first.with_sync(StepSync(other, SyncConfig()), other) for other in others)]
    stage.set(first.variables())

    def node(rank):
        losses = steps[rank].train(chunk_of(shares[rank], totals))
        return losses, model.get_weights()

    check(stage.play(node), batches)


class Overwriting(NumPyCollective):
    """The sums of two nodes of which the other has nothing, in buffers that are used again as soon as they may be."""

    def __init__(self):
        super().__init__(0, 2)
        self._buffers = [aligned((1 << 20,), np.uint8) for _ in range(2)]  # which TensorFlow reads where they are

    def _sum(self, arrays):
        self._buffers.reverse()
        buffer, begin, results = self._buffers[0], 0, []
        buffer[:] = 0x47  # as a float32, 51,015.3
        for array in arrays:
            result = buffer[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
            result[...] = array
            results.append(result)
            begin += -(-array.nbytes // 64) * 64
        return results

    def close(self):
        return


def test_losses_are_divided_by_the_weights_also_where_rows_of_large_embeddings_travel():
    """In three exchanges more, which overwrite the sum of the weights."""

    def embedding():
        keras.utils.set_random_seed(1)
        columns = [keras.layers.Input((FEATURES,)), keras.layers.Embedding(70_000, 4), keras.layers.Flatten()]
        return keras.Sequential([*columns, keras.layers.Dense(1)])

    shares = [rows(8, seed) for seed in range(3)]
    shares = [(np.abs(x * 1000), weight, label) for x, weight, label in shares]
    alone, two = (step_of(embedding(), collective).train(chunk_of(shares)) for collective in (Alone(), Overwriting()))
    np.testing.assert_allclose(two, alone, rtol=1e-5)


def test_a_node_that_trains_by_itself_divides_by_its_own_weights():
    _, shares, _ = shares_of([(6, 9)])
    models = [linear() for _ in shares]

    def work(rank, gather):
        collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
        losses = step_of(models[rank], collective, sync=LocalSync).train(chunk_of(shares[rank]))
        collective.close()
        return losses, models[rank].get_weights()

    for found, share in zip(in_threads(2, work), shares, strict=True):
        check([found], share)


def test_labels_that_are_no_class_weigh_nothing():
    """A loss may ignore such a label: `ignore_class: -1`."""
    x, weight, _ = rows(4, 1)
    found = Weights(DESCRIPTION, BY_CLASS).training([x, weight, np.array([-1, 1, 2, 255])])
    np.testing.assert_array_equal(found.numpy(), weight * np.array([0, 3, 0.25, 0], np.float32))


def test_a_mini_batch_that_weighs_nothing_changes_nothing():
    x, weight, label = rows(8, 1)
    model = keras.Sequential([keras.layers.Input((FEATURES,)), keras.layers.Dense(1, kernel_initializer="ones")])
    losses = step_of(model, Alone()).train(chunk_of([(x, 0 * weight, label)]))
    assert losses.tolist() == [0.0]
    assert model.get_weights()[0].tolist() == [[1.0]] * FEATURES


@pytest.mark.parametrize("reduction", ["mean_with_sample_weight", "sum_over_batch_size"])
@pytest.mark.parametrize("in_metrics", [True, False])
def test_validation_rows_that_weigh_nothing_have_no_loss_and_no_weighted_metric(reduction, in_metrics):
    """Early stopping would take an error of 0 for the best there can be."""
    x, weight, label = rows(8, 1)
    weights = Weights(DESCRIPTION, BY_CLASS, reduction, in_metrics)
    step = step_of(linear(), Alone(), {"mse": keras.metrics.MeanSquaredError()}, weights)
    found = step.evaluate([chunk_of([(x, 0 * weight, label)])])
    squares = (x.sum(axis=1) - label) ** 2
    assert math.isnan(found.loss)
    assert found.metrics["mse"] == pytest.approx(math.nan if in_metrics else squares.mean(), rel=1e-4, nan_ok=True)


@pytest.mark.parametrize("reduction", ["mean_with_sample_weight", "sum_over_batch_size"])
@pytest.mark.parametrize("in_metrics", [True, False])
def test_each_lane_counts_in_loss_and_metric_as_their_divisors_count_it(reduction, in_metrics):
    """The loss and the metric here are means of the same numbers, by weight or by rows."""
    x, weight, label = rows(60, 5)
    lanes, squares = np.arange(60) % 7, (x.sum(axis=1) - label) ** 2
    weight = np.where(lanes < 3, 9 * weight, weight)
    step = step_of(
        linear(),
        Alone(),
        {"mse": keras.metrics.MeanSquaredError()},
        Weights(DESCRIPTION, None, reduction, in_metrics),
    )
    chunks = [
        (lane, [chunk_of([(x[lanes == lane], weight[lanes == lane], label[lanes == lane])])]) for lane in range(7)
    ]
    found = step.jackknife(chunks, 7)

    def expected(values, sizes):
        sums = [(np.array((values * sizes)[lanes == lane].sum()), sizes[lanes == lane].sum()) for lane in range(7)]
        by_lane = [(lane, {"": [total, np.array(size)]}) for lane, (total, size) in enumerate(sums)]
        nothing = {"": [np.zeros(()), np.zeros(())]}
        return jackknife(by_lane, nothing, 7, lambda _, sums: float(sums[0] / sums[1]), Alone())[""]

    once, by_rows = np.ones(60), reduction == "sum_over_batch_size"
    losses = expected(weight * squares, once) if by_rows else expected(squares, weight)
    assert found["loss"] == pytest.approx(losses, rel=1e-3)
    assert found["mse"] == pytest.approx(expected(squares, weight if in_metrics else once), rel=1e-3)


def test_training_metrics_count_all_weights_and_evaluation_those_of_rows():
    shares = [rows(10, 5), rows(31, 6)]
    models = [linear() for _ in shares]

    def work(rank, gather):
        collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
        metrics = {"mse": keras.metrics.MeanSquaredError()}
        step = step_of(models[rank], collective, metrics)
        step.train(chunk_of([shares[rank]], [41]))
        trained = step.metric_results()["mse"]
        models[rank].set_weights([np.ones((FEATURES, 1)), np.zeros(1)])
        found = step.evaluate([chunk_of([shares[rank]])])
        collective.close()
        return trained, found.loss, found.metrics["mse"], found.rows

    x, weight, label = (np.concatenate(parts) for parts in zip(*shares, strict=True))
    # The metric is Keras's of outputs [rows, 1] and labels [rows].
    squares = (x @ np.ones(FEATURES) - label) ** 2
    every = weight * np.array(BY_CLASS)[label]
    expected = [(squares * each).sum() / each.sum() for each in (every, weight, weight)]
    for found in in_threads(2, work):
        assert found == pytest.approx([*expected, 41], rel=1e-4)


def test_metrics_count_each_row_once_if_weights_are_for_the_loss():
    x, weight, label = rows(50, 7)
    weights = Weights(DESCRIPTION, BY_CLASS, in_metrics=False)
    step = step_of(linear(), Alone(), {"mse": keras.metrics.MeanSquaredError()}, weights)
    squares = (x.sum(axis=1) - label) ** 2
    found = step.evaluate([chunk_of([(x, weight, label)])])
    assert found.loss == pytest.approx((weight * squares).sum() / weight.sum(), rel=1e-4)
    assert found.metrics["mse"] == pytest.approx(squares.mean(), rel=1e-4)
    step.train(chunk_of([(x, weight, label)]))
    assert step.metric_results()["mse"] == pytest.approx(squares.mean(), rel=1e-4)


@pytest.mark.parametrize("units", [1, 2])
def test_measures_of_classes_are_sums_over_nodes(units):
    """Those of two nodes together are those of one node with all rows, and so are weights and repeated rows."""
    random = np.random.default_rng(2)
    label, second = random.integers(0, 2, 60), random.random(60)
    outputs = second[:, None] if units == 1 else np.stack([1 - second, second], axis=1)
    weight = random.integers(0, 3, 60)

    def metrics():
        return {"auc": Auc(False), **{name: ByClass(name, 2, False) for name in ("precision", "recall", "f1")}}

    def results(which, weighted):
        found = metrics()
        for metric in found.values():
            for part in np.array_split(which, 2):
                weights = {"sample_weight": weight[part].astype(np.float32)} if weighted else {}
                metric.update_state(label[part], outputs[part].astype(np.float32), **weights)
        return found

    repeated = results(np.repeat(np.arange(60), weight), False)
    for name, metric in results(np.arange(60), True).items():
        assert metric.result() == pytest.approx(repeated[name].result(), rel=1e-12)
    from sparksplit.training.node.compiled.metrics import Metrics

    def work(rank, gather):
        collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
        found = Metrics(results(np.arange(60)[slice(0, 13) if rank == 0 else slice(13, 60)], False)).results(collective)
        collective.close()
        return found

    whole = {name: metric.result() for name, metric in results(np.arange(60), False).items()}
    assert in_threads(2, work) == [pytest.approx(whole, rel=1e-12)] * 2
