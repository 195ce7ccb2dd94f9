import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.inference import scores
from sparksplit.inference.scores import ClassScores, NumberScores


def _classes(label, probabilities):
    probabilities = np.asarray(probabilities, np.float64)
    score = ClassScores()
    score.update(np.asarray(label), probabilities.argmax(axis=1), probabilities)
    return score


def test_accuracy_log_loss_and_counts_by_class():
    score = _classes([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    assert score.summary() == {
        "rows": 3,
        "accuracy": 2 / 3,
        "log_loss": pytest.approx(-(math.log(0.9) + math.log(0.8) + math.log(0.4)) / 3, rel=1e-12),
    }
    assert score.by_class(["no", "yes"]) == [
        {"class": "no", "rows": 1, "predicted": 2, "correct": 1},
        {"class": "yes", "rows": 2, "predicted": 1, "correct": 1},
    ]


def test_a_probability_of_zero_costs_what_it_costs_in_keras():
    assert _classes([1], [[1.0, 0.0]]).log_loss == pytest.approx(-math.log(1e-7))


def test_errors_of_numbers_are_summed_in_float64():
    score = NumberScores()
    score.update(np.array([1.0, 3.0], np.float32), np.array([2.0, 1.0], np.float32))
    assert score.summary() == {"rows": 2, "mean_absolute_error": 1.5, "mean_squared_error": 2.5}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40), st.integers(0, 40))
def test_sums_do_not_depend_on_how_rows_are_shared(rows, cut):
    label = np.array([row[0] for row in rows])
    probabilities = np.full((len(rows), 3), 0.2) + 0.4 * np.eye(3)[[row[1] for row in rows]]
    whole = _classes(label, probabilities)
    parts = ClassScores()
    for part in (slice(None, cut), slice(cut, None)):
        if len(label[part]):
            parts.add(_classes(label[part], probabilities[part]))
    assert (parts.rows, parts.labelled, parts.predicted, parts.right) == (
        whole.rows,
        whole.labelled,
        whole.predicted,
        whole.right,
    )
    assert parts.log_loss == pytest.approx(whole.log_loss, rel=1e-12)
    assert sum(whole.labelled) == sum(whole.predicted) == whole.rows


@pytest.mark.parametrize("score", [_classes([0, 1], [[0.9, 0.1], [0.2, 0.8]]), NumberScores(3, 1.25, 0.1)])
def test_json_loses_nothing(score):
    assert scores.from_json(scores.to_json(score)) == score


def test_labels_at_several_places_count_each_and_rows_once():
    label, probabilities = [[0, 1], [1, 1], [0, 0]], np.zeros((3, 2, 2))
    probabilities[..., 0], probabilities[..., 1] = 0.75, 0.25
    score = ClassScores()
    score.update(np.array(label), np.zeros((3, 2), np.int64), probabilities)
    logs = 3 * math.log(0.75) + 3 * math.log(0.25)
    assert score.summary() == {"rows": 3, "accuracy": 0.5, "log_loss": pytest.approx(-logs / 6, rel=1e-12)}
    assert score.by_class(["a", "b"])[0] == {"class": "a", "rows": 3, "predicted": 6, "correct": 3}


def test_metrics_that_are_no_finite_numbers_are_null(tmp_path):
    """A model whose output overflows is not the driver's traceback."""
    from types import SimpleNamespace

    from sparksplit.commands.predict import summary
    from sparksplit.inference.run import Result, _metrics

    score = NumberScores()
    with np.errstate(over="ignore"):
        score.update(np.array([1.0, 2.0]), np.array([np.inf, 2.0]))
    trained = SimpleNamespace(path="runs/mlp", identity={}, description=SimpleNamespace(label=None))
    rows = SimpleNamespace(place="raw", splits=["test"])
    found = _metrics([SimpleNamespace(scores={"test": scores.to_json(score)})], trained, rows)
    assert json.loads(json.dumps(found, allow_nan=False))["mean_squared_error"] is None
    lines = list(summary(Result("out", {"test": 2}, 1, 0, found)))
    assert "metrics    mean_absolute_error not finite, mean_squared_error not finite" in lines
