"""What a user's transform gives back is looked at, since the ledger counts the rows that were read."""

import functools

import numpy as np
import pytest

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import LabelSpec, TensorSpec
from sparksplit.rows.assembler import Assembler, Rows
from sparksplit.rows.transforms import name_of

X, WEIGHT = TensorSpec(name="x", dtype="float32", shape=[2]), TensorSpec(name="weight", dtype="float32", shape=[])
LABEL = LabelSpec(dtype="int64", classes=["a", "b"])


def chunk(transform, label=LABEL, count=5):
    """A mini-batch of `count` of five rows."""
    rows = Rows(
        np.arange(5, dtype=np.uint64),
        [np.zeros((5, 2), np.float32), np.ones(5, np.float32)],
        None if label is None else np.zeros(5, np.int64),
    )
    assembler = Assembler([X, WEIGHT], label, 0, transform)
    return assembler.chunk(0, 0, [(rows, np.arange(count))], np.array([0, count]), np.array([5]))


def of_rows(change):
    """A transform that changes which rows there are."""
    return lambda tensors, label, seeds: ({name: change(rows) for name, rows in tensors.items()}, change(label))


def with_(**changes):
    """A transform that gives these back instead of what it was given."""

    def transform(tensors, label, seeds):
        given = {**tensors, "label": label, **changes}
        label = given.pop("label")
        return {name: rows for name, rows in given.items() if rows is not None}, label

    return transform


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (
            of_rows(lambda rows: rows[:3]),
            "3 rows of tensor x for 5 rows; a transform must return each row once, in order",
        ),
        (of_rows(lambda rows: np.concatenate([rows, rows[:1]])), "6 rows of tensor x for 5 rows; "),
        (with_(label=np.zeros(4, np.int64)), "4 rows of labels for 5 rows; "),
        (with_(weight=np.float32(1)), "a single value of tensor weight for 5 rows; "),
        (
            with_(x=np.zeros((5, 3), np.float32)),
            r"tensor x as float32 \[3\] a row; a transform must keep float32 \[2\]",
        ),
        (with_(x=np.zeros((5, 2))), r"tensor x as float64 \[2\] a row; a transform must keep float32 \[2\]"),
        (with_(label=np.zeros(5, np.int32)), r"labels as int32 \[\] a row; a transform must keep int64 \[\]"),
        (with_(weight=None), "the tensors x; a transform must return x, weight"),
        (with_(y=np.zeros(5)), "the tensors x, weight, y; a transform must return x, weight"),
        (with_(label=None), "no labels; a transform must return one a row"),
        (lambda tensors, label, seeds: None, r"nothing; a transform must return \(tensors by name, label\)"),
        (lambda tensors, label, seeds: tensors, r"a dict; a transform must return \(tensors by name, label\)"),
        (lambda tensors, label, seeds: (tensors["x"], label), "tensors as a ndarray; a transform must return "),
    ],
)
def test_other_rows_than_it_was_given(transform, said):
    with pytest.raises(InputError, match=rf"^transform {__file__}:\S+: returned {said}"):
        chunk(transform)


def test_labels_that_the_data_set_has_not():
    with pytest.raises(InputError, match="returned labels; a transform must return None, as the data set has none"):
        chunk(with_(label=np.zeros(5)), label=None)


def test_changed_values_are_taken_and_rows_may_be_changed_in_place():
    def change(tensors, label, seeds):
        tensors["x"] += 1
        return {"weight": tensors["weight"] * 2, "x": tensors["x"]}, [1] * len(label)

    found = chunk(change)
    assert [tensor.tolist() for tensor in found.tensors] == [[[1, 1]] * 5, [2] * 5]
    assert found.label.tolist() == [1] * 5 and found.seen.rows == 5
    assert chunk(lambda tensors, label, seeds: (tensors, None), label=None).label is None


def test_it_is_not_called_without_rows():
    """A node may have no rows of a mini-batch. The arrays still have the shapes and dtypes that the step takes."""

    def flat(tensors, label, seeds):
        return {**tensors, "x": tensors["x"].reshape(len(seeds), -1)}, label

    assert chunk(flat).tensors[0].shape == (5, 2)
    found = chunk(flat, count=0)
    assert [(tensor.shape, tensor.dtype) for tensor in found.tensors] == [((0, 2), np.float32), ((0,), np.float32)]
    assert (found.label.shape, found.label.dtype, found.seen.rows) == ((0,), np.int64, 0)


def test_its_name_is_that_of_the_users_function():
    @functools.wraps(of_rows)
    def wrapper():
        raise AssertionError

    assert name_of(of_rows) == name_of(wrapper) == f"transform {__file__}:of_rows"
    assert name_of(functools.partial(of_rows)) == "transform partial"
