"""Files whose columns differ: which are read together, as what, and which are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sparksplit.base.errors import InputError
from sparksplit.prepare.tables.unlike_files import Merged, marked, merged, unlike

INT, LONG, FLOAT, TEXT, NULL = pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.null()


def test_files_that_are_alike_or_lack_columns_are_left_to_spark() -> None:
    assert merged({"a": {"x": INT, "y": LONG}, "b": {"y": LONG, "z": TEXT}, "c": {"n": NULL}}, "in") is None
    assert merged({"a": {"x": INT, "X": LONG}, "b": {"x": LONG}}, "in") is None  # Spark says what is wrong
    assert merged({"a": {"x": pa.float16()}, "b": {"x": FLOAT}}, "in") is None
    structs = [pa.struct([("p", INT)]), pa.struct([("p", INT), ("q", TEXT)])]
    assert merged({"a": {"x": structs[0]}, "b": {"x": structs[1]}}, "in") is None  # it merges them
    assert merged({"a": {"x": pa.list_(structs[0])}, "b": {"x": pa.list_(structs[1])}}, "in") is None


def test_files_are_read_together_where_the_columns_that_differ_are_the_same() -> None:
    files = {
        "a": {"x": INT, "y": LONG, "t": pa.timestamp("ns")},
        "b": {"x": LONG, "y": LONG},
        "c": {"x": INT, "y": LONG, "z": TEXT, "t": pa.timestamp("ns")},
        "d": {"X": NULL},
    }
    assert merged(files, "in") == Merged(
        {"x": "bigint", "y": "bigint", "t": "timestamp_ntz", "z": "string"},
        [
            (
                ["a", "c"],
                {"x": ("x", "int"), "y": ("y", "bigint"), "t": ("t", "timestamp_ntz ns"), "z": ("z", "string")},
            ),
            (["b"], {"x": ("x", "bigint"), "y": ("y", "bigint")}),
            (["d"], {"x": ("X", "null")}),
        ],
        ["columns 'X', 'x' of different files are read as one column, 'x'"],
    )


def test_the_first_metadata_of_a_column_counts() -> None:
    marks = [{}, {"Y": {"a": 1}}, {"y": {"a": 2}, "gone": {"b": 3}}]
    assert marked(["x", "y"], marks) == {"y": {"a": 1}}
    assert marked(["x", "y"], []) == {}


def test_types_that_have_none_in_common_are_named() -> None:
    files = {"a": {"x": FLOAT}, "b": {"X": LONG}, "c": {"x": FLOAT}}
    with pytest.raises(InputError, match=r"^b: column 'x' is int64 in this file, but double in other files$"):
        merged(files, "in")


def test_too_many_combinations_are_refused() -> None:
    names = [f"x{number}" for number in range(7)]
    files = {
        str(which): {name: NULL if which >> place & 1 else FLOAT for place, name in enumerate(names)}
        for which in range(2 ** len(names))
    }
    with pytest.raises(InputError, match=r"^in: .* more than 100 combinations of column types \(of 'x0', 'x1', "):
        merged(files, "in")


def test_which_file_is_unlike_the_others() -> None:
    files = {"a": {"x": "int64"}, "b": {"x": "double"}, "c": {}, "d": {"x": "double"}}
    assert unlike(files, ["y", "x"]) == "a: column 'x' is int64 in this file, but double in other files"
    assert unlike(files, ["y"]) is unlike({}, ["x"]) is None
