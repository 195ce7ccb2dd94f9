"""What the shared and the mixed collective do alike. Nodes are threads of this process."""

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdfs_io import activity
from sparksplit.base.errors import PeerLost
from sparksplit.collectives import together
from sparksplit.collectives.layout import flats, sent
from sparksplit.collectives.segment import SLOT_BYTES
from sparksplit.collectives.together import Apart
from sparksplit.network.listening import Network
from tests.collectives.formed import SECRET, closed, formed_on, size
from tests.collectives.test_layout import SHAPES, promised
from tests.collectives.test_ring import rings, sums
from tests.nodes import in_threads, until

HOSTS = st.integers(2, 5) | st.text("abc", min_size=2, max_size=6)


@settings(max_examples=40, deadline=None)
@given(hosts=HOSTS, shapes=SHAPES, seed=st.integers(0, 99), tls=st.booleans())
def test_every_rank_gets_the_bits_of_the_promised_order(hosts, shapes, seed, tls):
    generator = np.random.default_rng(seed)
    dtypes = [np.float32, np.float64, np.int64, np.uint64]
    given_ = [
        [(generator.random(shape) * 1000).astype(dtypes[place % 4]) for place, shape in enumerate(shapes)]
        for _ in range(size(hosts))
    ]
    formed = formed_on(hosts, network=Network(tls=tls))
    found = in_threads(size(hosts), lambda rank, _: sums(formed[rank], given_[rank], given_[rank]))
    expected = [(array.shape, array.dtype, array.tobytes()) for array in promised(given_)]
    for node in found:
        for result in node:
            assert [(array.shape, array.dtype, array.tobytes()) for array in result] == expected
    for rank, node in enumerate(formed):
        assert node.bytes_sent == 2 * sent(flats(given_[0], size(hosts)), rank)
    closed(formed)


@pytest.mark.parametrize(
    ("hosts", "dtype"),
    [
        (2, np.float32),
        (3, np.float64),
        (5, np.float32),
        ("aabb", np.float32),
        ("aaabb", np.float64),
        ("abab", np.float32),
        ("aabbccd", np.float32),
    ],
)
def test_a_ring_has_the_same_bits_over_many_chunks(hosts, dtype):
    """Sizes at, below and above those of slots, in one call and in calls of other shapes in between."""
    nodes = size(hosts)
    generator = np.random.default_rng(nodes)
    slot = SLOT_BYTES // np.dtype(dtype).itemsize
    signatures = [[slot], [slot + 1, 3], [7, 5 * slot - 1, 0, 1], [1], [3 * slot], [2, 6 * slot + 5]]
    calls = [
        [[generator.standard_normal(length).astype(dtype) for length in sizes] for sizes in signatures]
        for _ in range(nodes)
    ]
    formed, ring = formed_on(hosts), rings(nodes)
    ours = in_threads(nodes, lambda rank, _: sums(formed[rank], *calls[rank], *calls[rank]))
    theirs = in_threads(nodes, lambda rank, _: sums(ring[rank], *calls[rank]))
    for node in ours:
        for found, expected in zip(node, 2 * theirs[0], strict=True):
            assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]
    assert [node.bytes_sent for node in formed] == [2 * node.bytes_sent for node in ring]
    closed(formed)
    closed(ring)


@pytest.mark.parametrize("hosts", [3, "aabb"])
def test_nothing_is_left_open(hosts):
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    def once():
        formed = formed_on(hosts)
        in_threads(size(hosts), lambda rank, _: sums(formed[rank], [np.ones(3)], [np.ones(1 << 18)]))
        closed(formed)

    once()
    before = count()
    for _ in range(3):
        once()
    assert count() == before


@pytest.mark.parametrize("hosts", [2, "aabb"])
def test_a_large_sum_is_progress_and_many_small_ones_are_none(hosts):
    nodes = size(hosts)
    formed = formed_on(hosts)
    before = activity.count()
    in_threads(nodes, lambda rank, _: sums(formed[rank], *[[np.ones(1000)]] * (2000 // nodes)))
    assert activity.count() == before
    in_threads(nodes, lambda rank, _: sums(formed[rank], [np.ones(4 << 20, np.float32)]))
    assert activity.count() - before >= nodes * 16
    closed(formed)


@pytest.mark.parametrize(
    ("hosts", "late", "length"),
    [(2, 0, 10), (2, 1, 1 << 20), ("aab", 0, 10), ("aab", 1, 1 << 20), ("aab", 2, 10)],
)
def test_waiting_sleeps_is_told_and_ends_when_the_peer_comes(hosts, late, length):
    """The node on another host knows it as well as that on the same."""
    others = [rank for rank in range(size(hosts)) if rank != late]
    heard = {rank: [] for rank in range(size(hosts))}
    formed = formed_on(hosts, waiting=lambda rank: heard[rank].append)
    spent = {}

    def work(rank, _):
        if rank == late:
            until(lambda: all(heard[other] for other in others))
            time.sleep(0.5)
        began = time.thread_time()
        found = sums(formed[rank], [np.ones(length)])
        spent[rank] = time.thread_time() - began
        return found[0][0][-1]

    assert in_threads(size(hosts), work) == [float(size(hosts))] * size(hosts)
    for rank in others:
        assert heard[rank][:1] == [True] and heard[rank][-1] is False
        assert spent[rank] < 0.25
        assert formed[rank].waited > 0.5
    closed(formed)


@pytest.mark.parametrize(
    ("hosts", "gone", "length"),
    [
        (3, 0, 1000),
        (3, 1, 1 << 20),
        (3, 2, 1000),
        ("aabbb", 0, 1000),
        ("aabbb", 1, 1 << 20),
        ("aabbb", 2, 1000),
        ("aabbb", 4, 1 << 20),
    ],
)
def test_a_peer_that_goes_is_noticed_at_once(hosts, gone, length):
    nodes = size(hosts)
    formed = formed_on(hosts)
    in_threads(nodes, lambda rank, _: sums(formed[rank], [np.ones(3)]))
    formed[gone].close()

    def work(rank, _):
        if rank == gone:
            return "node"
        with pytest.raises(PeerLost, match=r"node \d") as raised:
            formed[rank].sum([np.ones(length)])
        formed[rank].close()
        return str(raised.value)

    assert any(f"node {gone} " in message for message in in_threads(nodes, work))


@pytest.mark.parametrize("hosts", [3, "aabb"])
def test_a_peer_that_has_done_its_part_may_go(hosts):
    """The last sum of a run: each node ends when it has the results."""
    nodes = size(hosts)
    formed = formed_on(hosts)

    def work(rank, _):
        if rank == 2:
            time.sleep(0.3)
        found = sums(formed[rank], [np.ones(2)])
        formed[rank].close()
        return found[0][0].tolist()

    assert in_threads(nodes, work) == [[float(nodes)] * 2] * nodes


@pytest.mark.parametrize(("hosts", "first"), [(2, 0), ("aabb", 2)])
def test_a_node_that_does_not_know_the_secret_gets_nothing(monkeypatch, hosts, first):
    """All nodes are told, those of the other host too."""
    monkeypatch.setattr(together, "SECONDS", 0.5)
    told = f"^node {first} cannot share memory with the others: node {first + 1} did not call in time; "
    with pytest.raises(Apart, match=told):
        formed_on(hosts, secrets=[SECRET] * (size(hosts) - 1) + [b"guessed"])
