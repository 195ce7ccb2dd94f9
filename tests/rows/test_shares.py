"""The rows of each node in the mini-batches that nodes share, against the rows as they are dealt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.rows import order, shares

LANES = st.lists(st.integers(0, 90), min_size=1, max_size=12).filter(any).map(lambda rows: np.array(rows, np.int64))


def dealt(lane_rows, owner, nodes, batch_size):
    """The rows of each node in each mini-batch."""
    updates = order.updates_per_epoch(int(lane_rows.sum()), batch_size)
    counts = []
    for rank in range(nodes):
        position = order.deal(lane_rows, np.flatnonzero(owner == rank), 0, int(lane_rows.max())).position
        counts.append(np.diff(order.batch_offsets(position, batch_size, 0, updates)))
    return np.stack(counts, axis=1)


def by_hash(rows, lanes, seed=1):
    """The rows of each lane of a prepared data set."""
    return np.bincount(np.random.default_rng(seed).integers(0, lanes, rows), minlength=lanes)


@given(LANES, st.integers(1, 5), st.integers(1, 70), st.randoms(use_true_random=False), st.sampled_from([300, 1 << 21]))
def test_shares_are_counted_as_rows_are_dealt(lane_rows, nodes, batch_size, random, cells):
    owner = np.array([random.randrange(nodes) for _ in lane_rows])
    wanted = dealt(lane_rows, owner, nodes, batch_size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shares, "_CELLS", cells)
        largest = shares.largest_share(lane_rows, owner, batch_size)
        typical = shares.typical_shares(lane_rows, owner, nodes, batch_size)
    assert largest == pytest.approx(wanted.max(axis=1).mean())
    full = wanted[wanted.sum(axis=1) == min(batch_size, lane_rows.sum())]
    assert (full == typical).all(axis=1).any()
    assert abs(typical.max() - largest) == pytest.approx(np.abs(full.max(axis=1) - largest).min())


@pytest.mark.parametrize(("rows", "nodes", "batch_size"), [(9_546, 32, 96), (57_906, 48, 96), (1_000, 16, 64)])
def test_lanes_by_hash_end_at_different_depths(rows, nodes, batch_size):
    lane_rows, owner = by_hash(rows, 96), np.arange(96) % nodes
    wanted = dealt(lane_rows, owner, nodes, batch_size).max(axis=1).mean()
    assert shares.largest_share(lane_rows, owner, batch_size) == pytest.approx(wanted)
    # Full lanes, as if no lane ended before the others.
    full = shares.largest_share(np.full(96, 1000), owner, batch_size)
    assert wanted > 1.08 * full


def test_one_long_lane_leaves_its_node_alone():
    lane_rows = np.array([1000] + [10] * 15)
    assert shares.largest_share(lane_rows, np.arange(16) % 2, 64) == pytest.approx(59.4, abs=0.05)


def test_no_more_is_counted_if_all_lanes_have_further_rows():
    lane_rows, owner = by_hash(20_000, 96), np.arange(96) % 64

    def numbers(lane_rows):
        return len(shares._Dealing(lane_rows, owner, 64)._numbers()[0])

    assert numbers(lane_rows + 10**12) <= numbers(lane_rows) + 3 < 200
