"""Rows of a DataFrame: what Arrow's batches become, and what is said about columns that cannot be read."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset.description import TensorSpec
from sparksplit.prepare.source import BadRows
from sparksplit.prepare.sources import ParsedRows
from sparksplit.prepare.tables.cells import Cells
from sparksplit.prepare.tables.column_rows import ColumnReader
from sparksplit.prepare.tables.cut_columns import CutColumns
from sparksplit.prepare.tables.line_numbers import line_mark
from sparksplit.prepare.tables.numbers import numbers

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
longs = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300))
doubles = st.one_of(
    st.none(),
    st.floats(),
    st.floats(-300, 300),
    st.integers(-300, 300).map(float),
    st.sampled_from([2.0**63, -(2.0**63)]),
)


@given(st.lists(longs, max_size=8), st.sampled_from(INTEGERS))
def test_whole_numbers_are_taken_exactly_or_not_at_all(values: list[int | None], name: str) -> None:
    dtype = np.dtype(name)
    found, wrong = numbers(pa.array(values, type=pa.int64()), dtype, gaps=False, rounds=True)
    limits = np.iinfo(dtype)
    fits = [value is not None and limits.min <= value <= limits.max for value in values]
    assert wrong.tolist() == [not fit for fit in fits]
    assert found.tolist() == [value if fit else 0 for value, fit in zip(values, fits, strict=True)]
    assert found.dtype == dtype


@given(st.lists(doubles, max_size=8), st.sampled_from(INTEGERS))
def test_floats_that_are_whole_may_be_integers(values: list[float | None], name: str) -> None:
    found, wrong = numbers(pa.array(values, type=pa.float64()), np.dtype(name), gaps=False, rounds=True)
    limits = np.iinfo(name)
    fits = [
        value is not None and math.isfinite(value) and value == int(value) and limits.min <= int(value) <= limits.max
        for value in values
    ]
    assert wrong.tolist() == [not fit for fit in fits]
    assert found.tolist() == [int(value or 0) if fit else 0 for value, fit in zip(values, fits, strict=True)]


@given(st.lists(longs, max_size=8))
def test_the_default_dtype_rounds_no_whole_number(values: list[int | None]) -> None:
    found, wrong = numbers(pa.array(values, type=pa.int64()), np.dtype("float32"), gaps=False, rounds=False)
    exact = [value is not None and int(np.float32(value)) == value for value in values]
    assert wrong.tolist() == [not fit for fit in exact]
    assert found.tolist() == [value if fit else 0 for value, fit in zip(values, exact, strict=True)]
    _, wrong = numbers(pa.array(values, type=pa.int64()), np.dtype("float32"), gaps=False, rounds=True)
    assert wrong.tolist() == [value is None for value in values]


@given(st.lists(doubles, max_size=8), st.sampled_from(FLOATS), st.booleans())
def test_floats_are_rounded_and_gaps_are_nan(values: list[float | None], name: str, gaps: bool) -> None:
    found, wrong = numbers(pa.array(values, type=pa.float64()), np.dtype(name), gaps, rounds=True)
    with np.errstate(over="ignore"):
        wanted = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
        wanted = (wanted.astype(np.float32) if name == "float16" else wanted).astype(name)
    empty, finite = np.isnan(wanted), np.isfinite(wanted)
    assert wrong.tolist() == (~finite & ~(empty & gaps)).tolist()
    assert np.array_equal(found[finite], wanted[finite])
    assert (
        found[~finite & ~wrong].view(f"u{found.itemsize}") == np.array(np.nan, name).view(f"u{found.itemsize}")
    ).all()


def reader(**keys: Any) -> ColumnReader:
    values: dict[str, Any] = {
        "place": "the DataFrame",
        "features": ["a", "b"],
        "array": False,
        "tensor": TensorSpec(name="x", dtype="float32", shape=[2]),
        "label": "y",
        "label_kind": "integer",
        "kept": 0,
        "gaps": False,
        "rounds": False,
    }
    return ColumnReader(**{**values, **keys})


def complete(batch: pa.RecordBatch, part: int = 0, file: str | None = None) -> pa.RecordBatch:
    """With the row's number, the part and the file that every batch has."""
    rows = batch.num_rows
    columns = [pa.nulls(rows, pa.int64()), pa.array([part] * rows, pa.int8()), pa.array([file] * rows, pa.string())]
    return pa.RecordBatch.from_arrays([*batch.columns, *columns], names=[*batch.schema.names, "row", "part", "file"])


