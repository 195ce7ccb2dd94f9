"""Rows that are packed in chunks come out as they went in."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.prepare.passes.codec import Codec, Part, chunk_bytes
from sparksplit.spark.batches import BATCH_BYTES

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.binary(8): st.binary(min_size=8, max_size=8),
    pa.binary(): st.binary(max_size=5) | st.none(),
    pa.string(): st.none() | st.text(max_size=5),
}
Row = tuple[Any, ...]


@st.composite
def rows_of_a_schema(draw: st.DrawFn) -> tuple[Codec, list[Row]]:
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=5))
    rows = draw(st.lists(st.tuples(*(KINDS[kind] for kind in kinds)), max_size=30))
    return Codec(
        pa.schema([(name, kind) for name, kind in zip(["f1", "", "é", "f1", "a:b"], kinds, strict=False)])
    ), rows


def columns_of(codec: Codec, rows: list[Row]) -> list[pa.Array]:
    return [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(codec.unpacked)]


def rows_of(codec: Codec, part: Part) -> list[Row]:
    columns = codec.columns(part)
    assert [column.type for column in columns] == codec.unpacked.types
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@settings(max_examples=300)
@given(rows_of_a_schema(), st.integers(1, 200))
def test_rows_keep_their_order_and_values(made: tuple[Codec, list[Row]], size: int) -> None:
    codec, rows = made
    _, chunks = codec.pack(columns_of(codec, rows), size)
    assert rows_of(codec, codec.unpack(chunks)) == rows


@settings(max_examples=300)
@given(rows_of_a_schema(), st.integers(1, 200), st.data())
def test_each_group_has_its_rows_in_chunks_of_its_own(
    made: tuple[Codec, list[Row]], size: int, data: st.DataObject
) -> None:
    codec, rows = made
    group = np.array(data.draw(st.lists(st.sampled_from([0, 1, 7, 300]), min_size=len(rows), max_size=len(rows))), int)
    chosen, chunks = codec.pack(columns_of(codec, rows), size, group)
    found: dict[int, list[Row]] = {}
    for place, row in enumerate(chosen.tolist()):
        part = codec.unpack([column.slice(place, 1) for column in chunks])
        assert len(part.records)
        found.setdefault(int(group[row]), []).extend(rows_of(codec, part))
    wanted: dict[int, list[Row]] = {}
    for number, row in zip(group.tolist(), rows, strict=True):
        wanted.setdefault(number, []).append(row)
    assert found == wanted


@given(rows_of_a_schema(), st.data())
def test_rows_are_taken_from_several_parts(made: tuple[Codec, list[Row]], data: st.DataObject) -> None:
    codec, rows = made
    if not rows:
        return
    cuts = sorted({0, len(rows), *data.draw(st.lists(st.integers(0, len(rows)), max_size=3))})
    pieces = [rows[start:stop] for start, stop in pairwise(cuts)]
    parts = [codec.unpack(codec.pack(columns_of(codec, piece), 50)[1]) for piece in pieces]
    places = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=40))
    taken = codec.taken(parts, np.array(cuts), np.array(places))
    assert rows_of(codec, taken) == [rows[place] for place in places]


MIXED = Codec(pa.schema([("id", pa.int64()), ("x", pa.binary(2)), ("k", pa.string())]))


def mixed(texts: list[str | None]) -> list[pa.Array]:
    return columns_of(MIXED, [(place, b"ab", text) for place, text in enumerate(texts)])


def test_a_chunk_is_about_as_long_as_wanted_and_has_a_row_at_least() -> None:
    _, chunks = MIXED.pack(mixed(["x" * 6] * 40), 100)  # 14 bytes of a record, and 6
    lengths = [len(records) + len(texts) for records, texts in zip(*(c.to_pylist() for c in chunks), strict=True)]
    assert lengths == [100] * 8
    _, chunks = MIXED.pack(mixed(["x" * 500] * 4), 100)
    assert len(chunks[0]) == 4
    assert chunk_bytes(10_000) * 10_000 <= BATCH_BYTES and chunk_bytes(10**9) == 1


def test_what_is_unpacked_is_not_copied() -> None:
    """A file is in memory once while its rows are collected."""
    part = MIXED.unpack(MIXED.pack(mixed(["a", None]), 100)[1])
    assert not part.records.flags.owndata and part.records["f2"].tolist() == [1, -1]


def test_a_value_of_another_size_is_refused_not_cut() -> None:
    columns = [pa.array([1, 2]), pa.array([b"abc", b"d"], pa.binary()), pa.array(["", ""])]
    with pytest.raises(ValueError, match="a row of tensor x does not have 2 bytes"):
        MIXED.pack(columns, 100)


def test_a_number_that_is_null_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid):
        MIXED.pack([pa.array([1, None]), pa.array([b"ab"] * 2, pa.binary()), pa.array(["", ""])], 100)


def test_texts_that_do_not_fit_their_lengths_are_refused() -> None:
    records, _ = MIXED.pack(mixed(["four"]), 100)[1]
    with pytest.raises(ValueError, match="k has 3 bytes, not 4"):
        MIXED.unpack([records, pa.array([b"fou"], pa.binary())])
