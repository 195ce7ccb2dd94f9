"""The arithmetic under the order of rows."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset import row_ids

U64S = st.lists(st.integers(0, 2**64 - 1), max_size=50)


def splitmix64(x: int) -> int:
    mask = 2**64 - 1
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


@given(U64S)
def test_mix64_is_splitmix64s_finaliser(values: list[int]) -> None:
    mixed = row_ids.mix64(np.array(values, dtype=np.uint64))
    assert mixed.dtype == np.uint64
    assert mixed.tolist() == [splitmix64(value) for value in values]
    assert [row_ids.mix64_int(value) for value in values] == mixed.tolist()


def test_mix64_agrees_with_the_published_generator() -> None:
    # The first outputs of Vigna's splitmix64.c seeded with 1234567.
    with np.errstate(over="ignore"):
        state = np.uint64(1234567) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, 4, dtype=np.uint64)
    assert row_ids.mix64(state).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(U64S, st.integers(0, 5))
def test_checksum_does_not_depend_on_order_and_adds_up(values: list[int], cut: int) -> None:
    ids = np.array(values, dtype=np.uint64)
    whole = row_ids.row_checksum(ids)
    assert whole == sum(splitmix64(value) for value in values) % 2**64
    assert whole == row_ids.row_checksum(ids[::-1])
    assert whole == (row_ids.row_checksum(ids[:cut]) + row_ids.row_checksum(ids[cut:])) % 2**64


@given(st.lists(st.integers(0, 3), max_size=40))
def test_duplicates_are_numbered_in_order_and_get_ids_of_their_own(groups: list[int]) -> None:
    content = row_ids.mix64(np.array([[group, group + 10] for group in groups], dtype=np.uint64).reshape(-1, 2))
    numbers = row_ids.duplicate_numbers(content)
    assert numbers.tolist() == [groups[:place].count(group) for place, group in enumerate(groups)]
    ids = row_ids.row_id(content[:, 0], numbers)
    assert len(set(ids.tolist())) == len(groups)
    assert (ids[numbers == 0] == content[:, 0][numbers == 0]).all()


@given(U64S, st.integers(1, 200))
def test_lanes_are_of_the_unsigned_id(values: list[int], lanes: int) -> None:
    ids = np.array(values, dtype=np.uint64)
    assert row_ids.lane_of(ids, lanes).tolist() == [value % lanes for value in values]
    assert row_ids.unsigned(row_ids.signed(ids)).tolist() == values


def test_content_hash_is_blake2b_of_the_bytes() -> None:
    rows = np.arange(12, dtype=np.uint8).reshape(3, 4)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
    assert row_ids.content_hash(rows).astype("<u8").tobytes() == b"".join(digests)
    texts = [b"a", "ä".encode(), b""]
    digests = [
        hashlib.blake2b(row.tobytes() + text, digest_size=16).digest() for row, text in zip(rows, texts, strict=True)
    ]
    assert row_ids.content_hash(rows, texts).astype("<u8").tobytes() == b"".join(digests)
    assert row_ids.content_hash(np.zeros((0, 4), dtype=np.uint8)).shape == (0, 2)


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
@pytest.mark.parametrize("equal", [False, True])
def test_the_cut_is_uniform_and_even_within_lanes(seed: int, equal: bool) -> None:
    """Whether the rows are all different or all equal."""
    numbers = np.arange(20_000)
    content = row_ids.mix64(np.arange(40_000, dtype=np.uint64).reshape(-1, 2))
    if equal:
        content = np.broadcast_to(content[7], content.shape)
    fraction = row_ids.split_fraction(content, numbers if equal else 0, seed)
    assert ((fraction >= 0) & (fraction < 1)).all()
    lanes = row_ids.lane_of(row_ids.row_id(content[:, 0], numbers if equal else 0), 4)
    for lane in range(4):
        share = (fraction[lanes == lane] < 0.1).mean()
        assert share == pytest.approx(0.1, abs=0.02)
    other = row_ids.split_fraction(content, numbers if equal else 0, seed + 1)
    assert abs(np.corrcoef(fraction, other)[0, 1]) < 0.03
    some = numbers[:10] if equal else 0
    assert (fraction[:10] == row_ids.split_fraction(content[:10], some, seed)).all()
