import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.inference import scores
from sparksplit.inference.scores import ClassScores, NumberScores
from sparksplit.inference.trained import log_probabilities


def _classes(label, probabilities):
    probabilities = np.asarray(probabilities, np.float64)
    score = ClassScores()
    score.update(np.asarray(label), probabilities.argmax(axis=1), log_probabilities(probabilities, logits=False))
    return score


def test_accuracy_log_loss_and_counts_by_class():
    score = _classes([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    assert score.summary() == {
        "rows": 3,
        "accuracy": 2 / 3,
        "log_loss": pytest.approx(-(math.log(0.9) + math.log(0.8) + math.log(0.4)) / 3, rel=1e-12),
        "precision": 1.0,
        "recall": 0.5,
        "f1": 2 / 3,
        "auc": 1.0,
        "auc_error": 0.0,
    }
    assert score.by_class(["no", "yes"]) == [
        {"class": "no", "rows": 1, "predicted": 2, "correct": 1},
        {"class": "yes", "rows": 2, "predicted": 1, "correct": 1},
    ]


def test_of_logits_log_loss_and_auc_are_exact_however_far_from_0():
    """Of probabilities the log-odds would end at 17, where float32 has none nearer to 1, and the loss at -log(1e-7)."""
    random = np.random.default_rng(0)
    label = random.integers(0, 2, 400)
    for shift in (-300.0, -30.0, 0.0, 30.0):
        odds = (shift + label + random.normal(size=400)).astype(np.float32)
        wins = _pairs(label, odds)
        losses = np.logaddexp(0, np.where(label == 1, -1.0, 1.0) * odds.astype(np.float64))
        for logits in (odds[:, None], np.stack([5 - odds / 2, 5 + odds / 2], axis=1)):
            logs = log_probabilities(logits, logits=True)
            score = ClassScores()
            score.update(label, logs.argmax(axis=1), logs)
            found = score.summary()
            assert found["log_loss"] == pytest.approx(losses.mean(), rel=1e-6)
            assert found["auc"] == pytest.approx(wins, abs=min(found["auc_error"] + 1e-12, 2e-3 if shift > -99 else 1))


def test_a_probability_that_was_rounded_costs_what_its_float_type_can_tell():
    rounded = np.array([[1.0, 0.0], [1e-30, 1.0]], np.float32)
    found = log_probabilities(rounded, logits=False)
    assert found[:, 0] == pytest.approx([0.0, math.log(1e-30)]) and found[:, 1] == pytest.approx([-87.34, 0], abs=0.01)
    assert log_probabilities(rounded[:1, :1], logits=False)[0] == pytest.approx([-25 * math.log(2), 0.0])


def test_errors_of_numbers_are_summed_in_float64():
    score = NumberScores()
    score.update(np.array([1.0, 3.0], np.float32), np.array([2.0, 1.0], np.float32))
    root, explained = math.sqrt(2.5), 1 - 5 / 2
    expected = {"mean_squared_error": 2.5, "root_mean_squared_error": root, "r2": explained}
    assert score.summary() == {"rows": 2, "mean_absolute_error": 1.5, **expected}


def test_of_several_numbers_in_a_row_the_mean_counts():
    score = NumberScores()
    score.update(np.array([[1.0, 3.0], [0.0, 0.0]]), np.array([[2.0, 1.0], [0.0, 4.0]]))
    found = score.summary()
    assert (found["rows"], found["mean_absolute_error"], found["mean_squared_error"]) == (2, 1.75, 5.25)
    assert found["r2"] == ((1 - 1 / 0.5) + (1 - 20 / 4.5)) / 2


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40), st.integers(0, 40))
def test_sums_do_not_depend_on_how_rows_are_shared(rows, cut):
    label = np.array([row[0] for row in rows])
    probabilities = np.full((len(rows), 3), 0.2) + 0.4 * np.eye(3)[[row[1] for row in rows]]
    whole = _classes(label, probabilities)
    parts = ClassScores()
    for part in (slice(None, cut), slice(cut, None)):
        if len(label[part]):
            parts.add(_classes(label[part], probabilities[part]))
    assert {**scores.to_json(parts), "log_loss": None} == {**scores.to_json(whole), "log_loss": None}
    assert parts.log_loss == pytest.approx(whole.log_loss, rel=1e-12)
    assert sum(whole.labelled) == sum(whole.predicted) == whole.rows


@pytest.mark.parametrize(
    "score", [_classes([0, 1], [[0.9, 0.1], [0.2, 0.8]]), NumberScores(3, 3.0, [1.25], [0.1], [2.5], [0.3])]
)
def test_json_loses_nothing(score):
    assert scores.from_json(scores.to_json(score)) == score


