"""Rows packed for the shuffle come out as they went in, each in its file, sorted."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdfs_io import row_ids
from hdfs_io.chunks import FILE, FileRows, Packing, Part
from hdfs_io.lane_files import Layout
from hdfs_io.preprocessing import LabelSpec, TensorSpec

LABELS = [
    None,
    LabelSpec(dtype="int64", classes=["a", "b"], kind="text"),
    LabelSpec(dtype="float32", kind="number"),
    LabelSpec(dtype="uint16", shape=[3], classes=["a"], kind="words"),
]
PARTITIONS = np.array([70, -3, 12, 9], np.int32)
LANES = 5
Row = tuple[Any, ...]


def layout_of(label: LabelSpec | None, kept: int, block_rows: int = 3) -> Layout:
    # A tensor may be called as our own columns are.
    tensors = [TensorSpec(name="text_0", dtype="uint8", shape=[2]), TensorSpec(name="y", dtype="float64", shape=[])]
    return Layout(tensors, label, [f"k{place}" for place in range(kept)], block_rows)


def columns_of(rows: list[Row], layout: Layout) -> list[pa.Array]:
    return [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(layout.schema)]


@st.composite
def packed(draw: st.DrawFn) -> tuple[Layout, list[tuple[int, Row]], list[int], int]:
    """(layout, (file, row) of each row, where batches end, bytes of a chunk)"""
    label, kept = draw(st.sampled_from(LABELS)), draw(st.integers(0, 2))
    layout = layout_of(label, kept)
    values: list[st.SearchStrategy[Any]] = [
        st.integers(-(2**63), 2**63 - 1),
        st.binary(min_size=2, max_size=2),
        st.binary(min_size=8, max_size=8),
    ]
    if label is not None:
        number = st.sampled_from([0.0, 1.5]) if label.kind == "number" else st.integers(0, 1)
        values.append(st.binary(min_size=6, max_size=6) if label.shape else number)
    values += [st.none() | st.text(max_size=5)] * kept
    rows = draw(st.lists(st.tuples(st.integers(0, 3), st.tuples(*values)), max_size=30))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    return layout, rows, [*cuts, len(rows)], draw(st.integers(1, 200))


@settings(max_examples=300)
@given(packed())
def test_every_row_comes_out_once_in_its_file_and_sorted(
    made: tuple[Layout, list[tuple[int, Row]], list[int], int],
) -> None:
    layout, rows, stops, chunk_bytes = made
    packing = Packing(layout, chunk_bytes, 1)
    sent: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    start = 0
    for stop in stops:
        if stop > start:
            files = np.array([file for file, _ in rows[start:stop]])
            batch = packing.pack(files, columns_of([row for _, row in rows[start:stop]], layout), PARTITIONS)
            assert batch.schema == packing.schema
            for key in batch.column(FILE).unique().to_pylist():
                sent[key].append(batch.filter(pa.compute.equal(batch.column(FILE), key)))
        start = stop
    for file, key in enumerate(PARTITIONS.tolist()):
        expected = [row for number, row in rows if number == file]
        parts = [packing.unpack(batch) for batch in sent.get(key, [])]
        if not parts:
            assert not expected
            continue
        found: list[Row] = []
        lanes: list[int] = []
        for lane, table in FileRows(packing, parts, LANES).sorted():
            assert table.schema == layout.schema and 0 < table.num_rows <= layout.block_rows
            found += [tuple(row.values()) for row in table.to_pylist()]
            lanes += [lane] * table.num_rows
        ids = [row[0] % 2**64 for row in found]
        assert lanes == [each % LANES for each in ids]
        assert list(zip(lanes, ids, strict=True)) == sorted(zip(lanes, ids, strict=True))
        assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_a_chunk_is_of_one_file_and_about_as_long_as_wanted() -> None:
    layout = layout_of(None, 1)
    packing = Packing(layout, 100, 1)
    rows = [(number, b"ab", bytes(8), "x" * 8) for number in range(40)]  # 22 bytes of a record, and 8
    batch = packing.pack(np.arange(40) % 3, columns_of(rows, layout), PARTITIONS)
    assert batch.column(FILE).to_pylist() == sorted(batch.column(FILE).to_pylist(), key=[70, -3, 12].index)
    lengths = [len(records) + len(texts) for _, records, texts in (row.values() for row in batch.to_pylist())]
    assert max(lengths) <= 100 + 30 and sum(lengths) == 40 * 30
    assert len(lengths) == 12  # three or four rows in each


def test_a_row_that_is_longer_than_a_chunk_has_one_of_its_own() -> None:
    layout = layout_of(None, 1)
    rows = [(number, b"ab", bytes(8), "x" * 500) for number in range(4)]
    batch = Packing(layout, 100, 1).pack(np.zeros(4, np.int64), columns_of(rows, layout), PARTITIONS)
    assert batch.num_rows == 4


def test_chunks_in_a_batch_stay_few_bytes_and_many_files_make_tasks_collect_more() -> None:
    few, many = (Packing.of(layout_of(None, 0), files, 10_000) for files in (4, 8000))
    assert few.chunk_bytes == many.chunk_bytes and few.chunk_bytes * 10_000 <= 32 * 2**20
    assert few.enough == 4 * few.chunk_bytes and many.enough == 8000 * few.chunk_bytes
    assert Packing.of(layout_of(None, 0), 10**6, 10_000).enough == 32 * 2**20


def test_a_row_of_another_size_is_refused_not_cut() -> None:
    layout = layout_of(None, 0)
    rows = [(1, b"abc", bytes(8)), (2, b"d", bytes(8))]
    with pytest.raises(ValueError, match="rows of text_0 do not have 2 bytes each"):
        Packing(layout, 100, 1).pack(np.zeros(2, np.int64), columns_of(rows, layout), PARTITIONS)


def test_texts_that_do_not_fit_their_lengths_are_refused() -> None:
    layout = layout_of(None, 1)
    packing = Packing(layout, 1000, 1)
    batch = packing.pack(np.zeros(1, np.int64), columns_of([(1, b"ab", bytes(8), "four")], layout), PARTITIONS)
    damaged = batch.set_column(2, "text_0", pa.array([b"fou"], pa.binary()))
    with pytest.raises(ValueError, match="the kept texts have 3 bytes, not 4"):
        packing.unpack(damaged)


def test_rows_of_many_parts_are_not_copied_before_they_are_written() -> None:
    """The records stay views of what Spark handed over: a file is in memory once."""
    layout = layout_of(None, 0)
    packing = Packing(layout, 1000, 1)
    batch = packing.pack(np.zeros(1, np.int64), columns_of([(1, b"ab", bytes(8))], layout), PARTITIONS)
    part: Part = packing.unpack(batch)
    assert part.records.base is not None and not part.records.flags.owndata
    assert row_ids.lane_of(part.records["row_id"].view(np.uint64), LANES).tolist() == [1]
