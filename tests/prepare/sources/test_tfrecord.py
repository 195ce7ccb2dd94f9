"""TFRecord files that TensorFlow wrote: records, Examples, and what is wrong with them."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as some

from sparksplit.base.errors import InputError
from sparksplit.prepare.sources import tfrecord
from sparksplit.prepare.sources.examples import Feature, columns, features_of
from sparksplit.prepare.sources.tfrecord import DamagedFile, records
from tests.prepare.sources.raw_columns import bad_of, rows_of, source
from tests.prepare.tfrecords import example, write

_FLOATS = some.lists(some.floats(width=32, allow_nan=False), min_size=0, max_size=3)
_INTS = some.lists(some.integers(-(2**63), 2**63 - 1), min_size=0, max_size=3)
_TEXTS = some.lists(some.text(max_size=3).map(str.encode), min_size=0, max_size=3)


def read(content: bytes) -> list[bytes]:
    return [record for batch in records(io.BytesIO(content)) for record in batch]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_are_those_that_tensorflow_wrote(tmp_path, compression, monkeypatch):
    monkeypatch.setattr(tfrecord, "BATCH_BYTES", 1000)
    # One record is larger than a piece; one has a length whose bytes begin as gzip does.
    wanted = [b"x" * 0x8B1F, b"", *(bytes([number]) * number for number in range(200)), b"last"]
    path = write(tmp_path / "file", wanted, compression)
    with path.open("rb") as file:
        batches = list(records(file))
    assert [record for batch in batches for record in batch] == wanted
    assert len(batches) > 3
    assert read(write(tmp_path / "none", [], compression).read_bytes()) == []


_THREE = [b"first", b"", b"the third"]


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """The content of a file of `_THREE`."""
    return write(tmp_path_factory.mktemp("three") / "file", _THREE).read_bytes()


@given(data=some.data())
def test_a_file_that_ends_too_soon_or_has_another_bit_is_told(three, data):
    content, ends = three, np.cumsum([0] + [len(record) + 16 for record in _THREE]).tolist()
    cut = data.draw(some.integers(0, len(content) - 1))
    if cut in ends:  # nothing in the format tells that there were more
        assert read(content[:cut]) == _THREE[: ends.index(cut)]
    else:
        with pytest.raises(DamagedFile, match="is truncated: it ends within record"):
            read(content[:cut])
    at, bit = data.draw(some.integers(0, len(content) - 1)), data.draw(some.integers(0, 7))
    with pytest.raises(DamagedFile, match=r"is damaged: the checksum of record \d|is not a TFRecord file"):
        read(content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :])


def test_damaged_files_say_where(tmp_path):
    content = write(tmp_path / "two", [b"first", b"second"]).read_bytes()
    with pytest.raises(DamagedFile, match=r"truncated: it ends within record 2, which begins at byte 21"):
        read(content[:-1])
    with pytest.raises(DamagedFile, match=r"damaged: the checksum of record 2, which begins at byte 21, is wrong"):
        read(content[:-5] + b"\0" + content[-4:])
    with pytest.raises(DamagedFile, match="is not a TFRecord file: the checksum at its start is wrong"):
        read(b"a,b,label\n1,2,0\n3,4,1\n")
    packed = write(tmp_path / "packed", [b"first"] * 1000, "GZIP").read_bytes()
    with pytest.raises(DamagedFile, match="is truncated: the gzip stream has no end"):
        read(packed[:-9])


@given(some.lists(some.fixed_dictionaries({"a": _FLOATS, "b": _INTS, "c": _TEXTS}), min_size=1, max_size=8))
def test_columns_are_what_tensorflow_put_in(rows):
    written = [example(**row) for row in rows]
    features = features_of(written)
    made, wrong = columns(written, features)
    assert wrong == {}
    for feature, column in zip(features, made, strict=True):
        assert column.type == feature.type
        lists = [row[feature.name] or None for row in rows]
        if feature.kind == "text":
            lists = [None if row is None else [value.decode() for value in row] for row in lists]
        assert column.to_pylist() == (lists if feature.several else [row and row[0] for row in lists])
    assert {feature.name for feature in features} == {name for row in rows for name, values in row.items() if values}


def test_features_come_by_name_with_numbers_as_numbers():
    written = [example(f10=[1.0], f9=[1.0], label=[1], é=[2.0], f=[b"a"]), b"\xff no example"]
    assert [feature.name for feature in features_of(written)] == ["f", "f9", "f10", "label", "é"]


def test_features_have_the_kind_that_they_have_first():
    written = [example(a=[], b=[1, 2], c=[b"text"]), example(a=[1.0], b=[1], c=[b"\xff"])]
    assert features_of(written) == [
        Feature("a", "float", False), Feature("b", "int64", True), Feature("c", "binary", False)
    ]  # fmt: skip


def test_what_is_wrong_with_a_record():
    features = [Feature("a", "float", False), Feature("b", "int64", False), Feature("c", "text", False)]
    bad = {
        b"\xff no example": "is not a tf.train.Example",
        example(a=[1.0, 2.0], b=[1], c=[b""]): "feature 'a' has 2 values, 1 is needed",
        example(a=[1], b=[1], c=[b""]): "feature 'a' is int64 here and float in the first records of the input",
        example(a=[1.0], b=[b"1"], c=[b""]): "feature 'b' is text here and int64 in the first records of the input",
        example(a=[1.0], b=[1], c=[b"\xff"]): "feature 'c' is not UTF-8 text",
        example(a=[1.0], b=[1], c=[b""], d=[1]): "has a feature 'd', which the first records of the input do not have",
    }
    good = example(a=[1.5], b=[7], c=["ü".encode()])
    made, wrong = columns([*bad, good, example()], features)
    assert wrong == dict(enumerate(bad.values()))
    assert [column.to_pylist()[-2:] for column in made] == [[1.5, None], [7, None], ["ü", None]]


def test_floats_that_are_not_packed_are_read():
    """As proto2's writers did: each float with its own tag."""

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    floats = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.5, -2.0))
    written = field(1, field(1, field(1, b"x") + field(2, field(2, floats))))
    assert tf.train.Example.FromString(written).features.feature["x"].float_list.value == [1.5, -2.0]
    (column,), wrong = columns([written], features_of([written]))
    assert (column.to_pylist(), wrong) == ([[1.5, -2.0]], {})