def read(batch: pa.RecordBatch, **keys: Any) -> tuple[ParsedRows | None, list[str]]:
    items = list(reader(**keys).read(complete(batch)))
    bad = [str(row) for item in items if isinstance(item, BadRows) for row in item]
    good = [item for item in items if isinstance(item, ParsedRows)]
    assert len(good) <= 1
    assert sum(map(len, good)) + len(bad) == batch.num_rows
    return (good[0] if good else None), bad


def test_good_rows_stay_together_with_their_label_and_kept_texts() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"0": [1.5, None, 3.5, 4.5], "1": [1, 2, 3, 16777217], "2": [0, 1, None, 3], "3": ["p", "q", "r", None]}
    )
    rows, bad = read(batch, kept=1)
    assert rows is not None and isinstance(rows.label, np.ndarray)
    assert (rows.tensors[0].tolist(), rows.label.tolist(), rows.keep) == ([[1.5, 1.0]], [0], [["p"]])
    assert bad == [
        "the DataFrame: a row: column 'a': is null; input.missing: mean fills missing values (a: null, b: 2, y: 1)",
        "the DataFrame: a row: column 'y', the label: null is not an integer (a: 3.5, b: 3, y: null)",
        "the DataFrame: a row: column 'b': 16777217 is 16777216 in float32, the default; set input.dtype "
        "(float64 keeps it, float32 rounds it) (a: 4.5, b: 16777217, y: 3)",
    ]


def test_labels_that_are_texts() -> None:
    batch = pa.RecordBatch.from_pydict({"0": [1.0, 2.0], "1": [1.0, 2.0], "2": ["cat", ""]})
    rows, bad = read(batch, label_kind="text")
    assert rows is not None and rows.label == ["cat"]
    assert bad == ["the DataFrame: a row: column 'y', the label: '' is not a text (a: 2, b: 2, y: )"]


def test_arrays_of_the_tensors_length() -> None:
    lists: list[list[int | None] | None] = [[1, 2], None, [3], [4, None], [5, 300], []]
    batch = pa.RecordBatch.from_arrays([pa.array(lists, type=pa.list_(pa.int64()))], names=["0"])
    tensor = TensorSpec(name="x", dtype="uint8", shape=[2, 1])
    rows, bad = read(batch, features=["pixels"], array=True, tensor=tensor, label=None, label_kind=None, rounds=True)
    assert rows is not None and rows.tensors[0].tolist() == [[[1], [2]]] and rows.label is None
    assert bad == [
        "the DataFrame: a row: column 'pixels': is null (pixels: None)",
        "the DataFrame: a row: column 'pixels': has 1 values, 2 are needed (pixels: [3])",
        "the DataFrame: a row: column 'pixels': is null (pixels: [4, None])",
        "the DataFrame: a row: column 'pixels': 300 is not a whole number from 0 to 255 (uint8) (pixels: [5, 300])",
        "the DataFrame: a row: column 'pixels': has 0 values, 2 are needed (pixels: [])",
    ]


def test_a_null_array_is_missing_values_where_these_are_filled() -> None:
    lists: list[list[float | None] | None] = [[1, None], None, [3]]
    batch = pa.RecordBatch.from_arrays([pa.array(lists, type=pa.list_(pa.float64()))], names=["0"])
    tensor = TensorSpec(name="x", dtype="float32", shape=[2])
    rows, bad = read(batch, features=["v"], array=True, tensor=tensor, label=None, label_kind=None, gaps=True)
    assert rows is not None
    np.testing.assert_array_equal(rows.tensors[0], [[1, np.nan], [np.nan, np.nan]])
    assert bad == ["the DataFrame: a row: column 'v': has 1 values, 2 are needed (v: [3.0])"]
    _, bad = read(batch, features=["v"], array=True, tensor=tensor, label=None, label_kind=None)
    assert bad[1] == "the DataFrame: a row: column 'v': is null; input.missing: mean fills missing values (v: None)"


