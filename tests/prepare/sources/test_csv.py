"""CSV and Hive's text files as Spark reads them: the good rows, and every way in which a row can be bad."""

from __future__ import annotations

import bz2
import gzip
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sparksplit.base.config import parse as parse_config
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.features.feature_config import FeatureConfig
from sparksplit.prepare import bad_rows
from sparksplit.prepare.cut_config import CutConfig
from sparksplit.prepare.passes.parse import parse
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import BadRow, Source, open_with_spark
from sparksplit.prepare.tables.columns import DataFrameSource
from sparksplit.prepare.tables.input_failures import input_failures
from sparksplit.prepare.tables.line_numbers import assigned, find_lines
from sparksplit.prepare.tables.readers import Raw
from sparksplit.prepare.tables.readers import read as raw_of

OPEN = "a quoted field does not close on its line (input.multiline: true reads line breaks within quotes)"


def source(spark: SparkSession, path: Path | str, trained: Description | None = None, **keys: Any) -> Source:
    return open_with_spark(spark, parse_config(InputConfig, {"format": "csv", "path": f"{path}", **keys}), trained)


def read(spark: SparkSession, opened: Source) -> tuple[list[tuple[Any, ...]], list[tuple[int, str, str]]]:
    """(kept, values, label) of the good rows, sorted; (line, reason, text) of the bad ones."""
    dtype = opened.tensors[0].numpy_dtype
    with input_failures(spark, opened.place, [file.path for file in opened.files]):
        frame = parse(spark, opened).cache()
        try:
            found = [BadRow(**row.asDict()) for row in bad_rows.of(frame).orderBy("path", "offset").collect()]
            bad = assigned(found, find_lines(spark, [(row.path, row.row) for row in found]))
            rows = frame.where("bad is null").collect()
        finally:
            frame.unpersist()
    first = 5 if opened.label_kind else 4
    good = [
        (*row[first:-2], *np.frombuffer(row.tensor_0, dtype).tolist(), *([row.label] if opened.label_kind else []))
        for row in rows
    ]
    return sorted(good, key=str), [(row.row, row.reason, row.text) for row in bad]


