"""Columns on their way through pandas: the model gets the numbers and texts that Spark has."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit import InputError
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.features.encoder import encoder_of
from sparksplit.inference import appending
from sparksplit.inference.appending import Appended, Task, _column, class_values
from sparksplit.inference.trained import TrainedModel
from sparksplit.prepare.tables.column_rows import ColumnReader
from sparksplit.prepare.tables.numbers import numbers


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_whole_numbers_keep_all_their_digits(values: list[int | None]) -> None:
    filled = pd.Series(np.array([value or 0 for value in values], np.int64))
    missing = pd.Series(np.array([value is None for value in values], np.bool_))
    assert _column("bigint", filled, missing).to_pylist() == values


@given(st.lists(st.none() | st.floats(width=32)))
def test_numbers_are_missing_or_as_they_were(values: list[float | None]) -> None:
    column = pa.array(values, pa.float32())
    found = _column("float", column.to_pandas(), None)
    for ours, expected in zip(
        numbers(found, np.dtype("f4"), True, True), numbers(column, np.dtype("f4"), True, True), strict=True
    ):
        np.testing.assert_array_equal(ours, expected)


@given(st.lists(st.none() | st.text()))
def test_texts_are_as_they_were(values: list[str | None]) -> None:
    series = pa.array(values, pa.string()).to_pandas()
    assert _column("string", series, None).to_pylist() == values


ARRAYS = st.lists(st.none() | st.lists(st.none() | st.floats(allow_nan=False), max_size=4))


@given(ARRAYS, st.sampled_from(["array<double>", "array<float>"]))
def test_arrays_keep_their_lengths_and_missing_values(values: list[list[float | None] | None], kind: str) -> None:
    column = pa.array(values, pa.list_(pa.float64()))
    found = _column(kind, column.to_pandas(), None)
    assert found.to_pylist() == column.to_pylist()


@pytest.mark.parametrize("values", [[["1.5", None], None, []], [None], []])
def test_arrays_of_decimals_are_texts(values: list[Any]) -> None:
    column = pa.array(values, pa.list_(pa.string()))
    assert _column("array<string>", column.to_pandas(), None).to_pylist() == values


def task(kinds: tuple[str, ...], *, array: bool = False, gaps: bool = False) -> Task:
    tensor = TensorSpec(name="x", dtype="float32", shape=[2])
    names = ["v"] if array else ["a", "b"]
    reader = ColumnReader("the DataFrame", names, array, tensor, None, None, 0, gaps, False)
    return Task(trained(None), reader, encoder_of(None, [tensor], {}), kinds, ("prediction",), 1)


def trained(label: LabelSpec | None) -> TrainedModel:
    tensor = TensorSpec(name="x", dtype="float32", shape=[2])
    return TrainedModel(
        "runs/one", Description(tensors=[tensor], label=label, preprocessing=FittedPreprocessing()), False, {}
    )


def test_columns_become_the_stored_tensor() -> None:
    given_columns = [pd.Series([1, 0]), pd.Series([False, True]), pd.Series([0.5, 2.5])]
    tensors, rows = task(("int", "double"), gaps=True).tensors(given_columns)
    assert rows == 2
    np.testing.assert_array_equal(tensors["x"], np.array([[1, 0.5], [np.nan, 2.5]], "f4"))
    tensors, _ = task(("array<double>",), array=True).tensors([pd.Series([np.array([1.0, 2.0]), np.array([3.0, 4.0])])])
    np.testing.assert_array_equal(tensors["x"], np.array([[1, 2], [3, 4]], "f4"))


def test_a_bad_row_is_an_error() -> None:
    with pytest.raises(InputError, match=r"the DataFrame: a row: column 'b': is null"):
        task(("double", "double")).tensors([pd.Series([1.0, 2.0]), pd.Series([1.0, np.nan])])
    with pytest.raises(InputError, match=r"column 'v': has 1 values, 2 are needed"):
        task(("array<double>",), array=True).tensors([pd.Series([np.array([1.0])])])


def test_rows_are_parsed_in_parts_of_bounded_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appending, "rows_per_batch", lambda size: 100 // size)
    one = task(("double", "double"))
    assert appending.row_bytes(one.reader) == 16
    values = np.arange(14.0)
    parts = list(one._parts([pd.Series(values), pd.Series(values + 0.5)]))
    assert [len(part.row_ids) for part in parts] == [6, 6, 2]
    assert np.concatenate([part.row_ids for part in parts]).tolist() == list(range(14))
    np.testing.assert_array_equal(
        np.concatenate([part.tensors["x"] for part in parts]), np.stack([values, values + 0.5], 1)
    )


@pytest.mark.parametrize(
    ("setting", "of_row", "said"),
    [
        ("10000", 32, None),
        ("10000", 26_000, None),
        (
            "10000",
            1_204_224,
            r"a batch of rows .* have 11,484 MiB; .*maxRecordsPerBatch\", 6\) saves memory",
        ),
        ("100", 1_204_224, None),
        ("0", 1_204_224, "a whole partition of rows"),
    ],
)
def test_large_batches_of_spark_are_told(setting: str, of_row: int, said: str | None) -> None:
    line = appending.large_batches(setting, of_row)
    assert line is None if said is None else re.search(said, line or "")


def test_a_feature_is_one_column() -> None:
    frame: Any = SimpleNamespace(columns=["a", "b", "a"], sparkSession=None)
    config: Any = None
    with pytest.raises(InputError, match="the DataFrame: has two columns 'a'; rename or drop one"):
        appending.appended(frame, ["b", "a"], trained(None), Appended("p"), config)


def test_classes_are_the_labels() -> None:
    def label(classes: list[str] | None) -> LabelSpec:
        kind, dtype = ("number", "float32") if classes is None else ("integer", "int64")
        return LabelSpec(kind=kind, dtype=dtype, classes=classes)

    assert class_values(trained(label(["-1", "0", "12"]))) == [-1.0, 0.0, 12.0]
    assert class_values(trained(label(None))) is None
    with pytest.raises(InputError, match=r"runs/one: its classes are 'cat', 'dog'; .* StringIndexer"):
        class_values(trained(label(["cat", "dog"])))


def test_a_column_without_a_name_is_left_out() -> None:
    assert Appended("p").fields == {"prediction": "p"}
    assert Appended("", "q", "r").fields == {"raw": "r", "probability": "q"}
