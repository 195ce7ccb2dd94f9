"""Shared memory between nodes that are threads of this process."""

import fcntl
import os
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdfs_io import activity
from sparksplit.base.errors import PeerLost
from sparksplit.collectives import segment, together
from sparksplit.collectives.base import _MOST_PLANS
from sparksplit.collectives.layout import flats, sent
from sparksplit.collectives.segment import SLOT_BYTES
from sparksplit.collectives.shared import Shared
from sparksplit.collectives.together import Apart
from sparksplit.network.tls import Served
from tests.collectives.processes import in_use
from tests.collectives.test_layout import SHAPES, promised
from tests.collectives.test_ring import rings, sums
from tests.nodes import in_threads, until

SECRET = b"known to all"


def shared(nodes, waiting=lambda rank: lambda _: None, secrets_=None):
    def connect(rank, gather):
        return Shared.connect(rank, nodes, secrets_[rank] if secrets_ else SECRET, gather, waiting(rank))

    return in_threads(nodes, connect)


def closed(formed):
    for node in formed:
        node.close()
        node.close()


@settings(max_examples=20, deadline=None)
@given(nodes=st.integers(2, 5), shapes=SHAPES, seed=st.integers(0, 99))
def test_every_rank_gets_the_bits_of_the_promised_order(nodes, shapes, seed):
    generator = np.random.default_rng(seed)
    dtypes = [np.float32, np.float64, np.int64, np.uint64]
    given_ = [
        [(generator.random(shape) * 1000).astype(dtypes[place % 4]) for place, shape in enumerate(shapes)]
        for _ in range(nodes)
    ]
    formed = shared(nodes)
    found = in_threads(nodes, lambda rank, _: sums(formed[rank], given_[rank], given_[rank]))
    expected = [(array.shape, array.dtype, array.tobytes()) for array in promised(given_)]
    for node in found:
        for result in node:
            assert [(array.shape, array.dtype, array.tobytes()) for array in result] == expected
    for rank, node in enumerate(formed):
        assert node.bytes_sent == 2 * sent(flats(given_[0], nodes), rank)
    closed(formed)


@pytest.mark.parametrize(("nodes", "dtype"), [(2, np.float32), (3, np.float64), (5, np.float32)])
def test_a_ring_has_the_same_bits_over_many_chunks(nodes, dtype):
    """Sizes at, below and above those of slots, in one call and in calls of other shapes in between."""
    generator = np.random.default_rng(nodes)
    slot = SLOT_BYTES // np.dtype(dtype).itemsize
    signatures = [[slot], [slot + 1, 3], [7, 5 * slot - 1, 0, 1], [1], [3 * slot], [2, 9 * slot + 5]]
    calls = [
        [[generator.standard_normal(size).astype(dtype) for size in sizes] for sizes in signatures]
        for _ in range(nodes)
    ]
    formed, ring = shared(nodes), rings(nodes)
    ours = in_threads(nodes, lambda rank, _: sums(formed[rank], *calls[rank], *calls[rank]))
    theirs = in_threads(nodes, lambda rank, _: sums(ring[rank], *calls[rank]))
    for node in ours:
        for found, expected in zip(node, 2 * theirs[0], strict=True):
            assert [array.tobytes() for array in found] == [array.tobytes() for array in expected]
    assert [node.bytes_sent for node in formed] == [2 * node.bytes_sent for node in ring]
    closed(formed)
    closed(ring)


def test_results_are_aligned_cannot_be_written_to_and_survive_one_more_call():
    formed = shared(2)

    def work(rank, _):
        first = formed[rank].sum([np.ones(3, np.float32), np.ones((5, 2), np.float32)])
        # Of other shapes, and more memory than there was.
        formed[rank].sum([np.zeros(1 << 20, np.float32)])
        with pytest.raises(ValueError, match="read-only"):
            first[0] += 1
        return [result.ctypes.data % 64 for result in first], [float(result.sum()) for result in first]

    assert in_threads(2, work) == [([0, 0], [6.0, 20.0])] * 2
    closed(formed)