def write(folder: Path, content: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


LINES: dict[bytes, Any] = {
    b'"a,b",1,0': ("a,b", 1, 0),
    b'"a ""b""",1,0': ('a "b"', 1, 0),
    b'"",1,0': ("", 1, 0),
    b",1,0": ("", 1, 0),
    b'5" disk,1,0': ('5" disk', 1, 0),
    b'a"b,1,"0"': ('a"b', 1, 0),
    b"a,1,0\r": ("a", 1, 0),
    b"a, 1 ,+0": ("a", 1, 0),
    b"  ,1,0": ("  ", 1, 0),
    b"#a,1,0": ("#a", 1, 0),
    b"a\\,1,0": ("a\\", 1, 0),
    b'a,1,0"': "column 'y', the label: '0\"' is not a whole number (int64)",
    b'"a"",1,0': OPEN,
    b'x"y,"1,0': "has 2 columns, 3 are needed",
    b'"': OPEN,
    b'"a",1': "has 2 columns, 3 are needed",
    b"1,2,3,4": "has 4 columns, 3 are needed",
    b"a,abc,0": "column 'x': 'abc' is not a number",
    b"a,,0": "column 'x': is empty; input.missing: mean fills missing values",
    b"a,nan,0": "column 'x': is 'nan'; input.missing: mean fills missing values",
    b"a,inf,0": "column 'x': 'inf' is not a finite number",
    b"a,1d,0": "column 'x': '1d' is not a number",
    b"a,0x1p3,0": "column 'x': '0x1p3' is not a number",
    b"a,16777217,0": "column 'x': '16777217' is 16777216 in float32, the default",
    b"a,1,x": "column 'y', the label: 'x' is not a whole number (int64)",
    b"a,1,": "column 'y', the label: is empty",
    b"a,1,0x1": "column 'y', the label: '0x1' is not a whole number (int64)",
    b"a,\xff,0": "column 'x': '\ufffd' is not a number",
    b"\xff,1,0": "a column to keep is not UTF-8 text (input.encoding)",
}


def test_every_line_is_a_row_or_a_bad_row_named_by_its_number(spark: SparkSession, tmp_path: Path) -> None:
    lines = [b"\xef\xbb\xbft,x,y", b"z,9,9", b"", *LINES, b"\r", b"z,8,8"]
    path = write(tmp_path, gzip.compress(b"\n".join(lines), mtime=0), "my%20 rows.csv.gz")
    good, bad = read(spark, source(spark, path, keep=["t"], label_type="integer", max_bad_rows=1000))
    expected = [row for row in LINES.values() if isinstance(row, tuple)]
    assert good == sorted([*expected, ("z", 9, 9), ("z", 8, 8)], key=str)
    wrong = {number: (line, LINES[line]) for number, line in enumerate(lines, 1) if isinstance(LINES.get(line), str)}
    assert [number for number, _, _ in bad] == list(wrong)
    for (_, reason, text), (line, wanted) in zip(bad, wrong.values(), strict=True):
        assert reason.startswith(wanted)
        assert text == line.decode(errors="replace")


@pytest.mark.slow
@pytest.mark.parametrize("keys", [{}, {"multiline": True}])
def test_bad_rows_have_their_lines_also_where_columns_are_ignored_or_cut_by(
    spark: SparkSession, tmp_path: Path, keys: dict[str, Any]
) -> None:
    """By lines, and by Spark's reader. The text is the whole line: nothing else would find it."""
    lines = ["a,day,b,y", "n,1,0.5,0", "m,2,x,1", "p,3,7,1", "q,4,z,0"]
    config = parse_config(
        InputConfig, {"format": "csv", "path": f"{write(tmp_path, chr(10).join(lines))}", "max_bad_rows": 2, **keys}
    )
    wanted = {"a": FeatureConfig(kind="ignore"), "b": FeatureConfig(kind="number")}
    by_day = CutConfig(by="time", column="day")
    for cut, own in ((None, wanted | {"day": FeatureConfig(kind="ignore")}), (by_day, wanted)):
        opened = open_with_spark(spark, config, None, cut, own)
        assert opened.table is not None and [column.name for column in opened.table.columns] == ["b"]
        _, bad = read(spark, opened)
        assert [(line, text) for line, _, text in bad] == [(3, lines[2]), (5, lines[4])]


def test_a_file_with_nothing_but_a_header_tells_nothing_of_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    for name, rows in (("a", ""), ("b", ""), ("c", "1,no\n2,yes\n"), ("d", "")):
        write(tmp_path, f"x,y\n{rows}", f"{name}.csv")
    opened = source(spark, tmp_path)
    assert opened.label_kind == "text" and read(spark, opened) == ([(1, "no"), (2, "yes")], [])
    write(tmp_path, "", "c.csv")
    assert source(spark, tmp_path).tensors[0].columns == ["x"]


def test_many_tasks_read_every_row_once_and_number_the_bad_ones(spark: SparkSession, tmp_path: Path) -> None:
    lines = [f"{number},{'x' if number % 700 == 699 else number % 7},{number % 3}" for number in range(3000)]
    for name in ("a.csv", "b.csv"):
        write(tmp_path, "\n".join(["i,x,y", *lines]), name)
    keys = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    before = {key: spark.conf.get(key) for key in keys}
    try:
        for key in keys:
            spark.conf.set(key, "5000")
        opened = source(spark, tmp_path, max_bad_rows=100)
        assert opened.raw(spark)[0].rdd.getNumPartitions() > 8
        good, bad = read(spark, opened)
    finally:
        for key, value in before.items():
            spark.conf.set(key, str(value))
    assert len(good) == 2 * (3000 - 4)
    assert [(number, text) for number, _, text in bad] == [
        (number + 2, lines[number]) for number in (699, 1399, 2099, 2799)
    ] * 2


def test_positions_delimiters_comments_markers_encodings_and_compressions(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbf1;2;0\r\n\r\n3;4;1\r\n")
    opened = source(spark, path, header=False, delimiter=";", dtype="uint8", shape=[2, 1])
    assert opened.tensors[0].shape == [2, 1] and opened.tensors[0].columns is None and opened.label_kind == "integer"
    assert read(spark, opened)[0] == [(1, 2, 0), (3, 4, 1)]
    first = source(spark, path, header=False, delimiter=";", label=0, keep=[-1])
    assert list(first.keep) == ["column_2"] and read(spark, first)[0] == [("0", 2.0, 1), ("1", 4.0, 3)]
    assert source(spark, path, header=False, delimiter=";", label=None).tensors[0].shape == [3]

    path = write(
        tmp_path, bz2.compress("k,x,y\n% no\ncaf\u00e9,NA,0.5\nb,\\N,1\n'c,d',7,2\n".encode("latin-1")), "a.csv.bz2"
    )
    keys = {"encoding": "ISO-8859-1", "comment": "%", "quote": "'", "nulls": ["NA", "\\N"], "missing": "mean"}
    opened = source(spark, path, keep=["k"], **keys)
    assert opened.label_kind == "number"
    good, bad = read(spark, opened)
    assert [(row[0], str(row[1]), row[2]) for row in good] == [
        ("b", "nan", 1.0), ("c,d", "7.0", 2.0), ("caf\u00e9", "nan", 0.5),
    ]  # fmt: skip

    path = write(tmp_path, 't,x,y\n"a\nb",1,0\n"c \\"d\\"",x,1\n"e\nf",y,2\n', "lines.csv")
    good, bad = read(spark, source(spark, path, keep=["t"], multiline=True, escape="\\", max_bad_rows=9))
    assert good == [("a\nb", 1.0, 0)]
    assert [(number, reason) for number, reason, _ in bad] == [
        (4, "column 'x': 'x' is not a number"), (5, "column 'x': 'y' is not a number"),
    ]  # fmt: skip


MESSY = ["".join(text) for size in range(1, 6) for text in product('",1 ', repeat=size)]
MORE = [
    b"\xff,1", b"\xed\xa0\x80,1", b"1,\xed\xa0", b"\xe2\x82,1", "\ufeff1,1".encode(), b"1,1\r2,1\r\n3,1",
    b"", b"\t", b"\x01", "\u00a0".encode(), b'"\x01",1', b"1,0x1", b"1,NA", b"NA,1",
    b'"NA",1', b"1,1e400", "\u00e9,\u0661".encode(),
]  # fmt: skip


@pytest.mark.parametrize("delimiter", [b",", b"\t", b"\x01"])
def test_a_line_is_the_same_row_whether_we_split_it_or_spark(
    spark: SparkSession, tmp_path: Path, delimiter: bytes
) -> None:
    lines = [line.encode() for line in MESSY] + MORE
    for number in range(3):
        own = [line.replace(b",", delimiter) for line in lines[number::3]]
        write(tmp_path, b"\n".join([b" ", delimiter.join((b'"k"', b"x")), *own]), f"m/p=a{number}/{number}.csv")
    given = {
        "format": "csv",
        "path": f"{tmp_path}/m",
        "keep": ["k", "p"],
        "label": None,
        "delimiter": delimiter.decode(),
    }
    config = parse_config(InputConfig, given | {"nulls": ["", "NA"], "missing": "mean", "max_bad_rows": 10_000})
    raw = raw_of(spark, config)
    assert raw.parts["train"].lines is not None
    by_spark = Raw({"train": replace(raw.parts["train"], lines=None)}, raw.files)
    ours, theirs = (
        sorted(re.sub(r"offset=\d+", "", str(row)) for row in parse(spark, DataFrameSource(config, each)).collect())
        for each in (raw, by_spark)
    )
    assert len(ours) > 0.9 * len(lines) and ours == theirs


@pytest.mark.parametrize("keys", [{}, {"escape": "\\"}, {"multiline": True}, {"encoding": "ISO-8859-1"}])
@pytest.mark.parametrize("delimiter", [",", "\t", "\x01"])
def test_a_line_of_empty_cells_is_a_row(
    spark: SparkSession, tmp_path: Path, delimiter: str, keys: dict[str, Any]
) -> None:
    rows = ["a", "1"], ["", ""], ['""', '""'], ["", ""], ["b", ""]
    lines = [delimiter.join(row) for row in rows]
    longer = [] if delimiter == "," else [delimiter * 2]  # is a bad row, and no blank line
    path = write(
        tmp_path, "\n".join(["k" + delimiter + "x", *lines[:3], "", *lines[3:], "", *longer, ""]), "t/day=1/rows.csv"
    )
    given = {"format": "csv", "delimiter": delimiter, "label": None, "missing": "mean", "keep": ["k", "day"], **keys}
    config = parse_config(InputConfig, given | {"path": f"{path.parent.parent}", "max_bad_rows": 1})
    good, bad = read(spark, open_with_spark(spark, config))
    reasons = [reason for _, reason, _ in bad]
    assert reasons == ["has 3 columns, 2 are needed"] * len(longer) or (keys.get("multiline") and not bad)
    assert [(*row[:2], str(row[2])) for row in good] == [
        ("", "1", "nan"), ("", "1", "nan"), ("", "1", "nan"), ("a", "1", "1.0"), ("b", "1", "nan"),
    ]  # fmt: skip


def test_dtypes_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    for dtype in ("uint64", "int64"):
        limits = np.iinfo(dtype)
        path = write(tmp_path, f"{limits.min},{limits.max},0\n", f"{dtype}.csv")
        assert read(spark, source(spark, path, header=False, dtype=dtype))[0] == [(limits.min, limits.max, 0)]


def test_hives_text_files(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "", "t/day=01/000000_0")
    write(tmp_path, '1.5\x01"q\x010\n\\N\x01b\x011\n', "t/day=01/000001_0")
    write(tmp_path, "2.5\x01\\N\x01x\n\x01d\x011\n", "t/day=02/000000_0")
    keys = {"format": "hive-text", "label_type": "integer", "missing": "mean", "max_bad_rows": 9}
    opened = source(spark, tmp_path / "t", columns=["x", "k", "y"], label="y", keep=["k", "day"], **keys)
    good, bad = read(spark, opened)
    assert [(*row[:2], str(row[2]), row[3]) for row in good] == [
        ('"q', "01", "1.5", 0), ("b", "01", "nan", 1), ("d", "02", "nan", 1),
    ]  # fmt: skip
    assert bad == [(1, "column 'y', the label: 'x' is not a whole number (int64)", "2.5\x01\\N\x01x")]
    assert opened.tensors[0].columns == ["x"]
    with pytest.raises(ConfigError, match="label: must be the label's column"):
        source(spark, tmp_path / "t", **keys)


@pytest.mark.slow
def test_files_with_other_headers_are_named(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a,b\n1,0\n", "m/1.csv")
    for content, message in (
        ("b,a\n1,0\n", "its header differs from the other files: it has 'b' instead of 'a'"),
        ("a\n1\n", "its header has 1 columns, but the other files have 2"),
        ("\nA,b\n1,0\n", "its header differs from the other files: it has 'A' instead of 'a'"),
    ):
        other = write(tmp_path, content, "m/2.csv")
        for keys in ({}, {"encoding": "ISO-8859-1"}) if content.startswith("b") else ({},):
            with pytest.raises(InputError) as caught:
                opened = source(spark, tmp_path / "m", **keys)
                with input_failures(spark, opened.place, []):
                    bad_rows.NONE.check(bad_rows.tally(bad_rows.of(parse(spark, opened))), 1)
            assert str(caught.value) == f"{other}: {message}"
        with pytest.raises(InputError) as caught:
            source(spark, tmp_path / "m" / "1.csv", test=f"{other}")
        assert str(caught.value) == f"{other}: its header differs from that of {tmp_path}/m/1.csv"


def test_a_damaged_file_among_others_is_named(spark: SparkSession, tmp_path: Path) -> None:
    rows = "".join(f"{number},1\n" for number in np.random.default_rng(0).integers(0, 10**6, 20_000).tolist())
    packed = gzip.compress(f"a,b\n{rows}".encode(), mtime=0)
    write(tmp_path, packed, "m/1.csv.gz")
    damaged = write(tmp_path, packed[:-1000], "m/2.csv.gz")
    with pytest.raises(InputError) as caught:
        read(spark, source(spark, tmp_path / "m"))
    assert str(caught.value) == f"{damaged}: is truncated: the gzip stream has no end"


@pytest.mark.parametrize(
    ("content", "keys", "message"),
    [
        ("\n\n", {}, "is empty"),
        ("a,a\n1,2\n", {}, "row 1: the header has 'a' twice"),
        ("a,\n1,2\n", {}, "row 1: the header has an empty name"),
        ("a\n1\n", {}, "has no columns left for features (1 in all)"),
        (
            "a;b\n1;2\n",
            {},
            "has no columns left for features (1 in all); if its columns are separated by ';', set "
            "input.delimiter: semicolon",
        ),
        (
            "a,b\n1,2\n",
            {"header": False},
            "row 1: column 1: 'a' is not a number; if row 1 is a header, set input.header: true",
        ),
    ],
)
def test_files_that_are_not_right_are_refused(
    spark: SparkSession, tmp_path: Path, content: str, keys: dict[str, Any], message: str
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        source(spark, path, **keys)
    assert str(caught.value) == f"{path}: {message}"


def test_mixed_columns_take_float_dtypes_alone(spark: SparkSession, tmp_path: Path) -> None:
    """An unsigned tensor has no value for a missing number: it was 0, and 0 was refused."""
    path = write(tmp_path, "a,b,y\n1,x,0\n,y,1\n")
    for dtype in ("uint8", "int32"):
        with pytest.raises(ConfigError) as caught:
            source(spark, path, dtype=dtype)
        assert str(caught.value) == f"dtype: must be a float dtype for mixed columns (is {dtype})"
    assert [tensor.dtype for tensor in source(spark, path, dtype="float32").tensors] == ["float32"]


def test_columns_that_are_not_there_and_names_that_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, "a,A,Row_ID,label,y\n1,2,3,5,0\n1,2,3,5,1\n")
    assert list(source(spark, path, keep=["A"]).keep) == ["A"]
    for keys, message in (
        ({"keep": ["Row_ID"]}, "'Row_ID' is taken ('row_id'; Spark ignores case)"),
        ({"keep": ["a", "A"]}, "'A' is taken ('a'; Spark ignores case)"),
        ({"keep": ["y"]}, "keep: names the label"),
        ({"label": "d"}, "has no column 'd'; it has a, A"),
        ({"label": 5}, "has 5 columns, 0 to 4"),
        ({"shape": [3]}, "does not fit 4 features (is [3])"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            source(spark, path, **keys)


def test_features_to_predict_go_by_their_names(spark: SparkSession, tmp_path: Path) -> None:
    def trained_on(*names: str) -> Description:
        tensor = TensorSpec(name="x", dtype="float32", shape=[len(names)], columns=list(names))
        return Description(tensors=[tensor], label=None, preprocessing=FittedPreprocessing())

    path = write(tmp_path, "b,id,a\n2,r1,1\n")
    opened = source(spark, path, trained_on("a", "b"), label=None, keep=["id"])
    assert read(spark, opened)[0] == [("r1", 1.0, 2.0)]
    missing = r"rows\.csv: has no column 'C', which the model was trained on; it has b, a"
    with pytest.raises(InputError, match=missing):
        source(spark, path, trained_on("a", "C"), label=None, keep=["id"])
    less = source(spark, path, trained_on("a"), label=None, keep=["id"])
    assert less.notes == ["columns that the model was not trained on are left out: b"]
    assert read(spark, less)[0] == [("r1", 1.0)]


def test_rows_to_predict_have_the_label_and_the_kept_columns_of_the_models_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    tensor = TensorSpec(name="x", dtype="float32", shape=[1], columns=["a"])
    label = LabelSpec(dtype="int64", classes=["0", "1"])
    trained = Description(
        tensors=[tensor], label=label, preprocessing=FittedPreprocessing(), label_name="y", keep=["id", "day"]
    )
    found = source(spark, write(tmp_path, "y,id,day,a\n1,r1,mon,2\n"), trained)
    assert (found.label_name, found.keep, found.notes) == ("y", ["id", "day"], [])
    assert read(spark, found)[0] == [("r1", "mon", 2.0, 1)]
    found = source(spark, write(tmp_path, "id,a\nr1,2\n"), trained)
    assert (found.label_kind, found.keep) == (None, ["id"])
    assert found.notes == [
        "has no label column 'y', so predictions have no metrics", "has no column 'day', which the training data kept",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"label: .* has no column 'y'; it has id, a"):
        source(spark, tmp_path / "rows.csv", trained, label="y")
    assert source(spark, tmp_path / "rows.csv", trained, keep=[]).keep == []
    marked = trained.model_copy(update={"nulls": ["", "NA"]})
    found = source(spark, write(tmp_path, "y,a\n1,NA\n0,2\n"), marked, missing="mean")
    rows, bad = read(spark, found)
    assert (rows[0], np.isnan(rows[1][0]), bad, found.nulls) == ((2.0, 0), True, [], ["", "NA"])
    assert "texts for a missing value, as in the training data: '', 'NA' (input.nulls sets other texts)" in found.notes
    own = source(spark, tmp_path / "rows.csv", marked, missing="mean", nulls=[""])
    assert own.nulls == [""] and len(read(spark, own)[1]) == 1
    unnamed = source(spark, write(tmp_path, "2,1\n3,0\n"), trained, header=False)
    assert unnamed.label_kind == "integer" and unnamed.label_name is None
