"""Updates on one, two and three nodes, as threads with a real ring, against plain NumPy."""

import keras
import numpy as np
import pytest

from sparksplit.collectives import Alone
from sparksplit.collectives.ring import Ring
from sparksplit.dataset.description import Description, FittedPreprocessing, TensorPreprocessing, TensorSpec
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import StepSync
from sparksplit.training.node.compiled.step import Step
from tests.nodes import in_threads
from tests.training.node.steps import FEATURES, chunk_of, inputs_of, rows, squared_error


def linear(extra=()):
    return keras.Sequential([keras.layers.Input((FEATURES,)), *extra, keras.layers.Dense(1, kernel_initializer="ones")])


def step_of(model, optimizer, collective, metrics=()):
    return Step(
        model, optimizer, squared_error, dict(metrics), inputs_of(), StepSync(collective, SyncConfig()), collective
    )


def run_nodes(shares, rate=0.1, extra=list, momentum=0.0):
    """[(losses, weights, model)] by rank after the updates of `shares`: per node a list of (x, y)."""
    nodes = len(shares)
    totals = np.sum([[len(x) for x, _ in own] for own in shares], axis=0)
    models = [linear(extra()) for _ in range(nodes)]

    def work(rank, gather):
        collective = Alone() if nodes == 1 else Ring.connect(rank, nodes, "127.0.0.1", b"s", gather, 30)
        step = step_of(models[rank], keras.optimizers.SGD(rate, momentum), collective)
        x = np.concatenate([x for x, _ in shares[rank]])
        y = np.concatenate([y for _, y in shares[rank]])
        losses = step.train(chunk_of(x, y, np.cumsum([0, *(len(x) for x, _ in shares[rank])]), totals))
        collective.close()
        return losses, [weight.copy() for weight in models[rank].get_weights()], models[rank]

    return in_threads(nodes, work)


def numpy_updates(batches, rate=0.1, momentum=0.0):
    kernel, bias, losses = np.ones(FEATURES), 0.0, []
    speed, bias_speed = np.zeros(FEATURES), 0.0
    for x, y in batches:
        error = x @ kernel + bias - y
        losses.append((error**2).mean())
        speed = momentum * speed - rate * 2 * x.T @ error / len(x)
        bias_speed = momentum * bias_speed - rate * 2 * error.mean()
        kernel, bias = kernel + speed, bias + bias_speed
    return losses, kernel, bias


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("counts", [[(7,), (5,)], [(100, 300), (5, 0), (0, 9)], [(3, 0, 8), (1, 1, 1), (0, 6, 0)]])
def test_updates_are_those_of_numpy_on_the_joined_rows(counts, momentum):
    """Uneven and empty shares: gradients are weighted by rows, so who holds a row does not matter."""
    updates = [[rows(count, 10 * k + node) for node, count in enumerate(per_node)] for k, per_node in enumerate(counts)]
    batches = [tuple(map(np.concatenate, zip(*update, strict=True))) for update in updates]
    losses, kernel, bias = numpy_updates(batches, momentum=momentum, rate=0.05)
    shares = [list(share) for share in zip(*updates, strict=True)]
    results = run_nodes(shares, momentum=momentum, rate=0.05)
    for found_losses, (found_kernel, found_bias), _ in results:
        np.testing.assert_allclose(found_losses, losses, rtol=1e-4)
        np.testing.assert_allclose(found_kernel[:, 0], kernel, rtol=1e-4)
        np.testing.assert_allclose(found_bias[0], bias, rtol=1e-3, atol=1e-5)
        assert found_kernel.tobytes() == results[0][1][0].tobytes()


def test_gradients_are_those_of_the_updates_and_change_no_weight():
    model, sgd = linear(), keras.optimizers.SGD(0.1)
    step = step_of(model, sgd, Alone())
    chunk = chunk_of(*rows(12, seed=3), [0, 5, 12])
    before = model.get_weights()
    first, second = step.gradients(chunk)
    assert all(map(np.array_equal, model.get_weights(), before))
    batches = [(chunk.tensors[0][begin:end], chunk.label[begin:end]) for begin, end in ((0, 5), (5, 12))]
    for gradients, batch in ((first, batches[0]), (second, batches[1])):
        _, kernel, bias = numpy_updates([batch])
        np.testing.assert_allclose(gradients[0][:, 0], (np.ones(FEATURES) - kernel) / 0.1, rtol=1e-4)
        np.testing.assert_allclose(gradients[1], -bias / 0.1, rtol=1e-4)


def test_an_average_of_100_and_300_rows_is_weighted_by_rows():
    """Invariant 5, on BatchNorm's statistics: (100 * m1 + 300 * m2) / 400, and not (m1 + m2) / 2."""
    (x1, y1), (x2, y2) = rows(100, 1), rows(300, 2)
    x1, x2 = x1 + 5, x2 - 1
    extra = lambda: [keras.layers.BatchNormalization(momentum=0.0)]  # noqa: E731
    results = run_nodes([[(x1, y1)], [(x2, y2)]], extra=extra, rate=0.0)
    expected = (100 * x1.mean(axis=0) + 300 * x2.mean(axis=0)) / 400
    for _, _, model in results:
        np.testing.assert_allclose(model.layers[0].moving_mean.numpy(), expected, rtol=1e-4)