def test_sums_outlive_what_they_were_made_with():
    formed = shared(2)
    found = in_threads(2, lambda rank, _: formed[rank].sum([np.full(5, rank + 1.0)]))
    closed(formed)
    formed.clear()
    assert [result.tolist() for (result,) in found] == [[3.0] * 5] * 2


def test_nothing_is_left_open():
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    def once():
        formed = shared(3)
        in_threads(3, lambda rank, _: sums(formed[rank], [np.ones(3)], [np.ones(1 << 18)]))
        closed(formed)

    once()
    before = count()
    for _ in range(3):
        once()
    assert count() == before


def test_a_large_sum_is_progress_and_many_small_ones_are_none():
    formed = shared(2)
    before = activity.count()
    in_threads(2, lambda rank, _: sums(formed[rank], *[[np.ones(1000)]] * 1000))
    assert activity.count() == before
    in_threads(2, lambda rank, _: sums(formed[rank], [np.ones(4 << 20, np.float32)]))
    assert activity.count() - before >= 2 * 16
    closed(formed)


def test_a_python_built_for_an_old_glibc_shares_memory_too(monkeypatch):
    """As conda's and uv's are: the kernel can, but they have no name for it."""
    for module in (os, fcntl):
        for name in dir(module):
            if name.startswith(("memfd_create", "MFD_", "F_SEAL_", "F_ADD_SEALS")):
                monkeypatch.delattr(module, name)
    Served("127.0.0.1")  # TLS keeps its key in such a file, too
    formed = shared(2)
    assert [found[0][0].tolist() for found in in_threads(2, lambda rank, _: sums(formed[rank], [np.ones(2)]))] == [
        [2, 2]
    ] * 2
    closed(formed)


def test_plans_are_kept_for_the_last_shapes_only():
    formed = shared(2)
    calls = [[np.full(size, 1.5)] for size in [*range(1, 50), 1, 2, 3]]
    for found in in_threads(2, lambda rank, _: sums(formed[rank], *calls)):
        assert [result.tolist() for [result] in found] == [[3.0] * len(array) for [array] in calls]
    for node in formed:
        assert len(node._plans) == _MOST_PLANS
    closed(formed)


@pytest.mark.parametrize(("late", "size"), [(0, 10), (1, 1 << 20)])
def test_waiting_sleeps_is_told_and_ends_when_the_peer_comes(late, size):
    heard = []
    formed = shared(2, waiting=lambda rank: heard.append if rank != late else lambda _: None)
    spent = {}

    def work(rank, _):
        if rank == late:
            until(lambda: heard)
            time.sleep(0.5)
        began = time.thread_time()
        found = sums(formed[rank], [np.ones(size)])
        spent[rank] = time.thread_time() - began
        return found[0][0][-1]

    assert in_threads(2, work) == [2.0, 2.0]
    assert heard == [True, False]
    assert spent[1 - late] < 0.25
    assert formed[1 - late].waited > 0.5
    closed(formed)


@pytest.mark.parametrize(("gone", "size"), [(0, 1000), (1, 1 << 20), (2, 1000)])
def test_a_peer_that_goes_is_noticed_at_once(gone, size):
    formed = shared(3)
    in_threads(3, lambda rank, _: sums(formed[rank], [np.ones(3)]))
    formed[gone].close()

    def work(rank, _):
        if rank == gone:
            return "node"
        with pytest.raises(PeerLost, match=r"node \d closed its connection") as raised:
            formed[rank].sum([np.ones(size)])
        formed[rank].close()
        return str(raised.value)

    assert any(f"node {gone} " in message for message in in_threads(3, work))


def test_a_peer_that_has_done_its_part_may_go():
    """The last sum of a run: each node ends when it has the results."""
    formed = shared(3)

    def work(rank, _):
        if rank == 2:
            time.sleep(0.3)
        found = sums(formed[rank], [np.ones(2)])
        formed[rank].close()
        return found[0][0].tolist()

    assert in_threads(3, work) == [[3.0, 3.0]] * 3


def test_a_node_that_does_not_know_the_secret_gets_nothing(monkeypatch):
    monkeypatch.setattr(together, "SECONDS", 0.5)
    with pytest.raises(Apart, match=r"^node 0 cannot share memory with the others: node 1 did not call in time; "):
        shared(2, secrets_=[SECRET, b"guessed"])


