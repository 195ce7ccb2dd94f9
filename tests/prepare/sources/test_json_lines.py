"""JSON as Spark reads it: lines that are no objects are bad rows, each with its file, line and text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sparksplit.base.errors import InputError
from sparksplit.prepare.passes.parse import parse
from sparksplit.prepare.sources.json_lines import line_problem
from sparksplit.prepare.tables.line_numbers import assigned, find_lines
from tests.prepare.sources.raw_columns import bad_of, rows_of, source


@pytest.mark.slow
def test_a_line_that_is_no_object_is_a_bad_row(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "good.json").write_text('{"x": 1.5, "y": 1}\n')
    good, latin = '{"x": 2.5, "y": 0}\n', '{"x": 1, "y": "é"}\n'.encode("latin-1")
    (tmp_path / "a" / "mixed.json").write_bytes((good + '{"x": \t"\\\n\n  \nnone\n' + good).encode() + latin)
    opened = source(spark, format="json", path=f"{tmp_path}/a", max_bad_rows=3)
    assert opened.tensors[0].columns == ["x"] and opened.label_kind == "integer"
    assert rows_of(spark, opened) == [(0, 1.5, 1), (0, 2.5, 0), (0, 2.5, 0)]
    bad = bad_of(spark, opened, 3)
    told = assigned(bad, find_lines(spark, [(row.path, row.row) for row in bad]))
    assert sorted((Path(row.path).name, row.row, row.text, row.reason) for row in told) == [
        ("mixed.json", 2, '{"x": \t"\\', "is not a JSON object"),
        ("mixed.json", 5, "none", "is not a JSON object"),
        ("mixed.json", 7, '{"x": 1, "y": "\ufffd"}', "is not a JSON object"),
    ]


def test_a_file_without_objects_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "one.json").write_text('{\n "x": 1,\n "y": 1\n}\n')
    with pytest.raises(
        InputError, match=r"^\S+: no line is a JSON object; write each row as one JSON object on its own line$"
    ):
        source(spark, format="json", path=f"{tmp_path}")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"x": 1, "y": {"x": [{"x": NaN}]}}', None),
        (b' \t{"x": "\xc3\xa9 }"} \r', None),
        (b"{}", None),
        (b'{"x": ' + b"9" * 5000 + b"}", None),
        (b'{"x": 1}{"x": 2}', "has text after its JSON object"),
        (b'{"x": 1} garbage', "has text after its JSON object"),
        (b'{"x": 1}}', "has text after its JSON object"),
        (b"null", "is not a JSON object"),
        (b"[]", "is not a JSON object"),
        (b'[{"x": 1}]', "is not a JSON object"),
        (b"5", "is not a JSON object"),
        (b'{"x": 1', "is not a JSON object"),
        (b'{"x": "\xe9"}', "is not a JSON object"),
        (b'{"x": ' * 100_000, "is not a JSON object"),
        (b'{"x": 1, "x": 2}', "has the key 'x' twice"),
        (b'{"z": {"x": 1, "x": 2}}', "has the key 'x' twice"),
    ],
)
def test_a_line_is_one_object_and_nothing_else(line: bytes, problem: str | None) -> None:
    assert line_problem(line) == problem


def test_every_line_is_a_row_or_a_bad_row(spark: SparkSession, tmp_path: Path) -> None:
    good = '{"x": 1, "X": 2, "y": 0}\n  \n{"X": 4.5, "x": 3, "y": 1}\n'
    bad = {
        '{"x":1,"X":2,"y":0}{"x":2,"X":2,"y":1}': "has text after its JSON object",
        '{"x":3,"X":2,"y":0} garbage': "has text after its JSON object",
        '{"x":3,"X":2,"y":0}5': "has text after its JSON object",
        "null": "is not a JSON object",
        "[]": "is not a JSON object",
        '[{"x":7,"X":2,"y":0}]': "is not a JSON object",
        '{"x":3,"X":2,"y":0,"y":1}': "has the key 'y' twice",
        '{"x":"","X":2,"y":0}': "has a value of another type than its column, such as an empty text among numbers",
    }
    (tmp_path / "one.json").write_text(good + "".join(f"{line}\n" for line in bad))
    opened = source(spark, format="json", path=f"{tmp_path}", max_bad_rows=99, missing="mean")
    assert opened.tensors[0].columns == ["X", "x"]
    assert rows_of(spark, opened) == [(0, 2, 1, 0), (0, 4.5, 3, 1)]
    found = bad_of(spark, opened, 99)
    told = assigned(found, find_lines(spark, [(row.path, row.row) for row in found]))
    assert sorted((row.row, row.text, row.reason) for row in told) == [
        (4 + place, line, reason) for place, (line, reason) in enumerate(bad.items())
    ]


def test_nan_beside_texts_is_a_missing_value(spark: SparkSession, tmp_path: Path) -> None:
    numbers = ["NaN", "-Infinity", "Infinity", "12", '"NaN"', '"a"']
    lines = (f'{{"id": {number}, "v": {place}, "y": 0}}\n' for place, number in enumerate(numbers))
    (tmp_path / "a.json").write_text("".join(lines))
    opened = source(spark, format="json", path=f"{tmp_path}", keep=["id"])
    assert [row[-1] for row in rows_of(spark, opened)] == [None, "-Infinity", "Infinity", "12", "NaN", "a"]


@pytest.mark.slow
def test_whole_numbers_stay_exact_beside_fractions(spark: SparkSession, tmp_path: Path) -> None:
    large = 2**53 + 1
    for name, numbers in {
        "a": [f"{large}", "1.0", "2e3", "1.5", "9223372036854775808.0", "NaN"],
        "b": [f"{large}", "-7"],
    }.items():
        lines = [f'{{"x": {number}, "id": {number}, "y": 0}}\n' for number in numbers]
        (tmp_path / f"{name}.json").write_text("".join(lines))
    for train, test in ("ab", "ba"):
        keys = {"path": f"{tmp_path}/{train}.json", "test": f"{tmp_path}/{test}.json", "dtype": "int64"}
        opened = source(spark, format="json", keep=["id"], max_bad_rows=9, **keys)
        good = parse(spark, opened).where("bad is null").collect()
        found = {(row.part, int(np.frombuffer(row.tensor_0, "<i8")[0]), row.keep_0) for row in good}
        first, second = (0, 2) if train == "a" else (2, 0)
        assert found == {
            (first, large, f"{large}"), (first, 1, "1.0"), (first, 2000, "2000.0"), (second, large, f"{large}"),
            (second, -7, "-7"),
        }  # fmt: skip
        assert sorted(row.reason for row in bad_of(spark, opened, 9)) == [
            "column 'x': '1.5' is not a whole number (int64)",
            f"column 'x': '9223372036854776000' is not a whole number from {-(2**63)} to {2**63 - 1} (int64)",
            "column 'x': 'NaN' is not a whole number (int64)",
        ]


def test_labels_that_are_classes_stay_exact_beside_numbers_with_a_point(spark: SparkSession, tmp_path: Path) -> None:
    labels = [f"{2**53 + 1}", f"{2**53}", "1.0"]
    (tmp_path / "a.json").write_text("".join(f'{{"x": {place}, "y": {label}}}\n' for place, label in enumerate(labels)))
    opened = source(spark, format="json", path=f"{tmp_path}", label_type="integer")
    assert rows_of(spark, opened) == [(0, 0, 2**53 + 1), (0, 1, 2**53), (0, 2, 1)]
