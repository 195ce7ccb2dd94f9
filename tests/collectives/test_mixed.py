"""Shared memory within hosts and TCP between them: nodes are threads of this process, and their hosts are told."""

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
from sparksplit.collectives.mixed import Mixed, counterparts
from sparksplit.collectives.segment import SLOT_BYTES
from sparksplit.collectives.together import Apart, meeting, runs_of
from sparksplit.network.listening import ANY, Network
from tests.collectives.test_layout import SHAPES, promised
from tests.collectives.test_ring import rings, sums
from tests.nodes import in_threads, until


def on(hosts, gather):
    """`gather` of a node whose cluster is on these hosts, by rank: each letter is one."""

    def moved(name, value):
        found = gather(name, value)
        return (
            [[host, *each[1:]] for host, each in zip(hosts, found, strict=True)] if name == "shared memory" else found
        )

    return moved


def mixed(hosts, waiting=lambda rank: lambda _: None, network=ANY, secrets=None):
    def connect(rank, gather):
        gather = on(hosts, gather)
        secret = secrets[rank] if secrets else b"known to all"
        with meeting(gather) as met:
            return Mixed.across(met, rank, "127.0.0.1", secret, gather, waiting(rank), network, timeout=20)

    return in_threads(len(hosts), connect)


def closed(formed):
    for node in formed:
        node.close()
        node.close()


def test_runs_are_ranks_that_follow_one_another_on_one_host():
    assert runs_of("aabbb") == [range(2), range(2, 5)]
    assert runs_of("abba") == [range(1), range(1, 3), range(3, 4)]
    assert runs_of("a") == [range(1)]
    assert [counterparts(runs_of("aabbb"), rank) for rank in range(5)] == [(2, 2), (3, 3), (0, 0), (1, 1), None]
    assert [counterparts(runs_of("aabbcc"), rank) for rank in (1, 2)] == [(3, 5), (4, 0)]
    assert counterparts(runs_of("aa"), 1) is None


@settings(max_examples=20, deadline=None)
@given(hosts=st.text("abc", min_size=2, max_size=6), shapes=SHAPES, seed=st.integers(0, 99), tls=st.booleans())
def test_every_rank_gets_the_bits_of_the_promised_order(hosts, shapes, seed, tls):
    generator = np.random.default_rng(seed)
    dtypes = [np.float32, np.float64, np.int64, np.uint64]
    given_ = [
        [(generator.random(shape) * 1000).astype(dtypes[place % 4]) for place, shape in enumerate(shapes)]
        for _ in hosts
    ]
    formed = mixed(hosts, network=Network(tls=tls))
    found = in_threads(len(hosts), lambda rank, _: sums(formed[rank], given_[rank], given_[rank]))
    expected = [(array.shape, array.dtype, array.tobytes()) for array in promised(given_)]
    for node in found:
        for result in node:
            assert [(array.shape, array.dtype, array.tobytes()) for array in result] == expected
    for rank, node in enumerate(formed):
        assert node.bytes_sent == 2 * sent(flats(given_[0], len(hosts)), rank)
    closed(formed)


@pytest.mark.parametrize(
    ("hosts", "dtype"), [("aabb", np.float32), ("aaabb", np.float64), ("abab", np.float32), ("aabbccd", np.float32)]
)
def test_a_ring_has_the_same_bits_over_many_chunks(hosts, dtype):
    """Sizes at, below and above those of slots, in one call and in calls of other shapes in between."""
    nodes = len(hosts)
    generator = np.random.default_rng(nodes)
    slot = SLOT_BYTES // np.dtype(dtype).itemsize
    signatures = [[slot], [slot + 1, 3], [7, 5 * slot - 1, 0, 1], [1], [3 * slot], [2, 6 * slot + 5]]
    calls = [
        [[generator.standard_normal(size).astype(dtype) for size in sizes] for sizes in signatures]
        for _ in range(nodes)
    ]
    formed, ring = mixed(hosts), rings(nodes)
    ours = in_threads(nodes, lambda rank, _: sums(formed[rank], *calls[rank], *calls[rank]))
    theirs = in_threads(nodes, lambda rank, _: sums(ring[rank], *calls[rank]))
    for node in ours:
        for found, expected in zip(node, 2 * theirs[0], strict=True):
            assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]
    assert [node.bytes_sent for node in formed] == [2 * node.bytes_sent for node in ring]
    closed(formed)
    closed(ring)