def test_regularisation_counts_once_per_mini_batch():
    def regularised():
        return keras.Sequential(
            [
                keras.layers.Input((FEATURES,)),
                keras.layers.Dense(1, kernel_initializer="ones", kernel_regularizer=keras.regularizers.L2(0.5)),
            ]
        )

    x, y = rows(12, 3)
    weights = []
    for cut in (12, 5):
        models = [regularised(), regularised()]

        def work(rank, gather, models=models, cut=cut):
            collective = Ring.connect(rank, 2, "127.0.0.1", b"s", gather, 30)
            step = step_of(models[rank], keras.optimizers.SGD(0.1), collective)
            part = slice(0, cut) if rank == 0 else slice(cut, 12)
            loss = step.train(chunk_of(x[part], y[part], [0, len(x[part])], [12]))
            collective.close()
            return loss[0]

        losses = in_threads(2, work)
        expected = ((x @ np.ones(FEATURES) - y) ** 2).mean() + 0.5 * FEATURES
        assert losses[0] == losses[1] == pytest.approx(expected, rel=1e-5)
        weights.append(models[0].get_weights()[0])
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5)


def test_shares_known_to_be_even_change_nothing():
    x, y = rows(24, 7)
    found = []
    for share in (None, 8):
        model = linear()
        losses = step_of(model, keras.optimizers.SGD(0.1), Alone()).train(chunk_of(x, y, [0, 8, 16, 24], share=share))
        found.append((losses, model.get_weights()[0]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)


def test_evaluation_is_over_all_nodes_rows():
    shares = [rows(10, 5), rows(31, 6), (np.zeros((0, FEATURES), np.float32), np.zeros(0, np.float32))]
    models = [linear() for _ in shares]

    def work(rank, gather):
        collective = Ring.connect(rank, 3, "127.0.0.1", b"s", gather, 30)
        metric = keras.metrics.MeanSquaredError()
        step = step_of(models[rank], keras.optimizers.SGD(0.1), collective, {"mse": metric})
        x, y = shares[rank]
        found = step.evaluate([chunk_of(x, y[:, None][:, 0], [0, len(x) // 2, len(x)])])
        collective.close()
        return found

    x, y = (np.concatenate(parts) for parts in zip(*shares, strict=True))
    expected = ((x @ np.ones(FEATURES) - y) ** 2).mean()
    for found in in_threads(3, work):
        assert found.rows == 41
        assert found.loss == pytest.approx(expected, rel=1e-5)


def test_stored_values_become_the_models_input():
    fitted = FittedPreprocessing(tensors={"x": TensorPreprocessing(offset=[1, 2], scale=0.5, impute=[7, 8])})
    tensors = [TensorSpec(name="x", dtype="float32", shape=[2]), TensorSpec(name="z", dtype="uint8", shape=[])]
    inputs = Inputs(Description(tensors=tensors, label=None, preprocessing=fitted))
    x = np.array([[3.0, np.nan], [np.nan, 2.0]], np.float32)
    decoded, label = inputs.decode([x, np.array([4, 5], np.uint8)])
    np.testing.assert_array_equal(decoded["x"], fitted.apply("x", x))
    assert decoded["z"].numpy().tolist() == [4.0, 5.0]
    assert label is None


@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_noticed(spoilt):
    model = linear()
    step = step_of(model, keras.optimizers.SGD(0.1), Alone())
    assert step.is_finite()
    model.trainable_variables[0].assign([[1.0], [spoilt], [0.0], [0.0]])
    assert not step.is_finite()


def copied(device):
    """(the step, where its rows were, its losses and weights) after two updates with rows copied to `device`."""
    model = linear()
    step = step_of(model, keras.optimizers.SGD(0.1), Alone())
    step._device = device or step._device
    chunk = chunk_of(*rows(10, 5), [0, 4, 10])
    places = [column.device for column in step._on_device(chunk)]
    losses = step.train(chunk)
    assert step.warmup > 0 and step.copying > 0
    return step, places, np.concatenate([losses, *map(np.ravel, model.get_weights())])


def test_rows_are_copied_to_the_device_once_for_many_updates():
    """No GPU here: the processor, by name, stands for one."""
    (_, _, here), (_, places, there) = copied(None), copied("/device:CPU:0")
    assert all(place.endswith("CPU:0") for place in places)
    np.testing.assert_array_equal(here, there)


def test_a_loss_of_many_rows_is_summed_in_float64():
    """In float32 the second sum is the first one: 2^24 and 1."""
    step = step_of(linear(), keras.optimizers.SGD(), Alone())
    labels = np.array([4096.0] + [1.0] * 100, np.float32)
    chunk = chunk_of(np.zeros((101, FEATURES), np.float32), labels, np.arange(102))
    assert step.evaluate([chunk]).loss == pytest.approx((2**24 + 100) / 101, rel=1e-12)


@pytest.mark.gpu
def test_rows_are_copied_to_a_gpu_before_the_updates():
    step, places, _ = copied(None)
    assert step._device.endswith("GPU:0") and all(place.endswith("GPU:0") for place in places)
