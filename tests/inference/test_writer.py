import numpy as np
import pyarrow as pa
import pytest

from sparksplit.dataset.description import LabelSpec
from sparksplit.inference.writer import Columns, Predictions

IDS = np.array([3, -1], np.int64)
CLASSES = Predictions(np.array([1, 0]), np.array([[0.25, 0.75], [0.5, 0.5]]))


def _label(*classes):
    return LabelSpec(dtype="int64", classes=list(classes))


def test_a_class_has_its_name_beside_it_where_that_says_more():
    assert Columns(_label("cat", "dog"), False, ()).table(IDS, "test", {}, CLASSES).to_pylist() == [
        {"row_id": 3, "prediction": 1, "prediction_name": "dog", "probabilities": [0.25, 0.75]},
        {"row_id": -1, "prediction": 0, "prediction_name": "cat", "probabilities": [0.5, 0.5]},
    ]


@pytest.mark.parametrize(
    ("label", "top", "names"),
    [
        (_label("high", "low"), None, ["high", "low"]),
        (_label("high", "low"), 1, []),  # the rows name their classes
        (_label("0", "1"), None, []),
        (LabelSpec(dtype="float32", kind="number"), None, []),
    ],
)
def test_the_order_of_the_probabilities(label, top, names):
    assert list(Columns(label, False, (), top).in_order) == names


def test_names_that_are_the_indices_are_left_out():
    table = Columns(_label("0", "1"), True, ()).table(IDS, "train", {}, CLASSES)
    assert table.column_names == ["row_id", "split", "prediction", "probabilities"]
    assert table["split"].to_pylist() == ["train", "train"]
    assert table.schema.field("row_id").type == pa.int64()
    assert table.schema.field("probabilities").type == pa.list_(pa.float32())


def test_the_most_probable_classes_come_first_and_of_equal_ones_the_prediction():
    probabilities = np.array([[0.25, 0.125, 0.625, 0.0], [0.125, 0.375, 0.125, 0.375]])
    found = Predictions(probabilities.argmax(axis=1), probabilities)
    columns = Columns(_label("cat", "dog", "eel", "fox"), False, (), 2)
    assert columns.table(IDS, "test", {}, found).to_pylist() == [
        {
            "row_id": 3,
            "prediction": 2,
            "prediction_name": "eel",
            "top_predictions": [2, 0],
            "top_names": ["eel", "cat"],
            "top_probabilities": [0.625, 0.25],
        },
        {
            "row_id": -1,
            "prediction": 1,
            "prediction_name": "dog",
            "top_predictions": [1, 3],
            "top_names": ["dog", "fox"],
            "top_probabilities": [0.375, 0.375],
        },
    ]
    table = Columns(_label("0", "1"), False, (), 1).table(IDS[:0], "test", {}, Predictions(IDS[:0], np.zeros((0, 2))))
    assert table.column_names == ["row_id", "prediction", "top_predictions", "top_probabilities"]
    assert table.schema.field("top_predictions").type == pa.list_(pa.int64())
    assert table.schema.field("top_probabilities").type == pa.list_(pa.float32())


@pytest.mark.parametrize("label", [None, LabelSpec(dtype="float32", kind="number")])
def test_numbers_have_no_probabilities(label):
    found = Predictions(np.array([1.5, -2.0], np.float32), None)
    kept = {"a": pa.array(["x", "y"])}
    whole = Predictions(np.array([20241231235959.0, 1.0]), None)
    assert Columns(label, False, ()).table(IDS, "test", {}, whole)["prediction"].to_pylist() == [20241231235959, 1]
    assert Columns(label, False, ["a"]).table(IDS, "test", kept, found).to_pylist() == [
        {"row_id": 3, "a": "x", "prediction": 1.5},
        {"row_id": -1, "a": "y", "prediction": -2.0},
    ]


def test_several_numbers_a_row_are_a_list():
    found = Predictions(np.arange(4.0, dtype=np.float64).reshape(2, 2), None)
    assert Columns(None, False, ()).table(IDS, "test", {}, found)["prediction"].to_pylist() == [[0, 1], [2, 3]]


def test_classes_at_several_places_are_lists_without_probabilities():
    found = Predictions(np.array([[1, 0], [0, 0]]), np.zeros((2, 2, 2)))
    assert Columns(_label("cat", "dog"), False, ()).table(IDS, "test", {}, found).to_pylist() == [
        {"row_id": 3, "prediction": [1, 0], "prediction_name": ["dog", "cat"]},
        {"row_id": -1, "prediction": [0, 0], "prediction_name": ["cat", "cat"]},
    ]
    none = Predictions(np.zeros((0, 2), np.int64), np.zeros((0, 2, 2)))
    assert Columns(_label("cat", "dog"), False, ()).table(IDS[:0], "test", {}, none).num_rows == 0


@pytest.mark.parametrize(
    ("label", "found"),
    [
        (_label("cat", "dog"), CLASSES),
        (_label("0", "1"), CLASSES),
        (
            _label("cat", "dog").model_copy(update={"shape": [2]}),
            Predictions(np.zeros((2, 2), int), np.zeros((2, 2, 2))),
        ),
        (None, Predictions(np.zeros(2), None)),
    ],
)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("top", [None, 1])
def test_a_kept_column_may_have_every_name_that_is_not_written(label, found, split, top):
    columns = Columns(label, split, (), top)
    assert columns.table(IDS, "test", {}, found).column_names == columns.own