def test_labels_at_several_places_count_each_and_rows_once():
    label, probabilities = [[0, 1], [1, 1], [0, 0]], np.zeros((3, 2, 2))
    probabilities[..., 0], probabilities[..., 1] = 0.75, 0.25
    score = ClassScores()
    score.update(np.array(label), np.zeros((3, 2), np.int64), np.log(probabilities))
    logs = 3 * math.log(0.75) + 3 * math.log(0.25)
    found = score.summary()
    assert (found["rows"], found["accuracy"]) == (3, 0.5)
    assert found["log_loss"] == pytest.approx(-logs / 6, rel=1e-12)
    assert score.confusion_matrix() == [[3, 0], [3, 0]]
    assert score.by_class(["a", "b"])[0] == {"class": "a", "rows": 3, "predicted": 6, "correct": 3}


def test_metrics_that_are_no_finite_numbers_are_null(tmp_path):
    """A model whose output overflows is not the driver's traceback."""
    from types import SimpleNamespace

    from sparksplit.commands.predict import summary
    from sparksplit.inference.predict import Result, _metrics

    score = NumberScores()
    with np.errstate(over="ignore"):
        score.update(np.array([1.0, 2.0]), np.array([np.inf, 2.0]))
    trained = SimpleNamespace(path="runs/mlp", identity={}, description=SimpleNamespace(label=None))
    rows = SimpleNamespace(place="raw", splits=["test"])
    found = _metrics([SimpleNamespace(scores={"test": scores.to_json(score)})], trained, rows)
    assert json.loads(json.dumps(found, allow_nan=False))["mean_squared_error"] is None
    lines = list(summary(Result("out", {"test": 2}, 1, 0, found)))
    assert lines[0] == "rows       2 (2 of test) in 1 file"
    assert next(summary(Result("out", {"train": 2}, 1, {}, None, split=False))) == "rows       2 in 1 file"
    assert "metrics    mean_absolute_error not finite, mean_squared_error not finite, r2 not finite" in lines


def test_the_order_of_the_probabilities_is_said():
    from sparksplit.commands.predict import summary
    from sparksplit.inference.predict import Result

    few, many = (
        list(summary(Result("out", {"train": 2}, 1, {}, None, classes=names)))[1]
        for names in (["high", "low"], [f"c{number}" for number in range(22)])
    )
    assert few == "classes    high, low: the order of `probabilities`"
    assert many.endswith(", c18, c19, and 2 more: the order of `probabilities`")


# Against formulas that look at every row, and every pair of rows.


def _pairs(label, score):
    """The share of pairs of rows, one of each class, in which the second class's row has the higher score."""
    above, below = score[label == 1], score[label == 0]
    return ((above[:, None] > below).sum() + (above[:, None] == below).sum() / 2) / (len(above) * len(below))