def test_files_of_examples_are_rows(spark, tmp_path):
    raw = tmp_path / "raw 10%20"
    (raw / "day=1").mkdir(parents=True)
    (raw / "day=2").mkdir()
    rows = [example(f10=[number], f9=[number / 2], y=[number % 2], id=[b"%d" % number]) for number in range(4)]
    write(raw / "day=1" / "a.tfrecord", rows[:3])
    write(raw / "day=2" / "b.tfrecord.gz", rows[3:], "GZIP")
    write(raw / "day=2" / "c.tfrecord", [example(f9=[1.0], y=[1], f10=[], id=[b"5"]), b"\xff"])
    (raw / "day=2" / "_SUCCESS").write_text("no records")
    write(tmp_path / "held", [example(f9=[4.0], f10=[5], y=[0], id=[b"held"], day=[3])])
    opened = source(
        spark, format="tfrecord", path=f"{raw}", test=f"{tmp_path}/held", keep=["id", "day"], max_bad_rows=2
    )
    assert opened.tensors[0].columns == ["f9", "f10"]
    assert rows_of(spark, opened) == [
        (0, 0, 0, 0, "0", "1"), (0, 0.5, 1, 1, "1", "1"), (0, 1, 2, 0, "2", "1"), (0, 1.5, 3, 1, "3", "2"),
        (2, 4, 5, 0, "held", "3"),
    ]  # fmt: skip
    assert [str(bad) for bad in bad_of(spark, opened, 2)] == [
        f"{raw}/day=2/c.tfrecord: row 1: column 'f10': is null; input.missing: mean fills missing values",
        f"{raw}/day=2/c.tfrecord: row 2: is not a tf.train.Example",
    ]


def test_an_array_is_the_tensor_and_a_damaged_file_ends_the_job(spark, tmp_path):
    write(tmp_path / "a", [example(x=[1.5, 2.5], y=[b"cat"]), example(x=[1.5], y=[b"dog"])])
    good = source(spark, format="tfrecord", path=f"{tmp_path}/a", max_bad_rows=1)
    assert rows_of(spark, good) == [(0, 1.5, 2.5, "cat")]
    (bad,) = bad_of(spark, good, 1)
    assert str(bad) == f"{tmp_path}/a: row 2: column 'x': has 1 values, 2 are needed"
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "b").write_bytes(whole[:-1])
    damaged = source(spark, format="tfrecord", path=[f"{tmp_path}/a", f"{tmp_path}/b"], max_bad_rows=10)
    with pytest.raises(InputError, match=f"^{tmp_path}/b: is truncated: it ends within record 2, which begins"):
        bad_of(spark, damaged, 10)
    (tmp_path / "b").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=f"^{tmp_path}/b: the first records are not tf.train.Examples with features"):
        source(spark, format="tfrecord", path=f"{tmp_path}/b")


def test_files_that_only_sparks_hadoop_knows(spark, tmp_path, elsewhere):
    (tmp_path / "raw%20x").mkdir()
    write(tmp_path / "raw%20x" / "a", [example(x=[1.5], y=[1])])
    write(tmp_path / "raw%20x" / "b", [example(x=[2.5], y=[0])], "GZIP")
    opened = source(spark, format="tfrecord", path=elsewhere(tmp_path, "raw%20x"))
    assert rows_of(spark, opened) == [(0, 1.5, 1), (0, 2.5, 0)]