@pytest.mark.parametrize("value", [math.inf, 1e39])
def test_what_is_not_finite(value: float) -> None:
    batch = pa.RecordBatch.from_pydict({"0": [value], "1": [1.0]})
    rows, bad = read(batch, label=None, label_kind=None, gaps=True)
    assert rows is None and "not finite" in bad[0]


def test_every_bad_row_has_a_reason_with_and_one_without_its_values() -> None:
    batch = complete(
        pa.record_batch(
            {
                "0": [None, math.nan, math.inf, 1e39, 16777217.0, 1.0, 1.0, 1.0],
                "1": [1.0] * 8,
                "2": [1, 1, 1, 1, 1, None, 1, 1],
                "3": [5, 5, 5, 5, 5, 5, None, 5],
                "4": [None] * 6 + [", soon", None],
            }
        )
    )
    items = list(reader(cut=CutColumns(("day",), "time")).read(batch))
    assert [row.kind for item in items if isinstance(item, BadRows) for row in item] == [
        "column 'a': is null",
        "column 'a': is NaN",
        "column 'a': not finite",
        "column 'a': not finite as float32",
        "column 'a': rounded by float32, the default",
        "column 'y', the label: not an integer",
        "column 'day' of the cut: not a time or date",
    ]
    (rows,) = (item for item in items if isinstance(item, ParsedRows))
    assert rows.cut is not None and rows.cut.dtype == np.int64 and rows.cut.tolist() == [5]


def test_bad_rows_are_told_to_the_last() -> None:
    batch = complete(pa.record_batch({"0": [1.0, None, 3.0], "1": [2.0, 2.0, 2.0], "2": [1, 1, 1]}))
    found = [item for _, item in reader()([batch] * 4)]
    assert sum(len(item) for item in found if isinstance(item, BadRows)) == 4
    assert sum(len(item) for item in found if isinstance(item, ParsedRows)) == 8


def test_parts_files_and_what_the_cut_goes_by_come_with_the_rows() -> None:
    one = pa.record_batch(
        {"0": [1.0, 2.0], "1": [1.0, 2.0], "2": [0, 1], "3": ["k", "l"], "4": [7, 8], "5": pa.nulls(2, pa.string())}
    )
    names = [field.name for field in one.schema]
    both = pa.Table.from_batches(
        [
            complete(one),
            complete(one.slice(0, 1), 2),
            complete(one.set_column(0, names[0], pa.nulls(2, pa.float64())), 1),
        ]
    )
    made = reader(kept=1, cut=CutColumns(("customer",)))
    found = list(made(both.combine_chunks().to_batches()))
    assert [(part, len(item) if isinstance(item, ParsedRows) else 0) for part, item in found] == [
        ("train", 2),
        ("validation", 0),
        ("test", 1),
    ]
    rows = found[0][1]
    assert isinstance(rows, ParsedRows) and rows.cut is not None and rows.cut.tolist() == [7, 8]
    (bad,) = made.read(complete(one.slice(1).set_column(0, names[0], pa.nulls(1, pa.float64())), 0, "file:/a%20b"))
    assert isinstance(bad, BadRows) and [row.path for row in bad] == ["/a b"]


CELLS = Cells("a.csv", ("k", "a", "b", "y"), True, True, ",", '"', ("", "NA"), "UTF-8", False)


def texts(rows: list[list[str | None]], records: list[str | None]) -> pa.RecordBatch:
    """Rows of the columns a, b, y and k, as of a file of texts; a record is the text of one that does not fit."""
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    bad = [None if record is None else {"reason": None, "text": record, "fatal": False} for record in records]
    kind = pa.struct([("reason", pa.string()), ("text", pa.string()), ("fatal", pa.bool_())])
    batch = pa.RecordBatch.from_arrays([*columns, pa.array(bad, kind)], names=["0", "1", "2", "3", "bad"])
    return complete(batch, file="file:/my%20a.csv")


