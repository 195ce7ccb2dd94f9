"""What the ring, the shared and the mixed collective do alike. Nodes are threads of this process."""

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdfs_io import activity
from sparksplit.base.errors import PeerLost
from sparksplit.collectives import together
from sparksplit.collectives.base import _MOST_PLANS
from sparksplit.collectives.layout import flats, sent
from sparksplit.collectives.segment import SLOT_BYTES
from sparksplit.collectives.together import Apart
from sparksplit.network.listening import Network
from tests.collectives.formed import SECRET, closed, formed_as, size
from tests.collectives.test_layout import SHAPES, promised
from tests.collectives.test_ring import rings, sums
from tests.nodes import in_threads, until

FORMS = st.builds("{} {}".format, st.sampled_from(["ring", "shared"]), st.integers(2, 5)) | st.builds(
    "mixed {}".format, st.text("abc", min_size=2, max_size=6)
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(form=FORMS, shapes=SHAPES, seed=st.integers(0, 99), tls=st.booleans())
def test_every_rank_gets_the_bits_of_the_promised_order(form, shapes, seed, tls):
    generator = np.random.default_rng(seed)
    dtypes = [np.float32, np.float64, np.int64, np.uint64]
    given_ = [
        [(generator.random(shape) * 1000).astype(dtypes[place % 4]) for place, shape in enumerate(shapes)]
        for _ in range(size(form))
    ]
    formed = formed_as(form, network=Network(tls=tls))
    found = in_threads(size(form), lambda rank, _: sums(formed[rank], given_[rank], given_[rank]))
    expected = [(array.shape, array.dtype, array.tobytes()) for array in promised(given_)]
    for node in found:
        for result in node:
            assert [(array.shape, array.dtype, array.tobytes()) for array in result] == expected
    for rank, node in enumerate(formed):
        assert node.bytes_sent == 2 * sent(flats(given_[0], size(form)), rank)
    closed(formed)


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        ("shared 2", np.float32),
        ("shared 3", np.float64),
        ("shared 5", np.float32),
        ("mixed aabb", np.float32),
        ("mixed aaabb", np.float64),
        ("mixed abab", np.float32),
        ("mixed aabbccd", np.float32),
    ],
)
def test_a_ring_has_the_same_bits_over_many_chunks(form, dtype):
    """Sizes at, below and above those of slots, in one call and in calls of other shapes in between."""
    nodes = size(form)
    generator = np.random.default_rng(nodes)
    slot = SLOT_BYTES // np.dtype(dtype).itemsize
    signatures = [[slot], [slot + 1, 3], [7, 5 * slot - 1, 0, 1], [1], [3 * slot], [2, 6 * slot + 5]]
    calls = [
        [[generator.standard_normal(length).astype(dtype) for length in sizes] for sizes in signatures]
        for _ in range(nodes)
    ]
    formed, ring = formed_as(form), rings(nodes)
    ours = in_threads(nodes, lambda rank, _: sums(formed[rank], *calls[rank], *calls[rank]))
    theirs = in_threads(nodes, lambda rank, _: sums(ring[rank], *calls[rank]))
    for node in ours:
        for found, expected in zip(node, 2 * theirs[0], strict=True):
            assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]
    assert [node.bytes_sent for node in formed] == [2 * node.bytes_sent for node in ring]
    closed(formed)
    closed(ring)


@pytest.mark.parametrize("form", ["ring 3", "shared 3", "mixed aabb"])
def test_nothing_is_left_open(form):
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    def once():
        formed = formed_as(form)
        in_threads(size(form), lambda rank, _: sums(formed[rank], [np.ones(3)], [np.ones(1 << 18)]))
        closed(formed)

    once()
    before = count()
    for _ in range(3):
        once()
    assert count() == before


