"""Rows that a model cannot be trained on are named."""

import numpy as np
import pytest

from sparksplit.base.errors import InputError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorPreprocessing, TensorSpec
from sparksplit.rows.assembler import Assembler, Rows
from sparksplit.rows.feed import Feed
from sparksplit.rows.held import Held
from sparksplit.rows.unfit import Fit

TEN = LabelSpec(dtype="int64", classes=[str(number) for number in range(10)])
ROWS = np.arange(4, dtype=np.uint64) + 40, lambda row_id: f"file {row_id}"


@pytest.mark.parametrize("label", [10, -1, 2**40])
@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_a_label_that_is_no_class(label, shape):
    labels = np.zeros(shape, np.int64)
    Fit().check_labels(labels, TEN, *ROWS)
    labels[(2, *[1] * (len(shape) - 1))] = label
    with pytest.raises(InputError, match=f"^file 42: has the label {label}; with 10 classes it must be from 0 to 9$"):
        Fit().check_labels(labels, TEN, *ROWS)
    Fit(ignored=label).check_labels(labels, TEN, *ROWS)
    Fit().check_labels(labels, LabelSpec(dtype="int64"), *ROWS)  # numbers
    Fit().check_labels(labels[:0], TEN, *ROWS)
    Fit().check_labels(None, None, *ROWS)


def test_a_class_that_is_no_number():
    with pytest.raises(InputError, match=r"^file 41: has the label nan; "):
        Fit().check_labels(np.array([1, np.nan, 3, 4], np.float32), TEN, *ROWS)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number(wrong):
    x, y, label = np.zeros((4, 2, 3), np.float32), np.zeros((4, 1), np.int16), np.zeros(4, np.float32)
    columns = {"x": x, "y": y, "label": label}
    assert Fit().suspect(columns, *ROWS) is None
    label[3] = wrong
    assert Fit().suspect(columns, *ROWS) == f"file 43: label is {wrong}"
    x[1, 1, 0] = wrong
    assert Fit().suspect(columns, *ROWS) == f"file 41: x holds {wrong}"
    assert Fit(missing={"x"}).suspect(columns, *ROWS) == f"file 43: label is {wrong}"


def test_a_sum_that_is_too_large_is_no_fault():
    assert Fit().suspect({"x": np.full(4, 3e38, np.float32)}, *ROWS) is None


def test_missing_values_that_are_filled_are_no_fault():
    tensors = [TensorSpec(name=name, dtype="float32", shape=[]) for name in "ab"]
    fitted = {"a": TensorPreprocessing(offset=1.0), "b": TensorPreprocessing(impute=0.5)}
    description = Description(tensors=tensors, label=None, preprocessing=FittedPreprocessing(tensors=fitted))
    assert Fit.of(description, "mse") == Fit(None, {"b"})
    assert Fit.of(description, {"name": "sparse_categorical_crossentropy", "ignore_class": -1}).ignored == -1


@pytest.mark.parametrize("held", [False, True])
def test_a_feed_names_the_file_and_the_row(tmp_path, held):
    x, y = np.arange(200, dtype=np.float32), np.arange(200) % 5
    data = from_arrays(str(tmp_path / "data"), {"train": (x, y)}, lanes=3, block_size=96)
    split = data.split("train")
    split.label = split.label.model_copy(update={"classes": list("abcd")})
    feed = Feed(Held(split, str(tmp_path), 0) if held else split, np.arange(3), batch_size=20)
    place = rf"{data.path}/train/\S+\.parquet: row group \d+, row \d+ \(row_id -?\d+\)"
    with pytest.raises(InputError, match=f"^{place}: has the label 4; with 4 classes "):
        list(feed.epoch(0))
    feed.close()


def test_a_transforms_labels_are_looked_at():
    """The row's number is the chunk's, whatever piece it came from."""
    spec = TensorSpec(name="x", dtype="float32", shape=[])

    def plus_five(tensors, label, seeds):
        return tensors, label + 5

    assembler = Assembler([spec], TEN, 0, plus_five)
    rows = Rows(np.arange(4, dtype=np.uint64) + 2**63, [np.zeros(4, np.float32)], np.array([1, 2, 3, 6]))
    with pytest.raises(InputError, match=f"^the row with row_id {3 - 2**63}: has the label 11; "):
        assembler.chunk(0, 0, [(rows, np.array([0])), (rows, np.array([3]))], np.array([0, 2]), np.array([2]))


def test_the_first_value_that_is_no_number_is_noted_once():
    spec = TensorSpec(name="x", dtype="float32", shape=[])
    assembler = Assembler([spec], None, 0, None)
    rows = Rows(np.arange(4, dtype=np.uint64), [np.array([1, 2, np.nan, 4], np.float32)], None)

    def suspect(*index):
        return assembler.chunk(0, 0, [(rows, np.array(index))], np.array([0, len(index)]), np.array([2])).suspect

    assert [suspect(0, 1), suspect(3, 2), suspect(2)] == [None, "the row with row_id 2: x is nan", None]


@pytest.mark.parametrize("transform", [None, lambda tensors, label, seeds: (tensors, label)])
def test_rows_are_looked_at_until_all_have_been_seen(tmp_path, transform, monkeypatch):
    """Looking takes a third of the time of gathering."""
    x, y = np.arange(200, dtype=np.float32), np.arange(200) % 5
    split = from_arrays(str(tmp_path / "data"), {"train": (x, y)}, lanes=3).split("train")
    looked = []
    monkeypatch.setattr(Fit, "suspect", lambda self, columns, row_ids, place: looked.append(len(row_ids)))
    feed = Feed(split, np.arange(3), batch_size=20, transform=transform)
    for epoch in range(4):
        assert sum(len(chunk.label) for chunk in feed.epoch(epoch, 5 if epoch == 0 else 0)) == (
            100 if epoch == 0 else 200
        )
    assert sum(looked) == (100 + 200 if transform is None else 100 + 3 * 200)
    feed.close()
