"""What is summed of labels, however rows are shared by files."""

import json

import numpy as np
import pytest

from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import LabelSpec, TensorSpec
from sparksplit.dataset.joined import open_joined
from sparksplit.dataset.label_sums import LabelSums

WEIGHTED = [TensorSpec(name="weight", dtype="float32", shape=[])]
TWO = LabelSpec(dtype="int64", classes=["no", "yes"])


def facts(spec, labels, weight=None, parts=1):
    """Of rows that are counted in so many parts."""
    whole = LabelSums(spec, WEIGHTED if weight is not None else [])
    for rows in np.array_split(np.arange(len(labels)), parts):
        own = LabelSums(spec, WEIGHTED if weight is not None else [])
        own.update(labels[rows], None if weight is None else weight[rows])
        whole.add(json.loads(json.dumps(own.to_json())))
    return whole


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_sums_are_the_same_in_any_number_of_files(parts):
    random = np.random.default_rng(3)
    labels, weight = random.integers(0, 2, 50), random.random(50).astype(np.float32)
    found = facts(TWO, labels, weight, parts).facts()
    assert found == facts(TWO, labels, weight).facts()
    assert found["label_weights"] == pytest.approx([weight[labels == 0].sum(), weight[labels == 1].sum()])
    numbers = LabelSpec(dtype="float32", kind="number", shape=[2])
    y = (1e6 + random.normal(size=(50, 2))).astype(np.float32)
    found = facts(numbers, y, parts=parts).facts()
    assert found == facts(numbers, y).facts()
    assert found["label_means"] == pytest.approx(y.astype(np.float64).mean(axis=0))


def test_a_label_at_several_places_counts_at_each():
    spec = TWO.model_copy(update={"shape": [3]})
    found = facts(spec, np.array([[0, 1, 1], [0, 0, 1]]), np.array([1.0, 10.0]), 2)
    assert found.counts.tolist() == [3, 3] and found.weights.tolist() == [21.0, 12.0]


@pytest.mark.filterwarnings("error")
def test_nothing_is_refused():
    assert LabelSums(None).facts() == {"label_weights": None, "label_means": None}
    number = LabelSpec(dtype="float64", kind="number")
    assert facts(number, np.zeros(0)).facts()["label_means"] == [0.0]
    wide = facts(number, np.array([1e308, -1e308, 1e308]), parts=3).facts()["label_means"]
    assert np.isfinite(wide).all()


def test_they_are_in_the_manifest_of_a_data_set_and_of_several(tmp_path):
    weight = np.array([1, 2, 3, 4], np.float32)
    for name, labels in (("a", [0, 0, 1, 1]), ("b", [0, 1, 1, 1])):
        x = {"x": np.arange(4, dtype=np.float32), "weight": weight}
        from_arrays(f"{tmp_path}/{name}", {"train": (x, np.array(labels))}, lanes=3, config_hash=name)
    assert open_joined(f"{tmp_path}/a").manifest.splits["train"].label_weights == [3.0, 7.0]
    assert open_joined(f"{tmp_path}/[ab]").manifest.splits["train"].label_weights == [4.0, 16.0]
    for name, labels in (("c", [1.0, 3.0]), ("d", [4.0, 4.0, 4.0])):
        y = np.array(labels, np.float32)
        from_arrays(f"{tmp_path}/{name}", {"train": (np.arange(len(y), dtype=np.float32), y)}, lanes=3)
    assert open_joined(f"{tmp_path}/c").manifest.splits["train"].label_means == [2.0]
    assert open_joined(f"{tmp_path}/[cd]").manifest.splits["train"].label_means == [pytest.approx(16 / 5)]
