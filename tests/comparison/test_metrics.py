"""What decides a comparison, and what a configuration may say of it."""

from types import SimpleNamespace

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.content import Deciding
from sparksplit.comparison.results import deciding
from sparksplit.dataset.description import LabelSpec
from sparksplit.dataset.manifest import Statistics


def decided(shape=(), classes=("a", "b"), test=119, weights=None, **keys):
    config = parse(CompareConfig, {"data": "d", "output": "o", **keys})
    label = LabelSpec(dtype="int64", shape=list(shape), classes=None if classes is None else list(classes))
    splits = {
        name: SimpleNamespace(rows=rows, label_counts=None, label_weights=None)
        for name, rows in (("test", test), ("validation", 50))
    }
    return deciding(config, SimpleNamespace(label=label, splits=splits, weights=lambda split: weights))


def test_a_metric_without_weights_changes_by_a_row():
    weights = Statistics(min=0.5, max=4.0, mean=2.0, std=1.0)
    assert decided(weights=weights).resolution == 0.5 / 238
    assert decided(weights=weights, metric_weights=False).resolution == 1 / 119
    assert decided(weights=weights.model_copy(update={"min": 0.0}), metric_weights=False).resolution == 1 / 119


def test_what_decides_is_known_before_anything_runs():
    found = decided()
    assert found == Deciding("accuracy", True, "test", 1 / 119)
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