@given(st.data())
def test_auc_is_as_near_to_that_of_all_pairs_as_it_says(data):
    size = data.draw(st.integers(2, 60))
    label = np.array([0, 1, *data.draw(st.lists(st.integers(0, 1), min_size=size - 2, max_size=size - 2))])
    # Rare classes: scores that differ only near 0, and some that are 0 or 1 exactly.
    exponents = data.draw(st.lists(st.floats(-14, 0), min_size=size, max_size=size))
    second = np.where(np.array(exponents) < -13, 0.0, 10.0 ** np.array(exponents))
    score = ClassScores()
    for rows in (slice(0, size // 2), slice(size // 2, None)):
        score.add(_classes(label[rows], np.stack([1 - second[rows], second[rows]], axis=1)))
    found = score.summary()
    assert abs(found["auc"] - _pairs(label, second)) <= found["auc_error"] + 1e-12


def test_auc_of_many_rows_is_exact_to_a_thousandth():
    random = np.random.default_rng(1)
    label = (random.random(4000) < 0.02).astype(np.int64)
    second = 1 / (1 + np.exp(5 - 1.5 * label - random.normal(size=4000)))
    found = _classes(label, np.stack([1 - second, second], axis=1)).summary()
    assert found["auc_error"] < 1e-3
    assert found["auc"] == pytest.approx(_pairs(label, second), abs=1e-4)


def test_auc_of_one_class_alone_is_no_number():
    assert math.isnan(_classes([1, 1], [[0.9, 0.1], [0.2, 0.8]]).summary()["auc"])


@given(st.integers(2, 5), st.data())
def test_precision_recall_and_f1_are_those_of_the_rows(classes, data):
    indices = st.lists(st.integers(0, classes - 1), min_size=1, max_size=30)
    label = np.array(data.draw(indices))
    predicted = np.array([data.draw(st.integers(0, classes - 1)) for _ in label])
    each = []
    for index in [1] if classes == 2 else sorted({*label.tolist(), *predicted.tolist()}):
        right = ((label == index) & (predicted == index)).sum()
        precision = right / max(1, (predicted == index).sum())
        recall = right / max(1, (label == index).sum())
        each.append((precision, recall, 2 * precision * recall / ((precision + recall) or 1)))
    score = _classes(label, np.full((len(label), classes), 0.1) + 0.5 * np.eye(classes)[predicted])
    found = score.summary()
    assert [found[name] for name in ("precision", "recall", "f1")] == pytest.approx(np.mean(each, axis=0).tolist())
    matrix = np.zeros((classes, classes), int)
    np.add.at(matrix, (label, predicted), 1)
    assert score.confusion_matrix() == matrix.tolist()


def test_a_confusion_matrix_is_bounded():
    for classes, there in ((scores.MOST_CONFUSED, True), (scores.MOST_CONFUSED + 1, False)):
        assert (_classes([0], np.full((1, classes), 1 / classes)).confusion_matrix() is not None) == there


@given(st.integers(1, 3), st.integers(0, 12), st.data())
def test_errors_and_r2_of_several_numbers_however_rows_are_shared(numbers, cut, data):
    values = st.integers(-1000, 1000).map(lambda number: 1e4 + number / 8)
    rows = data.draw(st.lists(st.tuples(*[values] * (2 * numbers)), min_size=1, max_size=12))
    label, prediction = np.split(np.array(rows), 2, axis=1)
    score = NumberScores()
    for part in (slice(None, cut), slice(cut, None)):
        own = NumberScores()
        own.update(label[part], prediction[part])
        score.add(own)
    errors, spread = (prediction - label) ** 2, ((label - label.mean(axis=0)) ** 2).sum(axis=0)
    explained = [
        1 - error / width if width else float(error == 0)
        for error, width in zip(errors.sum(axis=0), spread, strict=True)
    ]
    found = score.summary()
    assert found["rows"] == len(rows)
    assert found["mean_absolute_error"] == pytest.approx(np.abs(prediction - label).mean())
    assert found["root_mean_squared_error"] == pytest.approx(math.sqrt(errors.mean()))
    assert found["r2"] == pytest.approx(np.mean(explained), rel=1e-9, abs=1e-9)
    assert [each["mean_squared_error"] for each in score.by_number()] == pytest.approx(errors.mean(axis=0).tolist())


@pytest.mark.parametrize(
    ("label", "weighted"), [(np.float32(20.3), True), (np.float32(0.1), True), (20000000.7, False), (20000000.7, True)]
)
def test_r2_of_a_constant_number_is_0_however_rows_are_shared(label, weighted):
    """A mean of equal numbers is another number after rounding, and its distance from them counted as spread."""
    random = np.random.default_rng(0)
    several = np.stack([np.full(3000, label), random.random(3000).astype(type(label))], axis=1)
    weight = random.random(3000).astype(np.float32) if weighted else np.ones(3000, np.float32)
    several[17], weight[17] = -5, 0
    off, total = several + type(label)(0.25), NumberScores()
    for task in (slice(0, 1000), slice(1000, 1700), slice(1700, None)):
        of_task = NumberScores()
        for start in range(task.start, task.stop or 3000, 256):
            rows = slice(start, min(start + 256, task.stop or 3000))
            of_task.update(several[rows], off[rows], weight[rows])
        total.add(of_task)
    constant, varied = total.by_number()
    assert (constant["r2"], total.deviations[0]) == (0.0, 0.0)
    assert varied["r2"] != 0 and total.summary()["r2"] == pytest.approx(varied["r2"] / 2)
    exact = NumberScores()
    exact.update(several[:, 0], several[:, 0], weight)
    assert exact.summary()["r2"] == 1.0


def test_r2_of_numbers_with_a_small_spread_is_kept():
    label = 1e6 + np.array([0.25, -0.25] * 500)
    score = NumberScores()
    for rows in (slice(0, 300), slice(300, None)):
        score.update(label[rows], label[rows] * 0 + 1e6 + 0.125 * np.sign(label[rows] - 1e6))
    assert score.summary()["r2"] == pytest.approx(0.75, rel=1e-9)


@given(st.integers(0, 6), st.data())
def test_a_row_of_weight_n_counts_as_n_rows(cut, data):
    weight = np.array(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=12).filter(any)))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    label, second = random.integers(0, 2, len(weight)), random.random(len(weight))
    probabilities, y = np.stack([1 - second, second], axis=1), random.normal(size=(len(weight), 2))
    classes, numbers = ClassScores(), NumberScores()
    for rows in (slice(None, cut), slice(cut, None)):
        logs = log_probabilities(probabilities[rows], logits=False)
        classes.update(label[rows], probabilities[rows].argmax(axis=1), logs, weight[rows])
        own = NumberScores()
        own.update(y[rows], 0 * y[rows], weight[rows])
        numbers.add(own)
    times = np.repeat(np.arange(len(weight)), weight)
    repeated = _classes(label[times], probabilities[times])
    assert classes.summary() == pytest.approx({**repeated.summary(), "rows": len(weight)}, nan_ok=True)
    assert classes.confusion_matrix() == repeated.confusion_matrix()
    other = NumberScores()
    other.update(y[times], 0 * y[times])
    assert numbers.summary() == pytest.approx({**other.summary(), "rows": len(weight)}, rel=1e-9, abs=1e-9)


def test_rows_that_weigh_nothing_leave_no_numbers():
    classes, numbers = ClassScores(), NumberScores()
    classes.update(np.array([1]), np.array([1]), np.log([[0.5, 0.5]]), np.zeros(1))
    numbers.update(np.array([1.0]), np.array([2.0]), np.zeros(1))
    for found in (classes.summary(), numbers.summary()):
        assert found.pop("rows") == 1
        assert all(math.isnan(value) or value == 0 for value in found.values())
