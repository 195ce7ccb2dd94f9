"""CSV files: the good rows, and every way in which a row can be bad."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfs_io.config import InputConfig
from hdfs_io.preprocessing import Description, FittedPreprocessing, TensorSpec
from hdfs_io.sources import BadRow, ParsedRows, Source, csv, csv_columns, open_source
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError


def source(path: Path, **keys: Any) -> Source:
    return open_source(parse(InputConfig, {"format": "csv", "path": f"{path}", **keys}))


def write(folder: Path, content: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def items(opened: Source) -> list[Any]:
    return [item for task in opened.tasks() for item in opened.read(task)]


def read(opened: Source) -> tuple[Any, list[Any]]:
    rows = items(opened)
    assert not [item for item in rows if isinstance(item, BadRow)]
    labels = [label for item in rows if item.label is not None for label in item.label]
    return np.concatenate([item.tensors[0] for item in rows]), labels


def test_header_label_by_name_and_kept_columns(tmp_path: Path) -> None:
    path = write(tmp_path, 'id,a,class,b\nr1,1.5,x,2\n"r,2",-3e2,"y ""q""",0\n')
    opened = source(path, label="class", keep=["id"])
    assert opened.label_kind == "text" and list(opened.keep) == ["id"]
    values, labels = read(opened)
    np.testing.assert_array_equal(values, np.array([[1.5, 2], [-300, 0]], dtype=np.float32))
    assert labels == ["x", 'y "q"']
    assert items(opened)[0].keep == [["r1", "r,2"]]


def test_no_header_label_by_position_and_kinds_of_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "7,1,2\n8,3,4")
    for label, expected in ((0, [7, 8]), (-1, [2, 4]), (1, [1, 3])):
        opened = source(path, header=False, label=label)
        assert opened.label_kind == "integer"
        assert read(opened)[1] == expected
    numbers = source(write(tmp_path, "1,0.5\n2,3\n", "numbers.csv"), header=False)
    assert numbers.label_kind == "number"
    assert read(numbers)[1] == [0.5, 3.0]
    assert source(path, header=False, label_type="text").label_kind == "text"
    unlabelled = source(path, header=False, label=None)
    assert unlabelled.label_kind is None and unlabelled.tensors[0].shape == [3]