@pytest.mark.parametrize("form", ["ring 2", "shared 2", "mixed aabb"])
def test_a_large_sum_is_progress_and_many_small_ones_are_none(form):
    nodes = size(form)
    formed = formed_as(form)
    before = activity.count()
    in_threads(nodes, lambda rank, _: sums(formed[rank], *[[np.ones(1000)]] * (2000 // nodes)))
    assert activity.count() == before
    in_threads(nodes, lambda rank, _: sums(formed[rank], [np.ones(4 << 20, np.float32)]))
    assert activity.count() - before >= nodes * 16
    closed(formed)


@pytest.mark.parametrize(
    ("form", "late", "length"),
    [
        ("ring 2", 0, 10),
        ("ring 2", 1, 1 << 20),
        ("shared 2", 0, 10),
        ("shared 2", 1, 1 << 20),
        ("mixed aab", 0, 10),
        ("mixed aab", 1, 1 << 20),
        ("mixed aab", 2, 10),
    ],
)
def test_waiting_sleeps_is_told_and_ends_when_the_peer_comes(form, late, length):
    """The node on another host knows it as well as that on the same."""
    others = [rank for rank in range(size(form)) if rank != late]
    heard = {rank: [] for rank in range(size(form))}
    formed = formed_as(form, waiting=lambda rank: heard[rank].append)
    spent = {}

    def work(rank, _):
        if rank == late:
            until(lambda: all(heard[other] for other in others))
            time.sleep(0.5)
        began = time.thread_time()
        found = sums(formed[rank], [np.ones(length)])
        spent[rank] = time.thread_time() - began
        return found[0][0][-1]

    assert in_threads(size(form), work) == [float(size(form))] * size(form)
    for rank in others:
        assert heard[rank][:1] == [True] and heard[rank][-1] is False
        assert spent[rank] < 0.25
        assert formed[rank].waited > 0.5
    closed(formed)


@pytest.mark.parametrize(
    ("form", "gone", "length"),
    [
        ("shared 3", 0, 1000),
        ("shared 3", 1, 1 << 20),
        ("shared 3", 2, 1000),
        ("mixed aabbb", 0, 1000),
        ("mixed aabbb", 1, 1 << 20),
        ("mixed aabbb", 2, 1000),
        ("mixed aabbb", 4, 1 << 20),
    ],
)
def test_a_peer_that_goes_is_noticed_at_once(form, gone, length):
    nodes = size(form)
    formed = formed_as(form)
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


@pytest.mark.parametrize("form", ["ring 3", "shared 3", "mixed aabb"])
def test_a_peer_that_has_done_its_part_may_go(form):
    """The last sum of a run: each node ends when it has the results."""
    nodes = size(form)
    formed = formed_as(form)

    def work(rank, _):
        if rank == 2:
            time.sleep(0.3)
        found = sums(formed[rank], [np.ones(2)])
        formed[rank].close()
        return found[0][0].tolist()

    assert in_threads(nodes, work) == [[float(nodes)] * 2] * nodes


@pytest.mark.parametrize(("form", "first"), [("shared 2", 0), ("mixed aabb", 2)])
def test_a_node_that_does_not_know_the_secret_gets_nothing(monkeypatch, form, first):
    """All nodes are told, those of the other host too."""
    monkeypatch.setattr(together, "SECONDS", 0.5)
    told = f"^node {first} cannot share memory with the others: node {first + 1} did not call in time; "
    with pytest.raises(Apart, match=told):
        formed_as(form, secrets=[SECRET] * (size(form) - 1) + [b"guessed"])


@pytest.mark.parametrize("form", ["ring 2", "shared 2"])
def test_plans_are_kept_for_the_last_shapes_only(form):
    """Of a large embedding, each mini-batch may use another number of rows."""
    formed = formed_as(form)
    calls = [[np.full(length, 1.5)] for length in [*range(1, 50), 1, 2, 3]]
    for found in in_threads(2, lambda rank, _: sums(formed[rank], *calls)):
        assert [result.tolist() for [result] in found] == [[3.0] * len(array) for [array] in calls]
    for node in formed:
        assert len(node._plans) == _MOST_PLANS
    closed(formed)
