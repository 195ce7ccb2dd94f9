"""Rows of a pandas frame as a model takes them, without Spark and TensorFlow."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from pyspark.ml.linalg import Vectors

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import Description, FittedPreprocessing, TensorPreprocessing, TensorSpec
from sparksplit.dataset.feature_spec import Category, Date, Number, Text
from sparksplit.inference.few_rows import stored

LOWEST = np.iinfo(np.int32).min
TABLE = Description(
    tensors=[
        TensorSpec(name="numbers_float64", dtype="float64", shape=[1]),
        TensorSpec(name="numbers_int16", dtype="int16", shape=[1]),
        TensorSpec(name="numbers_int32", dtype="int32", shape=[1]),
        TensorSpec(name="numbers_int64", dtype="int64", shape=[1]),
        TensorSpec(name="indices_uint8", dtype="uint8", shape=[6]),
    ],
    label=None,
    preprocessing=FittedPreprocessing(),
    features=[
        Number(column="income", type="double", tensor="numbers_float64", place=0),
        Number(column="member", type="boolean", tensor="numbers_int16", place=0),
        Date(column="day", type="date", tensor="numbers_int32", place=0, parts=["month"]),
        Date(column="seen", type="timestamp", tensor="numbers_int64", place=0, moment=True, parts=["hour"]),
        Category(column="town", type="string", tensor="indices_uint8", place=0, vocabulary=["Bonn", "Ulm"]),
        Category(column="floor", type="int", tensor="indices_uint8", place=1, vocabulary=["1", "2"]),
        Category(column="paid", type="boolean", tensor="indices_uint8", place=2, vocabulary=["false", "true"]),
        Text(column="words", type="string", tensor="indices_uint8", place=3, values=3, vocabulary=["good"]),
    ],
)
ROWS = {
    "income": [1.5, None, 7],
    "member": [True, False, True],
    "day": pd.to_datetime(["1970-01-02", None, "1970-01-11"]),
    "seen": pd.to_datetime(["1970-01-01 00:00:01.0", "1970-01-01 00:00:02.5", None]),
    "town": ["Ulm", "Rome", None],
    "floor": [1.0, None, 2.0],
    "paid": [True, False, True],
    "words": ["good day", "", "very good"],
}
EXPECTED = {
    "numbers_float64": [[1.5], [None], [7.0]],
    "numbers_int16": [[1], [0], [1]],
    "numbers_int32": [[1], [LOWEST], [10]],
    "numbers_int64": [[1_000_000], [2_500_000], [np.iinfo(np.int64).min]],
    "indices_uint8": [[3, 2, 3, 2, 1, 0], [1, 0, 2, 0, 0, 0], [0, 3, 3, 1, 2, 0]],
}


def as_lists(tensors):
    return {name: pd.DataFrame(tensor).astype(object).where(~pd.isna(tensor), None).values.tolist()
            for name, tensor in tensors.items()}  # fmt: skip


def test_a_tables_columns_are_parsed_and_encoded_as_predict_does():
    frame = pd.DataFrame({"label": 1, **ROWS}, index=["a", "b", "c"])
    assert as_lists(stored(frame[sorted(frame.columns)], TABLE)) == EXPECTED
    tensors = stored(frame, TABLE)
    assert [tensors[spec.name].dtype for spec in TABLE.tensors] == [spec.dtype for spec in TABLE.tensors]


def test_a_table_of_texts_alone_has_no_numbers():
    words = Text(column="words", type="string", tensor="indices_uint8", place=0, values=2, vocabulary=["good"])
    table = TABLE.model_copy(
        update={"tensors": [TensorSpec(name="indices_uint8", dtype="uint8", shape=[2])], "features": [words]}
    )
    assert as_lists(stored(pd.DataFrame({"words": ROWS["words"]}), table)) == {
        "indices_uint8": [[2, 1], [0, 0], [1, 2]]
    }


@pytest.mark.parametrize(
    "other",
    [
        {"day": [datetime.date(1970, 1, 2), None, datetime.date(1970, 1, 11)]},
        {"day": ["1970-01-02", "", "1970-01-11"]},
        {"income": [Decimal("1.5"), None, Decimal(7)]},
        {"income": pd.array([1.5, None, 7], "Float64")},
        {"town": pd.Categorical(["Ulm", "Rome", None])},
        {"floor": pd.array([1, None, 2], "Int64")},
        {"floor": ["1", None, "2"]},
        {"paid": ["true", "false", "true"]},
        {"member": np.array([1, 0, 1], np.uint8)},
    ],
    ids=lambda other: f"{next(iter(other))} {type(next(iter(other.values()))[0]).__name__}",
)
def test_columns_of_other_types_are_the_same_rows(other):
    assert as_lists(stored(pd.DataFrame({**ROWS, **other}), TABLE)) == EXPECTED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"income": [float("inf"), 1.0, 2.0]}, "row a: column 'income': inf is not finite as float64"),
        ({"day": pd.to_datetime(["1970-01-02 03:00"] * 3)}, "row a: column 'day': .* is not a day like 2024-05-01"),
        ({"income": ["x", "1", "2"]}, "row a: column 'income': 'x' is not a number"),
        ({"income": [True, "x", 1]}, "column 'income' has values of several types"),
        ({"town": [["Ulm"]] * 3}, r"column 'town' is array<string>, but was string \(a category\) when it was fitted"),
        ({"member": [300_000, 1, 1]}, "row a: column 'member': 300000 is not a whole number from -32767 to 32767"),
    ],
)
def test_what_the_model_cannot_take_is_named(change, message):
    with pytest.raises(InputError, match=f"^the frame: {message}"):
        stored(pd.DataFrame({**ROWS, **change}, index=["a", "b", "c"]), TABLE)


def test_a_missing_column_is_named_with_those_that_there_are():
    expected = "the frame: has no column 'town', which the model was trained on; it has towns; did you mean 'towns'"
    with pytest.raises(InputError, match=expected):
        stored(pd.DataFrame({"towns": ["Ulm"]}), TABLE.model_copy(update={"features": TABLE.features[4:5]}))


def numbers(dtype="float32", **fitted):
    spec = TensorSpec(name="x", dtype=dtype, shape=[2], columns=["a", "b"])
    preprocessing = FittedPreprocessing(tensors={"x": TensorPreprocessing(**fitted)} if fitted else {})
    return Description(tensors=[spec], label=None, preprocessing=preprocessing)


def test_numbers_of_a_single_tensor_come_in_its_order():
    frame = pd.DataFrame({"b": [1, 2], "a": [0.5, None], "c": ["x", "y"]})
    found = stored(frame, numbers(impute=0.0))
    assert found["x"].dtype == np.float32 and np.array_equal(found["x"], [[0.5, 1], [np.nan, 2]], equal_nan=True)
    with pytest.raises(
        InputError, match=r"^the frame: row 1: column 'a': is null; the model has no value to fill it with$"
    ):
        stored(frame, numbers())
    with pytest.raises(InputError, match=r"row 0: column 'a': 0\.5 is not a whole number from 0 to 255"):
        stored(frame[:1], numbers("uint8"))
    with pytest.raises(InputError, match="column 'a' is string, but must be numbers"):
        stored(pd.DataFrame({"a": ["x"], "b": [1]}), numbers())


def test_a_frame_without_rows_has_tensors_without_rows():
    assert {name: tensor.shape for name, tensor in stored(pd.DataFrame(ROWS)[:0], TABLE).items()} == {
        spec.name: (0, spec.values) for spec in TABLE.tensors
    }
    assert stored(pd.DataFrame({"a": [], "b": []}), numbers())["x"].shape == (0, 2)


def test_a_model_of_images_says_what_takes_them():
    spec = TensorSpec(name="x", dtype="uint8", shape=[8, 8])
    images = Description(tensors=[spec], label=None, preprocessing=FittedPreprocessing())
    with pytest.raises(InputError, match=r"takes x: uint8 \[8, 8\], not columns of numbers or texts\. Use"):
        stored(pd.DataFrame({"a": [1]}), images)


@pytest.mark.parametrize("gaps", [False, True])
def test_an_array_or_a_vector_is_the_models_only_column(gaps: bool) -> None:
    x = TensorSpec(name="x", dtype="float32", shape=[2], column="v")
    filled = TensorPreprocessing(impute=[1.0, 2.0]) if gaps else TensorPreprocessing()
    description = Description(tensors=[x], label=None, preprocessing=FittedPreprocessing(tensors={"x": filled}))
    vectors = [Vectors.dense(1.5, 2), Vectors.sparse(2, {1: 4.0})]
    expected = [[1.5, 2.0], [0.0, 4.0]]
    for column in (vectors, [[1.5, 2.0], [0, 4]], [np.array(row) for row in expected]):
        found = stored(pd.DataFrame({"w": ["a", "b"], "v": column}), description)["x"]
        assert found.dtype == np.float32 and found.tolist() == expected
    booleans = pd.DataFrame({"v": [[True, False], [False, True]]})
    assert stored(booleans, description)["x"].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    missing = pd.DataFrame({"v": [vectors[0], None]}, index=["first", "second"])
    if gaps:
        assert np.isnan(stored(missing, description)["x"][1]).all()
    else:
        with pytest.raises(InputError, match="row second: column 'v': is null"):
            stored(missing, description)
    for wrong, message in (
        ([[1.0], [1.0, 2.0]], "row 0: column 'v': has 1 values, 2 are needed"),
        ([1.0, 2.0], "column 'v' is double, but must be arrays of numbers"),
        ([["a"], ["b"]], "column 'v' is list<item: string>, but must be arrays of numbers"),
    ):
        with pytest.raises(InputError, match=message):
            stored(pd.DataFrame({"v": wrong}), description)
