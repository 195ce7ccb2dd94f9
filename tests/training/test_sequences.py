"""A label at each position of a row: its loss, its accuracy, and runs of the LSTM on real nodes."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.model import build
from sparksplit.model.description import data_description
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig

LSTM = {"build": "lstm", "params": {"units": [8]}}


def parts(kind="characters"):
    """(config, what a builder is told, inputs) of rows of four tokens, each followed by one of three."""
    label = LabelSpec(dtype="uint8", shape=[4], classes=["a", "b", "c"], kind=kind)
    described = Description(
        tensors=[TensorSpec(name="x", dtype="uint8", shape=[4])], label=label, preprocessing=FittedPreprocessing()
    )
    config = parse(TrainConfig, {"data": "d", "output": "o", "model": LSTM})
    return config, data_description(described, 10), Inputs(described)


def test_loss_and_accuracy_of_each_position():
    config, data, inputs = parts()
    model = build.build_model(config, None, data, inputs)
    values, labels = inputs.decode(
        [tf.constant([[0, 1, 2, 1]] * 2, tf.uint8), tf.constant([[1, 2, 1, 0]] * 2, tf.uint8)]
    )
    outputs = model(values)
    losses = build.build_loss(config, data, model, inputs)(labels, outputs).numpy()
    expected = -np.log(np.take_along_axis(outputs.numpy(), labels.numpy()[..., None], axis=2))[..., 0]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    metric = build.build_metrics(config, data, model, inputs)["accuracy"]
    metric.update_state(labels, outputs)
    right = float((outputs.numpy().argmax(axis=2) == labels.numpy()).mean())
    assert float(metric.result()) == pytest.approx(right)


def test_a_model_with_one_output_a_row_is_refused():
    config, data, inputs = parts()
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, "softmax")])
    with pytest.raises(
        ConfigError, match=r"gives outputs of shape \[3\] per row, but the labels are classes of shape \[4\]"
    ):
        build.build_loss(config, data, model, inputs)


def test_a_model_with_an_output_at_each_position_is_refused_where_rows_have_one_label():
    config, _, _ = parts()
    described = Description(
        tensors=[TensorSpec(name="x", dtype="uint8", shape=[4])],
        label=LabelSpec(dtype="int64", classes=["a", "b", "c"]),
        preprocessing=FittedPreprocessing(),
    )
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Reshape((4, 1)), keras.layers.Dense(3)])
    with pytest.raises(
        ConfigError, match=r"gives outputs of shape \[4, 3\] per row, but the labels are one class per row"
    ):
        build.build_loss(config, data_description(described, 10), model, Inputs(described))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    """200 rows of six tokens of five: each token is followed by one of two."""
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.integers(1, 3, (200, 7)), axis=1) % 5
    x, y = walk[:, :-1].astype(np.uint8), walk[:, 1:]
    folder = tmp_path_factory.mktemp("tokens") / "data"
    splits = {"train": (x[:150], y[:150]), "validation": (x[150:], y[150:]), "test": (x[150:], y[150:])}
    from_arrays(str(folder), splits, lanes=7, classes=5, block_size=1024)
    return folder


def run(data, output, **keys):
    nodes = keys.get("nodes", 1)
    values = {
        "data": str(data), "output": str(output), "strategy": "single" if nodes == 1 else "batch", "model": LSTM,
        "optimizer": {"name": "adadelta", "learning_rate": 1.0}, "batch_size": 16, "epochs": 6, **keys,
    }  # fmt: skip
    return train(parse(TrainConfig, values), Options()).to_json()


@pytest.mark.slow
def test_an_lstm_gives_the_same_on_one_and_two_nodes_and_the_same_bits_from_spark(fed, tokens, tmp_path):
    one = run(tokens, tmp_path / "one")
    assert one["ledger"] == {**one["ledger"], "exact": True, "rows": 900}
    losses = one["metrics"]["train"]["loss"]
    assert losses[-1] < losses[0] and one["metrics"]["validation"]["accuracy"][-1] > 0.4
    fed = run(tokens, tmp_path / "fed", input_mode="spark")
    assert (fed["weights"], fed["metrics"]) == (one["weights"], one["metrics"])
    two = run(tokens, tmp_path / "two", nodes=2)
    np.testing.assert_allclose(two["metrics"]["train"]["loss"], losses, atol=1e-4)
