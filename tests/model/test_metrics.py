"""Metrics by Keras's names and our own: means over rows, in the labels' own units."""

import numpy as np
import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.model import build
from tests.model.parts import CLASSES, NUMBER, SCALED, SEVERAL, TWO, dense, loss_of, metric_of, parts


def test_accuracy_of_classes():
    outputs = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
    labels = np.array([0, 1, 2, 0])
    expected = {"accuracy": 0.75}
    assert metric_of(CLASSES, 3, outputs, labels, None) == expected
    names = ["accuracy", "sparse_categorical_accuracy", "SparseTopKCategoricalAccuracy"]
    assert list(metric_of(CLASSES, 3, outputs, labels, names)) == names


def test_accuracy_of_one_output_for_two_classes():
    outputs, labels = np.array([[0.9], [0.2], [0.6], [0.4]]), np.array([1, 0, 0, 0])
    assert metric_of(TWO, 1, outputs, labels, None) == {"accuracy": 0.75}


def test_accuracy_of_one_logit_for_two_classes():
    outputs, labels = np.array([[0.3], [-2.0], [0.1], [3.0]]), np.array([1, 0, 0, 1])
    loss = {"name": "BinaryCrossentropy", "from_logits": True}
    assert metric_of(TWO, 1, outputs, labels, None, loss=loss) == {"accuracy": 0.75}


def test_errors_of_numbers_are_means_over_rows():
    outputs, labels = np.array([[1.0], [2.0], [3.0]]), np.array([2.0, 0.0, 3.0], np.float32)
    names = ["mean_absolute_error", "MeanSquaredError", "mse"]
    found = metric_of(NUMBER, 1, outputs, labels, names)
    assert list(found) == names
    assert found["mean_absolute_error"] == pytest.approx(1)
    assert found["MeanSquaredError"] == found["mse"] == pytest.approx(5 / 3)
    assert metric_of(NUMBER, 1, outputs, labels, None) == {"mean_absolute_error": pytest.approx(1)}


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("units", [1, 2])
def test_measures_of_two_classes_from_one_output_or_two(units, logits):
    second, labels = np.array([0.9, 0.2, 0.6, 0.4, 0.7]), np.array([1, 0, 0, 1, 1])
    outputs = second[:, None] if units == 1 else np.stack([1 - second, second], axis=1)
    keys = {}
    if logits:
        outputs = np.log(outputs / (1 - outputs)) if units == 1 else np.log(outputs) + 3
        keys["loss"] = {"name": "BinaryCrossentropy" if units == 1 else "SparseCategoricalCrossentropy"}
        keys["loss"]["from_logits"] = True
    found = metric_of(TWO, units, outputs, labels, ["accuracy", "auc", "precision", "recall", "f1"], **keys)
    shares = {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3}
    assert found == pytest.approx({"accuracy": 0.6, "auc": 5 / 6, **shares})


def test_measures_of_more_classes_are_means_over_them():
    labels, found = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1])
    values = metric_of(CLASSES, 3, np.eye(3)[found], labels, ["precision", "recall", "f1"])
    expected = {"precision": (1 + 1 / 3 + 0) / 3, "recall": (1 / 2 + 1 + 0) / 3, "f1": (2 / 3 + 1 / 2 + 0) / 3}
    assert values == pytest.approx(expected)


@pytest.mark.parametrize(
    ("label", "units", "labels", "outputs"),
    [
        (SCALED, 1, [1000.0, 1004.0, 996.0], [[0.0], [2.0], [-1.0]]),
        (SEVERAL, 2, [[1000.0, -8.0], [1004.0, -7.0], [996.0, -6.0]], [[0.0, 0.0], [2.0, 0.0], [-1.0, 4.0]]),
    ],
)
def test_scaled_labels_are_scaled_for_the_loss_and_outputs_back_for_metrics(label, units, labels, outputs):
    labels = np.array(labels, np.float32)
    wanted = (labels - np.array(label.offset)) * np.array(label.scale)
    errors = np.array(outputs).reshape(labels.shape) - wanted
    per_row = (errors**2).reshape(3, -1).mean(axis=1)
    np.testing.assert_allclose(loss_of(label, units, outputs, labels), per_row, rtol=1e-6)
    own = errors / np.array(label.scale)
    spread = ((labels - labels.mean(axis=0)) ** 2).sum(axis=0)
    expected = {
        "mae": np.abs(own).mean(),
        "mean_absolute_error": np.abs(own).mean(),
        "rmse": np.sqrt((own**2).mean()),
        "r2": np.mean(1 - (own**2).sum(axis=0) / spread),
    }
    found = metric_of(label, units, np.array(outputs), labels, list(expected))
    assert found == pytest.approx(expected, rel=1e-6)


def test_r2_of_numbers_far_from_0_and_of_a_constant():
    labels = (1e6 + np.array([0.0, 1.0, 2.0])).astype(np.float32)
    assert metric_of(NUMBER, 1, labels[:, None] + 0.5, labels, ["r2"])["r2"] == pytest.approx(1 - 0.75 / 2)
    same = np.full(3, 1e6, np.float32)
    assert metric_of(NUMBER, 1, same[:, None], same, ["r2"]) == {"r2": 1.0}
    assert metric_of(NUMBER, 1, same[:, None] + 1, same, ["r2"]) == {"r2": 0.0}


@pytest.mark.parametrize(
    ("label", "units", "name", "message"),
    [
        (CLASSES, 3, "auc", "metrics.0: auc needs two classes; the data set has 3"),
        (CLASSES, 3, "r2", "metrics.0: r2 needs labels that are numbers"),
        (NUMBER, 1, "f1", "metrics.0: f1 needs labels that are classes"),
    ],
)
def test_measures_that_do_not_fit_the_labels(label, units, name, message):
    config, data, inputs = parts(label, metrics=[name])
    with pytest.raises(ConfigError) as caught:
        build.build_metrics(config, data, dense(units), inputs)
    assert str(caught.value).startswith(message)


def test_an_unknown_metric_is_named():
    config, data, inputs = parts(metrics=["accuracy", "accuray"])
    with pytest.raises(ConfigError, match=r"^metrics\.1: Keras knows no 'accuray'; did you mean '"):
        build.build_metrics(config, data, dense(3), inputs)


def test_a_metric_that_the_labels_do_not_fit_is_named():
    config, data, inputs = parts(metrics=["accuracy", "r2_score"])
    with pytest.raises(ConfigError, match=r"^metrics\.1: does not take this model's outputs: .*2D") as caught:
        build.build_metrics(config, data, dense(3), inputs)
    assert "\n" not in str(caught.value)
