"""Metrics by Keras's names and our own: means over rows, in the labels' own units."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.errors import ConfigError
from sparksplit.base.measures import of_classes
from sparksplit.dataset.description import WEIGHT, TensorSpec
from sparksplit.inference.scores import ClassScores
from sparksplit.inference.trained import log_probabilities, probabilities
from sparksplit.model import build, metric_kinds
from sparksplit.model.keras_names import OWN
from tests.model.parts import CLASSES, NUMBER, NUMBERS, SCALED, SEVERAL, TWO, dense, loss_of, metric_of, parts

NUMBER_64 = NUMBER.model_copy(update={"dtype": "float64"})


@pytest.mark.parametrize("classes", [2, 3])
def test_measures_of_classes_are_nan_without_rows(classes):
    assert all(math.isnan(value) for value in of_classes(*[[0.0] * classes] * 3).values())


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


@pytest.mark.parametrize("name", ["BinaryCrossentropy", "mine>Focal"])
def test_accuracy_of_one_logit_for_two_classes(name):
    outputs, labels = np.array([[0.3], [-2.0], [0.1], [3.0]]), np.array([1, 0, 0, 1])
    loss = {"name": name, "from_logits": True}
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
    with pytest.raises(ConfigError, match=r"^metrics\.1: Keras has no 'accuray'; did you mean '"):
        build.build_metrics(config, data, dense(3), inputs)


def test_a_metric_that_does_not_take_what_the_model_gives_is_named(monkeypatch):
    """One that no table knows, as a later Keras may have."""
    monkeypatch.setattr(build, "misfit", lambda name, place: None)
    config, data, inputs = parts(metrics=["accuracy", "mse"])
    with pytest.raises(ConfigError, match=r"^metrics\.1: does not take this model's outputs: ") as caught:
        build.build_metrics(config, data, dense(3), inputs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("label", "units", "name", "message"),
    [
        (TWO, 1, "top_k_categorical_accuracy", "is for several numbers a row; .* one output for .*: use accuracy"),
        (TWO, 1, "F1Score", "is for several numbers a row; .*: use f1"),
        (TWO, 1, "sparse_categorical_accuracy", "is for an output for each class; .*: use accuracy"),
        (TWO, 2, "categorical_accuracy", "is for several numbers a row; .* an output for each class: use accuracy"),
        (TWO, 2, "binary_accuracy", ".*: use accuracy"),
        (TWO, 2, "mse", ".*: use accuracy"),
        (CLASSES, 3, "CategoricalCrossentropy", ".*: use sparse_categorical_crossentropy"),
        (CLASSES, 3, "MeanIoU", "needs arguments, which `metrics` cannot give: use accuracy"),
        (CLASSES, 3, "Mean", "does not compare outputs with labels; .*: use accuracy"),
        (NUMBER, 1, "accuracy", "is for one output for two classes or .*: use mean_absolute_error"),
        (NUMBER, 1, "cosine_similarity", "is for several numbers a row; .*: use mean_absolute_error"),
        (NUMBER, 1, "PearsonCorrelation", "is for several numbers a row"),
        (NUMBERS, 2, "sparse_top_k_categorical_accuracy", "is for an output for each class"),
    ],
)
def test_a_metric_that_is_not_for_such_labels_is_refused_and_one_that_fits_is_named(label, units, name, message):
    config, data, inputs = parts(label, metrics=[name])
    with pytest.raises(ConfigError, match=f"^metrics\\.0: {name} {message}"):
        build.build_metrics(config, data, dense(units), inputs)


def test_each_metric_of_keras_is_for_some_labels_or_refused():
    from keras.src.metrics import ALL_OBJECTS_DICT

    places = (metric_kinds.ONE, metric_kinds.EACH, metric_kinds.NUMBER, metric_kinds.NUMBERS)
    for name in ALL_OBJECTS_DICT:
        said = [metric_kinds.misfit(name, place) for place in places]
        assert any(said) or metric_kinds.plain(name) in OWN, f"{name}: nothing is known of it"
        assert None in said or all("needs arguments" in one or "does not compare" in one for one in said)


@pytest.mark.parametrize(
    ("label", "units", "place"),
    [
        (TWO, 1, metric_kinds.ONE),
        (TWO, 2, metric_kinds.EACH),
        (NUMBER, 1, metric_kinds.NUMBER),
        (NUMBERS, 2, metric_kinds.NUMBERS),
    ],
)
def test_whatever_fits_is_a_sum_over_rows_in_float64(label, units, place):
    from keras.src.metrics import ALL_OBJECTS_DICT

    names = sorted({found.__name__ for found in ALL_OBJECTS_DICT.values()} | OWN)
    names = [name for name in names if metric_kinds.misfit(name, place) is None]
    config, data, inputs = parts(label, metrics=names)
    for name, metric in build.build_metrics(config, data, dense(units), inputs).items():
        assert {variable.dtype for variable in metric.variables} <= {"float64", tf.float64}, name


def test_what_depends_on_how_rows_are_cut_is_refused(monkeypatch):
    """A metric that counts batches."""
    monkeypatch.setattr(build, "keras_metric", lambda made, probable: (_Batches(), None))
    config, data, inputs = parts(NUMBER, metrics=["mae"])
    with pytest.raises(ConfigError, match=r"^metrics\.0: mae is not a sum over rows: it depends on how rows are split"):
        build.build_metrics(config, data, dense(1), inputs)


class _Batches(keras.metrics.Sum):
    def update_state(self, labels, outputs, sample_weight=None):
        super().update_state(np.ones(1))


@pytest.mark.parametrize("label", [TWO, NUMBER])
def test_sums_go_on_past_2_to_the_24_rows(label):
    """In float32 one row more would leave the sum as it is."""
    config, data, inputs = parts(label)
    (metric,) = build.build_metrics(config, data, dense(1), inputs).values()
    for variable in metric.variables:
        variable.assign(2.0**24)
    metric.update_state(tf.constant([1], label.dtype), tf.constant([[0.0]]))
    assert float(metric.result()) == pytest.approx(2**24 / (2**24 + 1) if label is TWO else 1.0, abs=1e-12)


def test_metrics_of_probabilities_take_logits_too():
    odds, labels = np.array([[-30.0], [2.0], [0.5], [-1.0]]), np.array([1, 1, 0, 0])
    names = ["binary_crossentropy", "mse", "true_positives", "AUC", "Precision"]
    loss = {"name": "BinaryCrossentropy", "from_logits": True}
    found = metric_of(TWO, 1, odds, labels, names, loss=loss)
    second, sign = 1 / (1 + np.exp(-odds[:, 0])), np.where(labels == 1, -1, 1)
    expected = [np.logaddexp(0, sign * odds[:, 0]).mean(), ((second - labels) ** 2).mean(), 1.0, 0.5, 0.5]
    assert list(found.values()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("logits", [False, True])
def test_auc_far_from_0_is_that_of_predict(logits, units):
    """Both count the same bins, in a graph and in NumPy."""
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 300)
    odds = (-30 + 1.5 * labels + random.normal(size=300)).astype(np.float32)
    outputs = odds[:, None] if units == 1 else np.stack([-odds / 2, odds / 2], axis=1)
    keys = {"loss": {"name": "BinaryCrossentropy" if units == 1 else "SparseCategoricalCrossentropy"}}
    keys["loss"]["from_logits"] = True
    if not logits:
        keys, outputs = {}, probabilities(outputs, 2, logits=True)[:, -units:].astype(np.float32)
    found = metric_of(TWO, units, outputs, labels, ["auc"], **keys)["auc"]
    score, logs = ClassScores(), log_probabilities(outputs.astype(np.float32), logits)
    score.update(labels, logs.argmax(axis=1), logs)
    assert found == pytest.approx(score.summary()["auc"], abs=1e-6)
    above, below = odds[labels == 1], odds[labels == 0]
    assert found == pytest.approx((above[:, None] > below).mean(), abs=1e-3)


@pytest.mark.parametrize("units", [1, 2])
def test_auc_of_what_is_no_number_is_none(units):
    """A model that has diverged: the loss says so, and no bin is asked for that there is not."""
    second = np.array([0.2, np.nan, 0.7])[:, None]
    outputs = second if units == 1 else np.concatenate([1 - second, second], axis=1)
    assert np.isnan(metric_of(TWO, units, outputs, np.array([0, 1, 1]), ["auc"])["auc"])


def test_what_cannot_count_rows_by_weight_is_refused_where_they_have_one():
    """Keras takes a weight for each number of a row there, or what can be broadcast to it."""
    for weighted in (False, True):
        config, data, inputs = parts(NUMBERS, metrics=["mae", "AUC", "BinaryIoU"])
        if weighted:
            inputs.description.tensors.append(TensorSpec(name=WEIGHT, dtype="float32", shape=[]))
        try:
            found = build.build_metrics(config, data, dense(2), inputs)
        except ConfigError as error:
            assert weighted and str(error).startswith("metrics.2: BinaryIoU does not apply row weights to these labels")
        else:
            assert not weighted and len(found) == 3


def test_r2_of_numbers_close_together_and_far_from_0():
    """Their squares are 1e12, of which float64 cannot tell such a spread."""
    labels = np.tile([-0.25, 0.25], 20)
    found = metric_of(NUMBER, 1, 0.65 * labels[:, None], labels, ["r2"])["r2"]
    config, data, inputs = parts(NUMBER_64, metrics=["r2", "R2Score"])
    for far in (1e6, 1e9):
        metrics = build.build_metrics(config, data, dense(1), inputs, [far + 0.01])
        for metric in metrics.values():
            for rows in (slice(0, 7), slice(7, None)):
                metric.update_state(tf.constant(far + labels[rows]), tf.constant(far + 0.65 * labels[rows][:, None]))
            assert float(metric.result()) == pytest.approx(found, abs=1e-6)