def test_rows_of_a_file_of_texts_and_the_marks_of_bad_ones() -> None:
    rows: list[list[str | None]] = [
        ["1.5", "2", "cat", "NA"],
        [None, "2", "cat", "r2"],
        ["1", "x", "cat", "r3"],
        ["1", "2", "NA", "r4"],
        ["1", "2", "c\ufffd", "r5"],
        ["1", "2", "dog", "\ufffd"],
        ["1", None, None, "r7"],
        ["3", " 4 ", "dog", None],
    ]
    made = reader(label_kind="text", kept=1, told=True, cells=CELLS, order=[3, 0, 1, 2])
    good, bad = made.read(texts(rows, [None] * 6 + ['r7,"1', None]), 10)
    assert isinstance(good, ParsedRows) and isinstance(bad, BadRows)
    assert (good.tensors[0].tolist(), good.label, good.keep) == ([[1.5, 2], [3, 4]], ["cat", "dog"], [[None, ""]])
    assert [(row.path, row.offset, row.reason, row.text) for row in bad] == [
        ("/my a.csv", 12, "column 'a': is empty; input.missing: mean fills missing values", "r2,,2,cat"),
        ("/my a.csv", 13, "column 'b': 'x' is not a number", "r3,1,x,cat"),
        ("/my a.csv", 14, "column 'y', the label: is 'NA'", "r4,1,2,NA"),
        ("/my a.csv", 15, "column 'y', the label: is not UTF-8 text (input.encoding)", "r5,1,2,c\ufffd"),
        ("/my a.csv", 16, "a column to keep is not UTF-8 text (input.encoding)", "\ufffd,1,2,dog"),
        ("/my a.csv", 17, CELLS.record_problem('r7,"1')[0], 'r7,"1'),
    ]  # fmt: skip
    assert [row.row for row in bad] == [line_mark(row.text) for row in bad]
    assert str(next(iter(bad))).startswith("/my a.csv: a row: column 'a': is empty")


@pytest.mark.parametrize("guessed", [True, False])
@pytest.mark.parametrize(
    ("kind", "text", "problem", "takes"),
    [
        ("integer", "0.5", "'0.5' is not a whole number (int64)", "number"),
        ("integer", "x", "'x' is not a whole number (int64)", "text"),
        ("number", "x", "'x' is not a number", "text"),
        ("integer", "NA", "is 'NA'", ""),
    ],
)
def test_a_label_unlike_the_first_ones_is_told_with_the_key_that_takes_it(
    guessed: bool, kind: str, text: str, problem: str, takes: str
) -> None:
    made = reader(label_kind=kind, guessed=guessed, kept=1, told=True, cells=CELLS, order=[3, 0, 1, 2])
    (bad,) = made.read(texts([["1", "2", text, "r1"]], [None]))
    assert isinstance(bad, BadRows)
    hint = f", but the first labels are; input.label_type: {takes} accepts it" if guessed and takes else ""
    assert [row.reason for row in bad] == [f"column 'y', the label: {problem}{hint}"]


@pytest.mark.parametrize("guessed", [True, False])
def test_labels_with_a_point_are_further_classes_only_where_the_type_is_given(guessed: bool) -> None:
    labels = ["0.0", "1.", " 1.00 ", "7", "2.0", "-1.0", "0.5", "99999999999999999999.0"]
    made = reader(label_kind="integer", guessed=guessed, kept=1, told=True, cells=CELLS, order=[3, 0, 1, 2])
    good, bad = made.read(texts([["1", "2", label, "r"] for label in labels], [None] * len(labels)))
    assert isinstance(good, ParsedRows) and isinstance(good.label, np.ndarray) and isinstance(bad, BadRows)
    assert good.label.tolist() == [0, 1, 1, 7, *([] if guessed else [2, -1])]
    reasons = [row.reason.removeprefix("column 'y', the label: ") for row in bad]
    why = "has a point and is neither 0.0 nor 1.0; set input.label_type: integer for classes, number for numbers"
    assert reasons[:-2] == ([f"'2.0' {why} to predict", f"'-1.0' {why} to predict"] if guessed else [])
    assert [text.split(", but")[0] for text in reasons[-2:]] == [
        "'0.5' is not a whole number (int64)",
        "'99999999999999999999.0' is not a whole number (int64)",
    ]
    assert len({row.kind for row in bad}) == 1 + guessed


@pytest.mark.parametrize("text", ["-9.0", " -9.0"])
def test_a_missing_label_with_a_point_is_no_class(text: str) -> None:
    cells = replace(CELLS, nulls=("", "-9.0"))
    made = reader(label_kind="integer", kept=1, told=True, cells=cells, order=[3, 0, 1, 2])
    (bad,) = made.read(texts([["1", "2", text, "r1"]], [None]))
    assert isinstance(bad, BadRows)
    assert [row.reason for row in bad] == ["column 'y', the label: is '-9.0'"]


