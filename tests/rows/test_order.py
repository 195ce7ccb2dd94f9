"""The order of rows, over many (lane lengths, B, N, seed), against a plain simulation of dealing."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.rows import order

LANES = st.lists(st.integers(0, 40), min_size=1, max_size=12).map(lambda rows: np.array(rows, np.int64))


def simulate(lane_rows):
    """(lane, depth) in the order of positions, one row at a time."""
    taken, dealt = [0] * len(lane_rows), []
    while len(dealt) < sum(lane_rows):
        for lane, rows in enumerate(lane_rows):
            if taken[lane] < rows:
                dealt.append((lane, taken[lane]))
                taken[lane] += 1
    return dealt


@given(LANES)
def test_rows_above_counts_what_a_simulation_has_dealt_before_a_depth(lane_rows):
    depths = np.arange(45)
    expected = [sum(depth < limit for _, depth in simulate(lane_rows)) for limit in depths]
    assert order.rows_above(lane_rows, depths).tolist() == expected


@given(LANES, st.data())
def test_depth_of_is_the_depth_of_the_row_at_that_position(lane_rows, data):
    dealt = simulate(lane_rows)
    position = data.draw(st.integers(0, len(dealt)))
    expected = dealt[position][1] if position < len(dealt) else max(lane_rows)
    assert order.depth_of(lane_rows, position) == expected


@given(LANES, st.integers(1, 5), st.integers(1, 17))
def test_the_nodes_together_deal_every_row_once_at_the_simulated_position(lane_rows, nodes, step):
    nodes = min(nodes, len(lane_rows))
    found = {}
    for rank in range(nodes):
        own = order.owned_lanes(len(lane_rows), rank, nodes)
        for first in range(0, int(lane_rows.max()), step):
            dealt = order.deal(lane_rows, own, first, min(first + step, int(lane_rows.max())))
            assert (np.diff(dealt.position) > 0).all()
            depths, lanes = np.nonzero(dealt.present)
            for lane, depth, position in zip(own[lanes], first + depths, dealt.position, strict=True):
                assert position not in found
                found[int(position)] = (int(lane), int(depth))
    assert [found[position] for position in range(len(found))] == simulate(lane_rows)


def dealt_by_all(lane_rows, own, first, last):
    """What `deal` gives, from a table of all lanes at all depths."""
    depths = np.arange(first, last)
    present = lane_rows[None, :] > depths[:, None]
    positions = order.rows_above(lane_rows, depths)[:, None] + np.cumsum(present, axis=1) - 1
    return present[:, own], positions[:, own][present[:, own]]


@given(
    st.one_of(
        LANES,
        st.lists(st.integers(990, 1010), min_size=1, max_size=80).map(lambda rows: np.array(rows, np.int64)),
    ),
    st.data(),
)
def test_a_node_that_looks_at_its_own_lanes_deals_as_one_that_looks_at_all(lane_rows, data):
    """Lanes of any lengths, and the nearly equal ones that a hash gives; any lanes of its own, none among them."""
    first = data.draw(st.integers(0, int(lane_rows.max()) + 2))
    last = data.draw(st.integers(first, int(lane_rows.max()) + 5))
    own = np.array(sorted(data.draw(st.sets(st.sampled_from(range(len(lane_rows)))))), np.int64)
    found = order.deal(lane_rows, own, first, last)
    present, position = dealt_by_all(lane_rows, own, first, last)
    assert found.present.shape == present.shape and (found.present == present).all()
    assert found.position.dtype == np.int64 and found.position.tolist() == position.tolist()


@pytest.mark.parametrize(("first", "last", "rows"), [(100, 200, 1200), (950, 1003, 612)], ids=["whole", "ending"])
def test_a_node_of_a_thousand_takes_memory_for_its_own_rows(first, last, rows):
    """Of 12,000 lanes; a table of all rows at these depths would take 10 MB for each of its columns, or 5 MB at their
    ends."""
    lane_rows = np.full(12_000, 1000) + np.arange(12_000) % 3
    own = order.owned_lanes(12_000, 7, 1000)
    tracemalloc.start()
    try:
        dealt = order.deal(lane_rows, own, first, last)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert len(dealt.position) == rows


@given(LANES, st.integers(1, 4), st.integers(1, 30))
def test_the_shares_of_every_mini_batch_add_up_to_it(lane_rows, nodes, batch_size):
    nodes, total = min(nodes, len(lane_rows)), int(lane_rows.sum())
    updates = order.updates_per_epoch(total, batch_size)
    shares = np.zeros(updates, np.int64)
    for rank in range(nodes):
        own = order.owned_lanes(len(lane_rows), rank, nodes)
        positions = order.deal(lane_rows, own, 0, int(lane_rows.max())).position
        shares += np.diff(order.batch_offsets(positions, batch_size, 0, updates))
    assert shares.sum() == total
    assert (shares[:-1] == batch_size).all()


@given(st.integers(0, 500), st.integers(0, 2**64 - 1))
def test_a_permutation_holds_every_index_once(length, key):
    assert sorted(order.permutation(length, np.uint64(key))) == list(range(length))


@given(st.integers(0, 400), st.integers(1, 50), st.integers(1, 5), st.integers(0, 9), st.integers(0, 9))
def test_an_epoch_reads_every_row_of_a_lane_once(lane_rows, block_rows, window, seed, epoch):
    shuffle = order.Shuffle(block_rows, window, seed, epoch)
    blocks = shuffle.blocks(3, lane_rows)
    assert sorted(blocks) == list(range(-(-lane_rows // block_rows)))
    if lane_rows % block_rows:
        assert blocks[-1] == lane_rows // block_rows
    for number in range(-(-lane_rows // shuffle.window_rows)):
        rows = min(lane_rows - number * shuffle.window_rows, shuffle.window_rows)
        assert sorted(shuffle.rows(3, number, rows)) == list(range(rows))


def test_seed_epoch_lane_and_window_each_change_the_order():
    base = order.Shuffle(50, 4, 1, 2)
    others = [order.Shuffle(50, 4, 9, 2).rows(3, 0, 200), order.Shuffle(50, 4, 1, 9).rows(3, 0, 200)]
    others += [base.rows(9, 0, 200), base.rows(3, 9, 200)]
    assert all((base.rows(3, 0, 200) != other).any() for other in others)
    assert (base.rows(3, 0, 200) == order.Shuffle(50, 4, 1, 2).rows(3, 0, 200)).all()


def test_the_order_is_the_same_in_every_version():
    """Golden values: a change here changes the result of every run with the same seed."""
    assert order.permutation(8, order.key(1, 2, 3)).tolist() == [3, 6, 5, 1, 7, 0, 2, 4]
    assert int(order.key(1, 2, 3)) == 11915362669685056693


@pytest.mark.parametrize(("rows", "batch", "updates"), [(0, 5, 0), (1, 5, 1), (5, 5, 1), (6, 5, 2)])
def test_updates_per_epoch_rounds_up(rows, batch, updates):
    assert order.updates_per_epoch(rows, batch) == updates


@given(LANES, st.integers(1, 5), st.integers(1, 40))
def test_even_shares_are_those_of_the_deal(lane_rows, nodes, batch_size):
    rows = int(lane_rows.sum())
    for rank in range(min(nodes, len(lane_rows))):
        own = order.owned_lanes(len(lane_rows), rank, nodes)
        updates, share = order.even_share(lane_rows, own, batch_size)
        dealt = order.deal(lane_rows, own, 0, int(lane_rows.max(initial=0)))
        offsets = order.batch_offsets(dealt.position, batch_size, 0, updates)
        assert np.diff(offsets).tolist() == [share] * updates
        assert (updates == 0) == (share is None)
        assert order.batch_rows(rows, batch_size, 0, updates).tolist() == [batch_size] * updates


def test_two_nodes_have_even_shares_while_no_lane_has_ended():
    lane_rows = np.array([10, 12, 11, 10])
    assert order.even_share(lane_rows, np.array([0, 2]), 8) == (5, 4)
    assert order.even_share(lane_rows, np.array([1, 3]), 7) == (0, None)


@given(st.integers(0, 500), st.integers(1, 64))
def test_the_rows_of_all_mini_batches_are_the_pass(rows, batch_size):
    found = order.batch_rows(rows, batch_size, 0, order.updates_per_epoch(rows, batch_size))
    assert found.sum() == rows
    assert ((found > 0) & (found <= batch_size)).all()


@given(st.integers(0, 300), st.integers(1, 12), st.integers(1, 5))
def test_rows_numbered_round_robin_are_dealt_in_the_order_of_their_numbers(rows, lanes, nodes):
    """`order: given`: row i is row i div L of lane i mod L, and the deal gives i back as the position."""
    lane_rows = np.bincount(np.arange(rows) % lanes, minlength=lanes).astype(np.int64)
    for rank in range(min(nodes, lanes)):
        own = order.owned_lanes(lanes, rank, min(nodes, lanes))
        dealt = order.deal(lane_rows, own, 0, int(lane_rows.max()))
        depths, places = np.nonzero(dealt.present)
        assert (depths * lanes + own[places]).tolist() == dealt.position.tolist()


@given(st.integers(0, 100), st.integers(1, 9), st.integers(1, 4))
def test_nothing_is_permuted_as_stored(rows, block_rows, window):
    stored = order.AsStored(block_rows, window)
    assert stored.blocks(3, rows).tolist() == list(range(-(-rows // block_rows)))
    assert stored.rows(3, 1, rows).tolist() == list(range(rows))
    assert stored.window_rows == order.Shuffle(block_rows, window, 1, 1).window_rows
