"""Keras's arguments of `fit` as arrays: what Keras does with them, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.api.fit_rows import FitRows, Target, by_class, fit_rows, split_at
from sparksplit.base.errors import ConfigError

SPARSE = Target("sparse_categorical_crossentropy", (3,), ["in"])
ONE_HOT = Target("categorical_crossentropy", (3,), ["in"])
BINARY = Target("binary_crossentropy", (1,), ["in"])
NUMBERS = Target("mse", (1,), ["in"])
X = np.arange(20, dtype=np.float64).reshape(10, 2)
Y = np.arange(10) % 3


def train_of(rows: FitRows) -> tuple[dict[str, Any], Any]:
    inputs, labels = rows.splits["train"]
    assert isinstance(inputs, dict)
    return inputs, labels


@given(st.integers(2, 100_000), st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_the_validation_rows_are_those_of_keras(rows: int, share: float) -> None:
    from keras.src.trainers.data_adapters.array_slicing import train_validation_split

    try:
        (train,), (validation,) = train_validation_split((np.arange(rows),), share)
        expected = len(train)
        assert list(validation) == list(range(expected, rows))
    except ValueError:
        expected = None
    if expected is None:
        with pytest.raises(ConfigError, match=r"validation_split: .* leaves a split without rows"):
            split_at(rows, share)
    else:
        assert split_at(rows, share) == expected


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=30),
    st.dictionaries(st.integers(0, 5), st.floats(0, 100, width=32), max_size=5),
    st.booleans(),
)
def test_class_weights_are_those_of_keras(labels: list[int], weights: dict[int, float], one_hot: bool) -> None:
    from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

    y = np.eye(5, dtype=np.float32)[labels] if one_hot else np.array(labels)
    np.testing.assert_array_equal(by_class(y, weights), class_weight_to_sample_weights(y, weights))


def test_labels_become_classes_where_the_loss_wants_classes() -> None:
    column = fit_rows(X, Y.reshape(-1, 1).astype(np.float32), SPARSE)
    assert column.classes == 3 and train_of(column)[1].tolist() == Y.tolist()
    one_hot = fit_rows(X, np.eye(3, dtype=int)[Y], ONE_HOT)
    assert one_hot.classes is None and train_of(one_hot)[1].dtype == np.float32
    assert train_of(one_hot)[1].tolist() == np.eye(3)[Y].tolist()
    binary = fit_rows(X, Y % 2 == 1, BINARY)
    assert binary.classes == 2 and train_of(binary)[1].tolist() == (Y % 2).tolist()
    probabilities = fit_rows(X, Y / 2, BINARY)
    assert probabilities.classes is None
    numbers = fit_rows(X, Y.reshape(-1, 1), NUMBERS)
    assert numbers.classes is None and train_of(numbers)[1].dtype == np.float32 and train_of(numbers)[1].shape == (10,)


def test_pandas_lists_and_several_inputs() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert train_of(fit_rows(frame, pd.Series(Y), SPARSE))[0]["x"].tolist() == X.tolist()
    assert train_of(fit_rows(X.tolist(), Y.tolist(), SPARSE))[0]["x"].tolist() == X.tolist()
    two = Target(SPARSE.loss, (3,), ["left", "right"])
    for given_ in ({"right": X + 1, "left": X}, [X, X + 1]):
        inputs, _ = train_of(fit_rows(given_, Y, two))
        assert {name: array[0].tolist() for name, array in inputs.items()} == {"left": [0, 1], "right": [1, 2]}


def test_weights_follow_their_rows() -> None:
    weights = np.linspace(0, 1, 10)
    rows = fit_rows(X, Y, SPARSE, sample_weight=weights, validation_split=0.3)
    assert rows.splits["validation"][0]["weight"].tolist() == weights[7:].astype("f4").tolist()
    rows = fit_rows(X, Y, SPARSE, class_weight={0: 5.0}, validation_split=0.3)
    assert train_of(rows)[0]["weight"].tolist() == [5, 1, 1, 5, 1, 1, 5]
    assert rows.splits["validation"][0]["weight"].tolist() == [1, 1, 1]
    rows = fit_rows(X, Y, SPARSE, validation_data=(X[:2], Y[:2], [2, 3]), validation_split=0.5)
    assert train_of(rows)[0]["weight"].tolist() == [1] * 10
    assert rows.splits["validation"][0]["weight"].tolist() == [2, 3]
    assert [*train_of(fit_rows(X, Y, SPARSE))[0]] == ["x"]


GAP = np.where(X == 6, np.nan, X)


@pytest.mark.parametrize(
    ("x", "y", "more", "problem"),
    [
        (X, Y[:9], {}, "x, y and sample_weight must have equally many rows (x has 10, y has 9)"),
        (X, Y, {"sample_weight": np.ones(3)}, "equally many rows (x has 10, y has 10, sample_weight has 3)"),
        (X, Y, {"sample_weight": np.ones((10, 4))}, "sample_weight: must be one weight per row, [rows] (its shape is"),
        (X, Y, {"sample_weight": np.ones(10), "class_weight": {0: 2}}, "class_weight and sample_weight: give one"),
        (X, Y, {"validation_split": 1.0}, "validation_split: must be at least 0 and below 1 (is 1.0)"),
        (X, Y, {"validation_data": X}, "validation_data: must be (x, y) or (x, y, sample_weight)"),
        (X, Y, {"validation_data": (X, Y[:9])}, "validation_data: x, y and sample_weight must have equally many rows"),
        (GAP, Y, {}, "x: row 3 has a missing value (NaN); replace it first"),
        (X, Y + 1, {}, "y: the train labels must be whole numbers from 0 to 2 (they are 1 to 3)"),
        (X.astype(str), Y, {}, "x: must hold numbers (its dtype is <U"),
        (iter(()), Y, {}, "x: must be a NumPy array or a pandas frame of numbers (is tuple_iterator)"),
        (X, None, {}, "y: is missing; give the labels, an array with one entry per row of x"),
        (
            iter(()),
            None,
            {},
            "x: must be a NumPy array or a pandas frame of numbers (is tuple_iterator); for rows",
        ),
        ({"a": X, "b": X}, Y, {}, "x: the model has one input; give one array"),
        (X[:0], Y[:0], {}, "x: has no rows"),
    ],
)
def test_what_is_refused(x: Any, y: Any, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fit_rows(x, y, SPARSE, **more)
    assert problem in str(caught.value)


IMAGES = Target(SPARSE.loss, (28, 28, 3), ["image"], [(28, 28, 1)])


@pytest.mark.parametrize(
    ("x", "y", "target", "problem"),
    [
        (
            X,
            np.eye(3)[Y],
            SPARSE,
            "y: has one-hot rows of shape [3], but the loss sparse_categorical_crossentropy",
        ),
        (X, Y, ONE_HOT, "y: has class numbers, but the loss categorical_crossentropy takes one-hot rows of shape [3]"),
        (
            X,
            np.eye(4)[Y],
            SPARSE,
            "y: has labels of shape [4] per row, but the loss sparse_categorical_cross",
        ),
        (X, np.eye(4)[Y], ONE_HOT, "output of shape [3] take [3]"),
        (X, np.eye(2)[Y % 2], BINARY, "y: has labels of shape [2] per row, but the loss binary_crossentropy"),
        (np.ones((10, 8, 8)), Y, IMAGES, "x: has rows of shape [8, 8], but the model takes [28, 28, 1]"),
        (X, Y, Target(SPARSE.loss, (3,), ["in"], [(6,)]), "x: has rows of shape [2], but the model takes [6]"),
    ],
)
def test_shapes_that_do_not_fit_the_model_are_refused(x: Any, y: Any, target: Target, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fit_rows(x, y, target)
    assert problem in str(caught.value)


def test_shapes_that_keras_takes_are_taken() -> None:
    pixels = np.ones((2, 28, 28), np.float32)
    assert fit_rows(pixels, np.ones((2, 28, 28, 1)), IMAGES).classes == 3
    assert fit_rows(Y, Y, Target(SPARSE.loss, (3,), ["in"], [(1,)])).classes == 3
    assert fit_rows(X, Y, Target(SPARSE.loss, (3,), ["in"], [(None,)])).classes == 3
    one = np.ones((10, 1))
    assert fit_rows(one, Y, Target(SPARSE.loss, (3,), ["in"], [(None,)])).classes == 3
    assert fit_rows(np.ones((10, 7, 1)), Y, Target(SPARSE.loss, (3,), ["in"], [(None, None)])).classes == 3
    assert fit_rows(one, one, Target(SPARSE.loss, (None, 3), ["in"], [(None,)])).classes == 3
    assert fit_rows(X, np.ones((10, 2, 3)), Target("categorical_crossentropy", (None, 3), ["in"])).classes is None


def test_several_inputs_are_named() -> None:
    with pytest.raises(ConfigError, match="x: the model has the inputs left, right: give an array for each by name"):
        fit_rows({"left": X}, Y, Target(SPARSE.loss, (3,), ["left", "right"]))
    with pytest.raises(ConfigError, match="x: an input cannot be called 'weight'"):
        fit_rows([X, X], Y, Target(SPARSE.loss, (3,), ["left", "weight"]))