def test_decimals_are_parsed_as_they_are_written() -> None:
    batch = pa.RecordBatch.from_pydict({"0": ["16777217", "0.1", None], "1": ["9007199254740993", "2", "3"]})
    tensor = TensorSpec(name="x", dtype="int64", shape=[2])
    rows, bad = read(batch, label=None, label_kind=None, tensor=tensor, rounds=True)
    assert rows is not None and rows.tensors[0].tolist() == [[16777217, 9007199254740993]]
    assert [text.split(" (")[0] for text in bad] == [
        "the DataFrame: a row: column 'a': '0.1' is not a whole number",
        "the DataFrame: a row: column 'a': is null",
    ]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()])
def test_labels_that_are_numbers_keep_their_whole_digits(kind: pa.DataType) -> None:
    whole = [20241231235959, 16777217, 5]
    labels = pa.array([f"{value}" for value in whole] if kind == pa.string() else whole, kind)
    batch = pa.RecordBatch.from_pydict({"0": [1.0, 2.0, 3.0], "1": [4.0, 5.0, 6.0], "2": labels})
    rows, bad = read(batch, label_kind="number")
    assert rows is not None and isinstance(rows.label, np.ndarray) and not bad
    assert rows.label.dtype == np.float64 and rows.label.tolist() == whole


def test_weights_are_none_of_the_features_and_not_below_zero() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"0": [1.0, 2.0, 3.0], "1": [4.0, 5.0, 6.0], "2": [0, 1, 2], "3": [0.5, -1.0, None], "4": ["p", "q", "r"]}
    )
    rows, bad = read(batch, weight="w", kept=1)
    assert rows is not None
    assert [tensor.tolist() for tensor in rows.tensors] == [[[1.0, 4.0]]]
    assert rows.weight is not None and rows.weight.tolist() == [0.5] and rows.weight.dtype == np.float32
    assert rows.keep == [["p"]]
    assert bad == [
        "the DataFrame: a row: column 'w', the weight: -1.0 is not a number of 0 or more (a: 2, b: 5, y: 1)",
        "the DataFrame: a row: column 'w', the weight: null is not a number of 0 or more (a: 3, b: 6, y: 2)",
    ]


BOOLEANS = {"false": "false", "true": "true", "0": "false", "1": "true"}


def test_labels_that_are_booleans_have_one_spelling() -> None:
    labels = ["True", " FALSE", "true", "1", "Truly", "NA"]
    made = reader(label_kind="text", kept=1, told=True, cells=CELLS, order=[3, 0, 1, 2], spelled=BOOLEANS)
    good, bad = made.read(texts([["1", "2", label, "r"] for label in labels], [None] * len(labels)))
    assert isinstance(good, ParsedRows) and isinstance(bad, BadRows)
    assert good.label == ["true", "false", "true", "true", "Truly"]
    assert [row.reason for row in bad] == ["column 'y', the label: is 'NA'"]
    cells = replace(CELLS, nulls=("", "False"))
    made = replace(made, cells=cells)
    (bad,) = made.read(texts([["1", "2", "False", "r"]], [None]))
    assert isinstance(bad, BadRows) and [row.reason for row in bad] == ["column 'y', the label: is 'False'"]


def test_booleans_are_the_classes_0_and_1_of_an_earlier_model() -> None:
    spelled = {"false": "0", "true": "1", "0": "0", "1": "1"}
    made = reader(label_kind="integer", kept=1, told=True, cells=CELLS, order=[3, 0, 1, 2], spelled=spelled)
    (good,) = made.read(texts([["1", "2", label, "r"] for label in ("True", "false", "1", "0.0")], [None] * 4))
    assert isinstance(good, ParsedRows) and isinstance(good.label, np.ndarray)
    assert good.label.tolist() == [1, 0, 1, 0]
    typed = pa.RecordBatch.from_pydict({"0": [1.0, 2.0], "1": [1.0, 2.0], "2": pa.array([1, 0], pa.int8())})
    rows, _ = read(typed, spelled=spelled)
    assert rows is not None and isinstance(rows.label, np.ndarray) and rows.label.tolist() == [1, 0]
