"""What metrics are: which of their values are better, and how finely they tell models apart."""

from types import SimpleNamespace

import pytest

from sparksplit.dataset.description import LabelSpec
from sparksplit.dataset.manifest import Statistics
from sparksplit.training.metric_facts import Labels, higher_is_better, resolution

LOWER = (
    "loss mse MSE mae mape msle bce hinge squared_hinge categorical_hinge poisson huber kl_divergence "
    "mean_squared_error MeanSquaredError root_mean_squared_error LogCoshError binary_crossentropy false_positives"
)
HIGHER = (
    "accuracy BinaryAccuracy sparse_top_k_categorical_accuracy auc AUC precision recall r2_score F1Score mean_io_u "
    "cosine_similarity CosineSimilarity true_negatives"
)


def test_what_metrics_are_tells_their_direction():
    assert {name: higher_is_better(name) for name in LOWER.split()} == dict.fromkeys(LOWER.split(), False)
    assert {name: higher_is_better(name) for name in HIGHER.split()} == dict.fromkeys(HIGHER.split(), True)
    assert higher_is_better("Mean") is None and higher_is_better("mine>thing") is None


def test_every_name_that_keras_knows_is_known():
    """But for those that take any values, and the bases."""
    from keras.src.metrics import ALL_OBJECTS_DICT

    general = {"Metric", "Mean", "Sum", "MeanMetricWrapper"}
    unknown = {found.__name__ for name, found in ALL_OBJECTS_DICT.items() if higher_is_better(name) is None}
    assert unknown == general


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", 1 / 119),
        ("recall", 1 / 119),
        ("false_positives", 1.0),
        ("auc", 1 / (2 * 19 * 100)),
        ("mse", None),
        ("loss", None),
    ],
)
def test_what_counts_labels_changes_by_one_of_them_at_least(name, expected):
    assert resolution(name, Labels(119, [100, 19])) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("accuracy", 0.5 / 150), ("false_positives", 0.5), ("AUC", 0.25 / (2 * 50 * 100))]
)
def test_by_weight_it_changes_by_the_least_of_them(name, expected):
    """Of rows that weigh 0.5 at least, and 150 together."""
    assert resolution(name, Labels(150, [100, 50], 0.5)) == expected
    assert resolution(name, Labels(150, [100, 50], 0.0)) is None


def test_what_labels_count_is_in_the_manifest():
    facts = {"rows": 40, "label_counts": [30, 10], "label_weights": None, "statistics": {}}
    given = {"label": LabelSpec(dtype="int64", classes=["a", "b"]), "splits": {"test": SimpleNamespace(**facts)}}
    assert Labels.of(SimpleNamespace(**given, weights=lambda split: None), "test") == Labels(40, [30, 10])
    facts |= {"label_weights": [20.0, 60.0]}
    given["splits"] = {"test": SimpleNamespace(**facts)}
    weights = Statistics(min=0.5, max=4.0, mean=2.0, std=1.0)
    assert Labels.of(SimpleNamespace(**given, weights=lambda split: weights), "test") == Labels(80, [20.0, 60.0], 0.5)