def test_nothing_is_left_open():
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    def once():
        formed = mixed("aabb")
        in_threads(4, lambda rank, _: sums(formed[rank], [np.ones(3)], [np.ones(1 << 18)]))
        closed(formed)

    once()
    before = count()
    for _ in range(3):
        once()
    assert count() == before


def test_a_large_sum_is_progress_and_many_small_ones_are_none():
    formed = mixed("aabb")
    before = activity.count()
    in_threads(4, lambda rank, _: sums(formed[rank], *[[np.ones(1000)]] * 300))
    assert activity.count() == before
    in_threads(4, lambda rank, _: sums(formed[rank], [np.ones(4 << 20, np.float32)]))
    assert activity.count() - before >= 4 * 16
    closed(formed)


@pytest.mark.parametrize(("late", "size"), [(0, 10), (1, 1 << 20), (2, 10)])
def test_waiting_sleeps_is_told_and_ends_when_the_peer_comes(late, size):
    """The node on another host knows it as well as that on the same."""
    heard = {rank: [] for rank in range(3)}
    formed = mixed("aab", waiting=lambda rank: heard[rank].append)
    spent = {}

    def work(rank, _):
        if rank == late:
            until(lambda: all(heard[other] for other in range(3) if other != late))
            time.sleep(0.5)
        began = time.thread_time()
        found = sums(formed[rank], [np.ones(size)])
        spent[rank] = time.thread_time() - began
        return found[0][0][-1]

    assert in_threads(3, work) == [3.0] * 3
    for rank in {0, 1, 2} - {late}:
        assert heard[rank][:1] == [True] and heard[rank][-1] is False
        assert spent[rank] < 0.25
        assert formed[rank].waited > 0.5
    closed(formed)


def test_a_node_that_sums_nothing_has_waited_only_until_the_others_came():
    """Of the shorter run's counterparts there is one: the longer one's second node has none."""
    formed = mixed("aab")
    in_threads(3, lambda rank, _: sums(formed[rank], *[[np.ones(4 << 20, np.float32)]] * 3))
    waited = [(node.waited, node.seconds) for node in formed]
    closed(formed)
    # Some of the time passes after they have come, however late that is on a busy machine.
    assert all(0 < part < 0.98 * whole for part, whole in waited)


@pytest.mark.parametrize(("gone", "size"), [(0, 1000), (1, 1 << 20), (2, 1000), (4, 1 << 20)])
def test_a_peer_that_goes_is_noticed_at_once_on_all_hosts(gone, size):
    formed = mixed("aabbb")
    in_threads(5, lambda rank, _: sums(formed[rank], [np.ones(3)]))
    formed[gone].close()

    def work(rank, _):
        if rank == gone:
            return "node"
        with pytest.raises(PeerLost, match=r"node \d") as raised:
            formed[rank].sum([np.ones(size)])
        formed[rank].close()
        return str(raised.value)

    assert any(f"node {gone} " in message for message in in_threads(5, work))


def test_a_peer_that_has_done_its_part_may_go():
    """The last sum of a run: each node ends when it has the results."""
    formed = mixed("aabb")

    def work(rank, _):
        if rank == 2:
            time.sleep(0.3)
        found = sums(formed[rank], [np.ones(2)])
        formed[rank].close()
        return found[0][0].tolist()

    assert in_threads(4, work) == [[4.0, 4.0]] * 4


def test_a_node_that_does_not_know_the_secret_gets_nothing(monkeypatch):
    """All nodes are told, those of the other host too."""
    monkeypatch.setattr(together, "SECONDS", 0.5)
    with pytest.raises(Apart, match=r"^node 2 cannot share memory with the others: node 3 did not call in time; "):
        mixed("aabb", secrets=[b"known"] * 3 + [b"guessed"])