def test_delimiter_line_ends_byte_order_mark_and_empty_lines(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbf1;2;0\r\n\r\n3;4;1\r\n")
    values, labels = read(source(path, header=False, delimiter=";", dtype="uint8", shape=[2, 1]))
    assert values.tolist() == [[[1], [2]], [[3], [4]]] and values.dtype == np.uint8
    assert labels == [0, 1]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64"])
def test_dtypes_are_exact(tmp_path: Path, dtype: str) -> None:
    kind = np.dtype(dtype)
    limits: list[Any] = [np.iinfo(kind).min, np.iinfo(kind).max] if kind.kind in "iu" else [-1.5, 0.25]
    values, _ = read(source(write(tmp_path, f"{limits[0]},{limits[1]},0\n"), header=False, dtype=dtype))
    assert values.tolist() == [limits] and values.dtype == kind


@pytest.mark.parametrize("compressed", [False, True])
def test_ranges_of_bytes_give_every_row_once(tmp_path: Path, compressed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    expected = rng.integers(0, 1000, (200, 3))
    text = "a,b,c\n" + "".join(",".join(map(str, row)) + "\n" for row in expected.tolist())
    for ending in (text, text[:-1]):
        path = write(tmp_path, gzip.compress(ending.encode(), mtime=0) if compressed else ending)
        for size in (1, 7, 100, 10_000):
            monkeypatch.setattr(csv, "RANGE_BYTES", size)
            monkeypatch.setattr(csv, "BATCH_BYTES", max(1, size // 3))
            values, labels = read(source(path, dtype="int32"))
            found = np.column_stack([values, labels])
            np.testing.assert_array_equal(found, expected)


def test_a_folder_of_files(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"a,b\n{number},0\n", f"part-{number}.csv")
    write(tmp_path, "", "_SUCCESS")
    write(tmp_path, "no", ".hidden")
    assert read(source(tmp_path))[0].tolist() == [[0], [1], [2]]
    write(tmp_path, "b,a\n1,0\n", "part-3.csv")
    last = items(source(tmp_path))[-1]
    assert isinstance(last, BadRow) and last.fatal
    assert str(last) == f"{tmp_path}/part-3.csv: its header is not that of {tmp_path}/part-0.csv"


def test_missing_numbers_are_filled_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,c\n1,,0\nnan,2,1\n")
    values, _ = read(source(path, missing="mean"))
    np.testing.assert_array_equal(values, [[1, np.nan], [np.nan, 2]])
    assert len({value.tobytes() for value in values.reshape(-1) if np.isnan(value)}) == 1
    with pytest.raises(InputError, match=r"row 2: column 2 \(b\): is empty \(input.missing: mean fills gaps\)"):
        source(path)


BAD = {
    "1,2": "has 2 columns, 3 are needed",
    "1,2,3,4": "has 4 columns, 3 are needed",
    "1,abc,0": "column 2: 'abc' is not a whole number (uint8)",
    "256,1,0": "column 1: '256' is not a whole number from 0 to 255 (uint8)",
    "1.5,1,0": "column 1: '1.5' is not a whole number (uint8)",
    ",1,0": "column 1: is empty",
    "1,1,x": "column 3, the label: 'x' is not a whole number (int64)",
    "1,1,": "column 3, the label: is empty",
    "1,\xff,0": "is not UTF-8 text (byte 2 of the line)",
}


@pytest.mark.parametrize(("row", "reason"), BAD.items())
def test_the_first_bad_row_is_named_before_spark_starts(tmp_path: Path, row: str, reason: str) -> None:
    path = write(tmp_path, f"1,1,0\n1,2,1\n{row}\n1,3,0\n".encode("latin-1"))
    with pytest.raises(InputError) as caught:
        source(path, header=False, dtype="uint8", label_type="integer")
    assert str(caught.value) == f"{path}: row 3: {reason}"


@pytest.mark.parametrize(("row", "reason"), BAD.items())
@pytest.mark.parametrize("size", [40, 10_000])
def test_bad_rows_far_into_a_file_are_found_with_their_rows(
    tmp_path: Path, row: str, reason: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = "".join(f"{number % 256},1,0\n" for number in range(400))
    path = write(tmp_path, f"{good}\n{row}\n{good}{row}\n5,1,1\n".encode("latin-1"))
    monkeypatch.setattr(csv, "BATCH_BYTES", size)
    monkeypatch.setattr(csv, "RANGE_BYTES", 4 * size)
    opened = source(path, header=False, dtype="uint8", max_bad_rows=2)
    found = items(opened)
    bad = [item for item in found if isinstance(item, BadRow)]
    assert [item.reason for item in bad] == [reason, reason]
    assert [item.row + csv.lines_before(item.path, item.offset) for item in bad] == [402, 803]
    assert bad[0].text == row.replace("\xff", "\ufffd")
    values = np.concatenate([item.tensors[0] for item in found if isinstance(item, ParsedRows)])
    assert values[:, 0].tolist() == [number % 256 for number in range(400)] * 2 + [5]


def test_bad_rows_are_told_to_the_last_by_reason(tmp_path: Path) -> None:
    path = write(tmp_path, "1,0\n" + "x is y,0\n" * 1000 + ",0\n16777217,0\n1,one\ninf,0\n1\n")
    found = items(source(path, header=False, max_bad_rows=3, label_type="integer"))
    assert Counter(item.kind for item in found if isinstance(item, BadRow)) == {
        "column 1: not a number": 1000,
        "column 1: is empty": 1,
        "column 1: rounded by float32, the default": 1,
        "column 2, the label: not a whole number (int64)": 1,
        "column 1: not a finite number": 1,
        "another number of columns": 1,
    }


def test_infinite_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 2: column 1: 'inf' is not a finite number"):
        source(write(tmp_path, "1,0\ninf,1\n"), header=False, missing="mean")


def test_a_header_taken_for_a_row_is_explained(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"row 1: column 1: 'a' is not a number; is it a header \(input.header: true\)"
    ):
        source(write(tmp_path, "a,b\n1,2\n"), header=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("a,a\n1,2\n", "the header has 'a' twice"),
        ("a,\n1,2\n", "the header has an empty name"),
        ("a\n1\n", "has no columns left for features"),
        (gzip.compress(b"a,b\n" + bytes(range(256)) * 40, mtime=0)[:-30], "is truncated: the gzip stream has no end"),
    ],
)
def test_files_that_are_not_right_are_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError, match=message) as caught:
        source(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_gzip_file_truncated_far_from_its_beginning_is_found_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    text = "".join(f"{number},1\n" for number in rng.integers(0, 10**9, 50_000).tolist())
    path = write(tmp_path, gzip.compress(text.encode(), mtime=0)[:-1000])
    monkeypatch.setattr(csv, "_PROBE_BYTES", 1000)
    last = items(source(path, header=False, dtype="float64"))[-1]
    assert isinstance(last, BadRow) and last.fatal
    assert str(last) == f"{path}: is truncated: the gzip stream has no end"


@pytest.mark.parametrize(
    ("number", "becomes"),
    [
        ("16777217", "16777216"),
        ("-16777217", "-16777216"),
        (" 1700000061", "1700000000"),
        ("1700000061.0", "1700000000"),
        ("1700000061.25", "1700000000"),
        (str(2**60 + 1), str(2**60)),
    ],
)
def test_a_number_whose_whole_part_the_default_dtype_would_change_is_bad(
    tmp_path: Path, number: str, becomes: str
) -> None:
    rows = "".join(f"{value},{value % 2}\n" for value in range(9))
    path = write(tmp_path, f"when,y\n{rows}{number},1\n{rows}")
    message = f"{path}: row 11: column 1 (when): {number!r} is {becomes} in float32, the default; set input.dtype ("
    with pytest.raises(InputError, match=re.escape(message)):
        source(path)
    found = items(source(path, max_bad_rows=1))
    assert [str(item).startswith(message) for item in found if isinstance(item, BadRow)] == [True]
    assert sum(len(item) for item in found if isinstance(item, ParsedRows)) == 18
    values, _ = read(source(path, dtype="float64"))
    assert values[9] == float(number)
    # Asked for by name, it is rounded.
    assert read(source(path, dtype="float32"))[0][9] == np.float32(number)


def test_numbers_that_float32_keeps_or_that_have_an_exponent_pass(tmp_path: Path) -> None:
    path = write(tmp_path, f"16777216,0\n{2**40},1\n1e30,0\n-1.23456789e12,1\n16777216.25,0\n,1\n")
    values, _ = read(source(path, header=False, missing="mean"))
    expected = [2**24, 2**40, 1e30, -1.23456789e12, 2**24, np.nan]
    np.testing.assert_array_equal(values[:, 0], np.array(expected, np.float32))


@given(st.integers(-(2**70), 2**70))
def test_only_whole_numbers_that_float32_has_pass(number: int) -> None:
    assert (csv_columns.rounding_problem(str(number)) is None) == (int(np.float32(str(number))) == number)


def test_kept_columns_are_told_apart_without_their_case(tmp_path: Path) -> None:
    path = write(tmp_path, "a,A,Row_ID,split,label,y\n1,2,3,4,5,0\n1,2,3,4,5,1\n")
    assert list(source(path, keep=["A", "split"]).keep) == ["A", "split"]
    for keep, message in (
        (["Row_ID"], "'Row_ID' is taken ('row_id', and Spark takes no notice of case)"),
        (["a", "A"], "'A' is taken ('a', and Spark takes no notice of case)"),
        (["label"], "'label' is taken; rename it in the file"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            source(path, keep=keep)


def test_missing_files_and_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: does not exist"):
        source(tmp_path / "none")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="holds no files with rows"):
        source(tmp_path / "folder")
    path = write(tmp_path, "a,b,c\n1,2,3\n")
    for keys, message in (
        ({"label": "d"}, "label: .* has no column 'd'"),
        ({"label": 3}, "label: .* has 3 columns, 0 to 2"),
        ({"label": "c", "header": False}, "label: must be a position where there is no header"),
        ({"keep": ["c"]}, "keep: names the label"),
        ({"shape": [3]}, r"shape: does not fit 2 feature columns \(is \[3\]\)"),
        ({"missing": "mean", "dtype": "uint8"}, "missing: mean needs a float dtype"),
    ):
        with pytest.raises(ConfigError, match=message):
            source(path, **keys)
    other = write(tmp_path, "a,b,d\n1,2,3\n", "test.csv")
    with pytest.raises(InputError, match=r"test\.csv: its header is not that of"):
        source(path, test=f"{other}")


def trained_on(*names: str) -> Description:
    tensor = TensorSpec(name="x", dtype="float32", shape=[len(names)], columns=list(names) or None)
    return Description(tensors=[tensor], label=None, preprocessing=FittedPreprocessing())


def test_features_to_predict_go_by_their_names(tmp_path: Path) -> None:
    path = write(tmp_path, "b,id,a\n2,r1,1\n")
    config = parse(InputConfig, {"format": "csv", "path": f"{path}", "label": None, "keep": ["id"]})
    opened = open_source(config, trained_on("a", "b"))
    assert opened.tensors == trained_on("a", "b").tensors
    assert read(opened)[0].tolist() == [[1.0, 2.0]]
    assert items(opened)[0].keep == [["r1"]]
    without_names = trained_on().model_copy(update={"tensors": [TensorSpec(name="x", dtype="float32", shape=[2])]})
    assert read(open_source(config, without_names))[0].tolist() == [[2.0, 1.0]]
    with pytest.raises(InputError, match=r"rows\.csv: has no column 'c', which the model was trained on"):
        open_source(config, trained_on("a", "c"))
    with pytest.raises(InputError, match=r"rows\.csv: the model was not trained on column 'b': leave it out, or"):
        open_source(config, trained_on("a"))


def test_files_say_what_they_said_before_columns_had_names() -> None:
    assert "columns" not in TensorSpec(name="x", dtype="float32", shape=[1]).model_dump()
    assert TensorSpec(name="x", dtype="float32", shape=[1], columns=["a"]).model_dump()["columns"] == ["a"]
