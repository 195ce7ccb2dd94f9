"""Lanes, blocks and files by the number of rows, and Spark's hash: integers in, integers out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset import plan, row_ids
from sparksplit.dataset.manifest import SPLITS
from sparksplit.dataset.plan import Plan

MIB = 2**20


def test_lanes_grow_with_the_rows_and_so_does_not_what_a_node_reads_at_a_time() -> None:
    assert plan.lanes_for(0, 8) == plan.lanes_for(60_000, 793) == plan.lanes_for(5_000_000, 88) == 96
    assert plan.lanes_for(1_281_167, 150_528) == 768
    assert plan.lanes_for(10**9, 88) == plan.lanes_for(10**12, 88) == 1536
    found = [(lanes, plan.block_bytes(lanes, 512 * 1024)) for lanes in (1, 96, 192, 384, 768, 1536)]
    assert [size // 1024 for _, size in found] == [512, 512, 512, 512, 256, 128]
    assert [plan.window_for(*each) for each in found] == [4, 4, 2, 1, 1, 1]


def test_blocks_are_sized_by_bytes() -> None:
    assert [plan.block_rows(size, 512 * 1024) for size in (800, 1, 10**6)] == [655, 4096, 16]


@given(st.integers(1, 100_000), st.integers(1024, 64 * MIB))
def test_a_nodes_memory_does_not_grow_with_lanes(lanes: int, block_size: int) -> None:
    block = plan.block_bytes(lanes, block_size)
    window = plan.window_for(lanes, block)
    assert block <= block_size and 1 <= window <= 4
    assert 2 * lanes * window * block <= max(plan.READING_BYTES, 2 * lanes * 16 * 1024)


@given(st.integers(0, 10**12), st.integers(8, 10**6), st.integers(1, 4096 * MIB))
def test_files_have_the_size_that_was_asked_or_less(rows: int, row_bytes: int, file_size: int) -> None:
    files = plan.files_for(rows, row_bytes, file_size)
    assert files * file_size >= rows * row_bytes
    assert (files == 0) == (rows == 0)
    assert files <= max(1, -(-rows * row_bytes // file_size), min(32, rows * row_bytes // (8 * MIB)))


def test_a_small_set_has_files_for_several_tasks() -> None:
    sizes = [0, 1, 9 * MIB, 47 * MIB, 256 * MIB, 4096 * MIB, 2**40]
    assert [plan.files_for(size, 1, 128 * MIB) for size in sizes] == [0, 1, 1, 5, 32, 32, 8192]


@given(
    st.lists(st.integers(0, 200), min_size=3, max_size=3),
    st.integers(1, 20),
    st.integers(40, 2000),
    st.integers(0, 2**32),
)
def test_every_row_has_a_file_and_a_files_rows_follow_each_other(
    counts: list[int], lanes: int, file_size: int, seed: int
) -> None:
    where = Plan.of(dict(zip(SPLITS, counts, strict=True)), 8, lanes, file_size)
    split = np.repeat(np.arange(3, dtype=np.int32), counts)
    ids = np.random.default_rng(seed).integers(0, 2**64, len(split), dtype=np.uint64)
    lane = row_ids.lane_of(ids, lanes)
    order = np.lexsort((ids, lane, split))
    file = where.file(split, lane, ids)[order]
    assert (np.diff(file) >= 0).all() and ((file >= 0) & (file < where.files)).all()
    names = [where.path(number) for number in range(where.files)]
    assert len(set(names)) == len(names) and names == sorted(names, key=lambda name: SPLITS.index(name.split("/")[0]))
    rows = np.bincount(file, minlength=where.files)
    earlier: Counter[tuple[str, int]] = Counter()
    for number, offset in enumerate(where.offsets(rows).tolist()):
        place = where.split_of(number), where.first_lane(number)
        assert offset == earlier[place]
        earlier[place] += int(rows[number])
    for number, own in zip(file.tolist(), order.tolist(), strict=True):
        assert where.split_of(number) == SPLITS[split[own]]
        within = where.splits[split[own]]
        assert where.first_lane(number) <= lane[own] < where.first_lane(number) + within.per_file
        assert within.per_file == 1 or within.per_lane == 1


def test_files_are_called_by_their_lanes() -> None:
    few = Plan.of({"train": 100, "validation": 0, "test": 10}, 8, 96, 10**9)
    assert [few.path(number) for number in range(few.files)] == [
        "train/lanes-000-095.parquet",
        "test/lanes-000-095.parquet",
    ]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_the_upper_half_of_a_product(left: int, right: int) -> None:
    found = plan.high_product(np.array([left], np.uint64), np.array([right], np.uint64))
    assert int(found[0]) == left * right >> 64


@pytest.mark.parametrize("partitions", [1, 2, 7, 96, 1000, 9216])
def test_every_partition_has_its_key(partitions: int) -> None:
    keys = plan.partition_keys(partitions)
    assert (plan.spark_hash(keys) % np.int32(partitions) == np.arange(partitions)).all()
    assert len(set(keys.tolist())) == partitions


def test_the_hash_is_sparks() -> None:
    """Values of `SELECT hash(...)`; tests/commands/test_at_size.py asks Spark."""
    found = plan.spark_hash(np.array([0, 1, -1, 42], np.int32))
    assert found.tolist() == [933211791, -559580957, -1604776387, 29417773]
