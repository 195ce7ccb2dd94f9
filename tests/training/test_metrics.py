"""What metrics are: which of their values are better, and how finely they tell models apart."""

import pytest

from sparksplit.training.metrics import higher_is_better, resolution

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
    [("accuracy", 1 / 119), ("recall", 1 / 119), ("false_positives", 1.0), ("mse", None), ("loss", None)],
)
def test_what_counts_labels_changes_by_one_of_them_at_least(name, expected):
    assert resolution(name, 119) == expected