def test_strangers_get_nothing_and_disturb_nobody():
    """They call first: with nonsense, with silence, and as a node that is expected."""
    strangers = []

    def connect(rank, gather):
        def gather_after_strangers(name, value):
            if rank == 0 and name == "shared memory":
                for said in (secrets.token_bytes(52), b"x", bytes(16) + b"\0\0\0\1" + secrets.token_bytes(32)):
                    strangers.append(socket.socket(socket.AF_UNIX))
                    strangers[-1].connect(f"\0{value[1]}")
                    strangers[-1].sendall(said)
            return gather(name, value)

        return Shared.connect(rank, 3, SECRET, gather_after_strangers)

    formed = in_threads(3, connect)
    assert [found[0][0].tolist() for found in in_threads(3, lambda rank, _: sums(formed[rank], [np.ones(2)]))] == [
        [3, 3]
    ] * 3
    for stranger in strangers:
        stranger.settimeout(5)
        with suppress(ConnectionError):
            data, descriptors, *_ = socket.recv_fds(stranger, 100, 10)
            assert len(data) <= 16 and not descriptors  # the challenge
        stranger.close()
    closed(formed)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("another net:[1]", "node 1 is on another host than node 0"),
        ("{kernel} net:[1]", "node 1 is in another network namespace than node 0"),
    ],
)
def test_nodes_that_cannot_reach_each_other_are_apart(place, problem):
    def connect(rank, gather):
        def elsewhere(name, value):
            if rank == 1 and name == "shared memory":
                value = [place.format(kernel=value[0].split()[0]), *value[1:]]
            return gather(name, value)

        with pytest.raises(Apart) as raised:
            Shared.connect(rank, 3, SECRET, elsewhere)
        return str(raised.value)

    assert in_threads(3, connect) == [problem] * 3


def test_one_node_that_cannot_is_told_on_all(monkeypatch):
    monkeypatch.setattr(together, "SECONDS", 0.5)

    def refused(name, rank, *rest):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(together, "_take", refused)
    with pytest.raises(Apart, match=r"in time; node 1 cannot share memory with the others: Permission denied$"):
        shared(2)
    monkeypatch.setattr(together.platform, "machine", lambda: "aarch64")
    with pytest.raises(Apart, match=r"needs an x86 processor \(this is aarch64\)$"):
        shared(2)


def test_memory_that_is_not_there_is_an_error(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    formed = shared(2)
    monkeypatch.setattr(segment.os, "posix_fallocate", full)

    def work(rank, _):
        error = MemoryError if rank == 0 else PeerLost
        with pytest.raises(error, match="to share: No space left on device" if rank == 0 else "closed its connection"):
            formed[rank].sum([np.ones(1 << 20)])
        formed[rank].close()

    in_threads(2, work)
    with pytest.raises(
        Apart, match=r"cannot get \S* bytes of memory that the nodes of one host share: No space left on device"
    ):
        shared(2)


def test_memory_has_no_name_and_keeps_its_size():
    formed = shared(2)
    in_threads(2, lambda rank, _: sums(formed[rank], [np.ones(100)]))
    assert not in_use(set())
    descriptor = segment.allocated(1 << 20)
    for size in (0, 2 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size)
    os.close(descriptor)
    closed(formed)


def test_memory_that_cannot_be_handed_out_is_an_error_on_all(monkeypatch):
    """Such as for too many descriptors on their way; it was taken for the end of the node that was to get it."""

    def refused(*_):
        raise OSError(109, "Too many references: cannot splice")

    formed = shared(2)
    monkeypatch.setattr(segment.socket, "send_fds", refused)

    def work(rank, _):
        error, said = (MemoryError, "cannot be shared") if rank == 0 else (PeerLost, "closed its connection")
        with pytest.raises(error, match=said):
            formed[rank].sum([np.ones(1 << 20)])
        formed[rank].close()

    in_threads(2, work)


def test_a_first_node_that_may_not_listen_is_told_on_all(monkeypatch):
    class Confined(socket.socket):
        def bind(self, _):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(together.socket, "socket", Confined)
    with pytest.raises(Apart, match=r"^node 0 cannot listen for the others: Permission denied$"):
        shared(2)
