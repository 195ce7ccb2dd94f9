"""What executors make of what a source reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparksplit.dataset.description import WEIGHT, TensorSpec
from sparksplit.prepare.cut_config import By
from sparksplit.prepare.passes.parse import (
    CONTENT,
    CUT,
    features_hash,
    parsed_schema,
    reader_of,
    to_batch,
    together,
    told_apart,
)
from sparksplit.prepare.source import BadRow, BadRows, ParsedRows


def test_bad_rows_that_follow_each_other_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparksplit.prepare.passes.parse._TOGETHER", 3)
    bad = [BadRow("f", row, "is short", kind="" if row % 2 else "short") for row in range(7)]
    good = ParsedRows([np.zeros((2, 1))], None)
    found = list(
        together([("train", bad[0]), ("train", good), *(("train", row) for row in bad[1:6]), ("test", bad[6])])
    )
    assert [(name, len(item)) for name, item in found] == [
        ("train", 1),
        ("train", 2),
        ("train", 3),
        ("train", 2),
        ("test", 1),
    ]
    rows = [row for _, item in found if isinstance(item, BadRows) for row in item]
    assert [row.row for row in rows] == list(range(7))
    assert {row.kind for row in rows} == {"short", "is short"}


def test_rows_with_equal_features_have_one_hash_whatever_their_label() -> None:
    x = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [np.nan, 1.0], [np.nan, 1.0]], np.float32)
    first = features_hash([x])
    assert first.dtype == np.int64 and first[0] == first[1] != first[2] and first[3] == first[4] != first[0]
    b = pa.array(["b", "b"])
    one, other = (features_hash([x[:2]], [pa.array(texts), b]) for texts in ([None, ""], ["b", None]))
    assert one[0] == one[1] == other[1] != other[0]
    bytes_ = np.array([[0], [1]], np.uint8)
    assert len({*features_hash([bytes_, bytes_]), *features_hash([bytes_])}) == 4


@pytest.mark.parametrize(
    ("by", "names"),
    [("row", ["keep_0"]), ("features", ["keep_0"]), ("key", ["keep_0", CUT]), ("time", ["keep_0", CUT])],
)
def test_equal_rows_are_told_apart_by_what_the_cut_goes_by_where_that_is_their_own(by: By, names: list[str]) -> None:
    x, weight = (TensorSpec(name=name, dtype="float32", shape=[]) for name in ("x", WEIGHT))
    source: Any = SimpleNamespace(keep=["id"], cut_by=by, tensors=[x])
    assert told_apart(source) == names
    source.tensors = [x, weight]
    assert told_apart(source) == [*names, "tensor_1"]


def test_a_weight_is_no_part_of_a_rows_content_nor_of_its_features() -> None:
    """It comes with every row, since it tells equal ones apart."""
    specs = [TensorSpec(name=name, dtype="float32", shape=[]) for name in ("x", WEIGHT)]
    source: Any = SimpleNamespace(tensors=specs, label_kind="integer", keep=[], table=None, cut_by="features")
    source.label_places = None
    x, label, weight = np.array([1, 1], np.float32), np.array([0, 0]), np.array([1, 5], np.float32)
    schema = parsed_schema(source)
    batches = []
    for given in (ParsedRows([x], label, weight=weight), ParsedRows([x], label)):
        ((name, rows),) = reader_of(source, lambda _, given=given: iter([("train", given)]))([])  # type: ignore[misc]
        named = schema if given.weight is not None else schema.remove(schema.get_field_index("tensor_1"))
        batches.append(to_batch(rows, name, named, wanted=False))
    for column in (*CONTENT, CUT):
        values = [batch.column(column).to_pylist() for batch in batches]
        assert values[0] == values[1] and values[0][0] == values[0][1]
    assert batches[0].column("tensor_0").null_count == 2
    assert batches[0].column("tensor_1").to_pylist() == [value.tobytes() for value in weight]


def test_what_the_cut_goes_by_comes_with_the_rows_and_not_with_bad_ones() -> None:
    source: Any = SimpleNamespace(tensors=[None], label_kind=None, keep=[], table=None)
    schema = parsed_schema(source)
    rows = ParsedRows([np.zeros((2, 1), np.float32)], None, cut=np.array([3, -4]))
    assert to_batch(rows, "train", schema).column(CUT).to_pylist() == [3, -4]
    bad = to_batch(BadRows.of([BadRow("f", 1, "is short"), BadRow("f", 2, "is long")]), "test", schema)
    assert bad.column(CUT).to_pylist() == [None, None] and bad.column("part").to_pylist() == [2, 2]
    assert [row["kind"] for row in bad.column("bad").to_pylist()] == ["is short", "is long"]
