import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparksplit.base.errors import Passing
from sparksplit.dataset.description import LabelSpec
from sparksplit.inference import writer
from sparksplit.inference.writer import Columns, PartFile, Predictions
from tests.disks import small_disk

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


def test_a_file_is_written_in_bounded_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_GROUP_BYTES", 24)
    file = PartFile(str(tmp_path), "part")
    table = pa.table({"row_id": np.arange(10)})
    for start in range(10):
        file.write(table.slice(start, 1))
    file.write(table.slice(0, 0))
    file.close()
    assert file.rows == 10
    assert pq.read_table(tmp_path / "part") == table
    assert pq.ParquetFile(tmp_path / "part").num_row_groups == 4


def test_a_file_without_rows_is_none(tmp_path):
    file = PartFile(str(tmp_path), "part")
    file.close()
    file.abort()
    assert not list(tmp_path.iterdir())


def test_a_file_that_does_not_fit_is_removed(tmp_path):
    rows = pa.table({"x": np.random.default_rng(1).random(20_000)})
    with small_disk(tmp_path / "disk", 64) as disk:
        for begin in (False, True):
            file = PartFile(str(disk), ".part.0")
            with pytest.raises(Passing, match=rf"^{disk}/\.part\.0: cannot be written: No space left on device$"):
                for _ in range(200 if begin else 1):  # as a row group, and at the end
                    file.write(rows)
                file.close()
            file.abort()
            assert list(disk.iterdir()) == []


def test_a_file_that_cannot_be_removed_hides_no_error(tmp_path, monkeypatch):
    """HDFS that is away, say: it cannot take the file's end, nor remove what there is of it."""

    def away(path):
        raise Passing(f"{path}: HDFS has failed for 120 s")

    file = PartFile(str(tmp_path), ".part.0")
    file.write(pa.table({"x": [1.0]}))
    monkeypatch.setattr(writer.filesystem, "remove", away)
    file.abort()
