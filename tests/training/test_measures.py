"""Weights, measures and scaled numbers from end to end: any number of nodes, and then `predict`, say the same."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sparksplit.dataset.arrays import from_arrays
from sparksplit.inference.predict import _metrics
from sparksplit.inference.tasks import Job, predict_prepared
from sparksplit.inference.trained import TrainedModel
from sparksplit.inference.writer import Columns
from tests.training.runs import MODELS, largest_difference, run, weights

EPOCHS = {"epochs": 4, "batch_size": 16, "dtype": "float64", "optimizer": {"name": "sgd", "learning_rate": 0.1}}


def splits(x, *others):
    """train, validation and test of the rows."""
    found = {}
    for name, rows in (("train", slice(0, 103)), ("validation", slice(103, 140)), ("test", slice(140, None))):
        of_split = {key: array[rows] for key, array in x.items()}
        found[name] = (of_split, *(other[rows] for other in others))
    return found


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    """Two classes, one of them rare, and a weight for each row."""
    random = np.random.default_rng(5)
    x, weight = random.normal(size=(200, 3)), random.integers(0, 4, 200).astype(np.float32)
    label = (x @ [1.0, -1.0, 0.5] + random.normal(size=200) > 1.8).astype(np.int64)
    x = {"weight": weight, "x": x.astype(np.float32)}
    return from_arrays(str(tmp_path_factory.mktemp("rare") / "data"), splits(x, label), lanes=13)


@pytest.fixture(scope="module")
def amounts(tmp_path_factory):
    """Two numbers a row, of different sizes. The squares of the second have more digits than its spread."""
    random = np.random.default_rng(6)
    x = random.normal(size=(200, 3)).astype(np.float32)
    y = x @ [[1.0, 300.0], [2.0, -40.0], [0.5, 7.0]] + random.normal(size=(200, 2)) * [0.1, 20] + [0, 1e9]
    data = splits({"x": x}, y)
    return from_arrays(str(tmp_path_factory.mktemp("amounts") / "data"), data, lanes=13, label_scaling="standard")


def predicted(folder, data, tmp_path):
    """metrics.json of the test rows, by one task."""
    trained = TrainedModel.open(str(folder))
    (tmp_path / "predictions").mkdir()
    job = Job(trained, str(tmp_path / "predictions"), Columns(trained.description.label, False, ()), True, 16, 1)
    facts = predict_prepared(job, data.path, ["test"], 0, 1)
    assert facts.error is None
    return _metrics([facts], trained, SimpleNamespace(place="data", splits=["test"]))


NAMES = ["accuracy", "auc", "precision", "recall", "f1"]


@pytest.mark.slow
def test_a_rare_class_by_weight_is_the_same_on_any_nodes_and_in_predict(forked, rare, tmp_path):
    settings = {**EPOCHS, "model": {"build": f"{MODELS}:one_unit"}, "metrics": NAMES, "class_weights": "balanced"}
    alone = run(rare.path, tmp_path / "alone", **settings)
    assert alone["ledger"] == {**alone["ledger"], "exact": True, "rows": 4 * 103}
    for number, nodes in enumerate((2, {"virtual": 3})):
        other = run(rare.path, tmp_path / str(number), strategy="batch", **{**settings, "nodes": nodes})
        assert largest_difference(weights(tmp_path / "alone"), weights(tmp_path / str(number))) < 1e-9
        assert other["ledger"] == alone["ledger"]
        for split in ("train", "validation"):
            for name, values in alone["metrics"][split].items():
                assert other["metrics"][split][name] == pytest.approx(values, rel=1e-9)
        assert other["metrics"]["test"] == pytest.approx(alone["metrics"]["test"], rel=1e-9)
    # Balanced weights find more of the rare class than none.
    plain = run(rare.path, tmp_path / "plain", **{**settings, "class_weights": None})
    assert plain["metrics"]["test"]["recall"] < alone["metrics"]["test"]["recall"]
    found = predicted(tmp_path / "alone", rare, tmp_path)
    assert {name: found[name] for name in NAMES} == pytest.approx(
        {name: alone["metrics"]["test"][name] for name in NAMES}, rel=1e-6
    )
    assert found["log_loss"] == pytest.approx(alone["metrics"]["test"]["loss"], rel=1e-5)
    assert (found["rows"], found["positive"]) == (60, "1")
    assert np.sum(found["confusion"]) == pytest.approx(sum(row["rows"] for row in found["by_class"]))


@pytest.mark.slow
def test_virtual_nodes_weigh_as_real_ones_do(forked, rare, tmp_path):
    settings = {**EPOCHS, "model": {"build": f"{MODELS}:one_unit"}, "class_weights": {"1": 5}, "strategy": "local"}
    for nodes in (2, {"virtual": 2}):
        run(rare.path, tmp_path / str(nodes), **{**settings, "nodes": nodes})
    assert largest_difference(weights(tmp_path / "2"), weights(tmp_path / str({"virtual": 2}))) < 1e-9


@pytest.mark.slow
def test_scaled_numbers_are_predicted_in_their_own_units(forked, amounts, tmp_path):
    names = ["mae", "rmse", "r2"]
    settings = {**EPOCHS, "model": {"build": f"{MODELS}:several"}, "metrics": names, "epochs": 15}
    alone = run(amounts.path, tmp_path / "alone", **settings)
    other = run(amounts.path, tmp_path / "two", **{**settings, "nodes": 2})
    assert largest_difference(weights(tmp_path / "alone"), weights(tmp_path / "two")) < 1e-9
    # The model began at 0, in other units than these: what it gives after a few epochs is near the labels.
    assert alone["metrics"]["test"]["r2"] > 0.9 and alone["metrics"]["train"]["loss"][-1] < 0.1
    assert other["metrics"]["test"] == pytest.approx(alone["metrics"]["test"], rel=1e-6)
    found = predicted(tmp_path / "alone", amounts, tmp_path)
    measured = [found[name] for name in ("mean_absolute_error", "root_mean_squared_error", "r2")]
    assert measured == pytest.approx([alone["metrics"]["test"][name] for name in names], rel=1e-5)
    assert [each["r2"] > 0.9 for each in found["by_number"]] == [True, True]
