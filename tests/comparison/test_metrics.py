"""What metrics are, and what a configuration may say of them."""

from types import SimpleNamespace

import pytest

from hdfs_io.preprocessing import LabelSpec
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.comparison.config import CompareConfig
from sparksplit.comparison.content import Metric
from sparksplit.comparison.metrics import higher_is_better, resolution
from sparksplit.comparison.results import metric_of

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


def decided(shape=(), classes=("a", "b"), test=119, **keys):
    config = parse(CompareConfig, {"data": "d", "output": "o", **keys})
    label = LabelSpec(dtype="int64", shape=list(shape), classes=None if classes is None else list(classes))
    splits = {"test": SimpleNamespace(rows=test), "validation": SimpleNamespace(rows=50)}
    return metric_of(config, SimpleNamespace(label=label, splits=splits))


def test_what_decides_is_known_before_anything_runs():
    found = decided()
    assert found == Metric("accuracy", True, 0.003, "test", 1 / 119)
    assert decided(test=0).split == "validation" and decided(test=0).resolution == 1 / 50
    assert decided(shape=(40,)).resolution == 1 / (119 * 40)  # a class at each of 40 places
    assert decided(classes=None).name == "loss"  # numbers, whose metric is the mean absolute error
    assert decided(metrics=["mse"], metric="mse").higher_is_better is False
    assert decided(metrics=["Mean"], metric="Mean", metric_better="lower").higher_is_better is False
    assert decided(metrics=["Mean"], metric="Mean", metric_better="higher").higher_is_better is True


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"metrics": ["Mean"], "metric": "Mean"}, "metric_better: must be lower or higher: whether a higher Mean is"),
        ({"metrics": ["mse"], "metric": "mse", "metric_better": "higher"}, "metric_better: is higher, but a lower mse"),
        ({"metric": "mse"}, "metric: must be one of loss, accuracy (is 'mse')"),
        ({"metrics": [], "metric": "accuracy"}, "metric: must be one of loss (is 'accuracy')"),
    ],
)
def test_what_cannot_be_told_is_refused_with_the_key(keys, problem):
    with pytest.raises(ConfigError) as caught:
        decided(**keys)
    assert str(caught.value).startswith(problem)
