"""The ring over real sockets: nodes are threads of this process."""

import secrets
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.errors import PeerLost
from tests.nodes import in_threads
from training.transport import PeerTimeout
from training.transport.ring import Ring

SECRET = b"known to all"


def rings(nodes, timeout=20.0, secrets_=None, waiting=lambda rank: lambda _: None):
    def connect(rank, gather):
        secret = secrets_[rank] if secrets_ else SECRET
        return Ring.connect(rank, nodes, "127.0.0.1", secret, gather, timeout, waiting(rank))

    return in_threads(nodes, connect)


def sums(ring, *calls):
    return [[np.array(result) for result in ring.sum(arrays)] for arrays in calls]


@settings(max_examples=25, deadline=None)
@given(
    nodes=st.integers(2, 5),
    shapes=st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=1, max_size=5),
    seed=st.integers(0, 99),
)
def test_every_rank_gets_the_same_bits_of_the_sum(nodes, shapes, seed):
    generator = np.random.default_rng(seed)
    dtypes = [np.float32, np.float64, np.int64, np.uint64]
    given_ = [
        [(generator.random(shape) * 1000).astype(dtypes[place % 4]) for place, shape in enumerate(shapes)]
        for _ in range(nodes)
    ]
    formed = rings(nodes)
    try:
        found = in_threads(nodes, lambda rank, _: sums(formed[rank], given_[rank], given_[rank]))
    finally:
        for ring in formed:
            ring.close()
    for place in range(len(shapes)):
        expected = sum(given_[rank][place].astype(np.float64) for rank in range(nodes))
        for results in found:
            for result in results:
                assert result[place].shape == tuple(shapes[place])
                assert result[place].dtype == dtypes[place % 4]
                assert result[place].tobytes() == found[0][0][place].tobytes()
                np.testing.assert_allclose(result[place], expected, rtol=1e-5)


def test_sums_of_integers_are_modulo_two_to_the_64th():
    formed = rings(3)
    values = [np.array([2**63 + rank], np.uint64) for rank in range(3)]
    found = in_threads(3, lambda rank, _: sums(formed[rank], [values[rank]]))
    assert {int(result[0][0][0]) for result in found} == {(3 * 2**63 + 3) % 2**64}
    for ring in formed:
        ring.close()


def test_large_arrays_and_the_bytes_that_were_sent():
    formed = rings(2)
    array = np.arange(3_000_001, dtype=np.float32)
    found = in_threads(2, lambda rank, _: sums(formed[rank], [array]))
    assert (found[0][0][0] == 2 * array).all()
    assert formed[0].bytes_sent + formed[1].bytes_sent == pytest.approx(2 * array.nbytes, rel=0.001)
    for ring in formed:
        ring.close()


def test_results_are_aligned_for_tensorflow_and_survive_one_more_call():
    formed = rings(2)

    def work(rank, _):
        first = formed[rank].sum([np.ones(3, np.float32), np.ones((5, 2), np.float32)])
        formed[rank].sum([np.zeros(3, np.float32), np.zeros((5, 2), np.float32)])
        return [result.ctypes.data % 64 for result in first], [float(result.sum()) for result in first]

    for places, values in in_threads(2, work):
        assert places == [0, 0]
        assert values == [6.0, 20.0]
    for ring in formed:
        ring.close()


def test_a_node_that_does_not_know_the_secret_is_refused():
    with pytest.raises(PeerLost):
        rings(2, timeout=2.0, secrets_=[SECRET, b"guessed"])


def test_strangers_do_not_disturb_the_forming_ring():
    """They connect first, with nonsense, and take no place in the ring."""

    def connect(rank, gather):
        def gather_after_strangers(name, value):
            if rank == 0:
                for _ in range(3):
                    stranger = socket.create_connection(tuple(value))
                    stranger.sendall(secrets.token_bytes(52))
                    stranger.shutdown(socket.SHUT_WR)
            return gather(name, value)

        return Ring.connect(rank, 2, "127.0.0.1", SECRET, gather_after_strangers, 20.0)

    formed = in_threads(2, connect)
    found = in_threads(2, lambda rank, _: sums(formed[rank], [np.ones(2)]))
    assert found[0][0][0].tolist() == [2.0, 2.0]
    for ring in formed:
        ring.close()


def test_a_peer_that_goes_is_noticed_at_once():
    """By the node that reads from it; and by the others as each that has noticed ends."""
    formed = rings(3)
    formed[1].close()
    began = time.monotonic()

    def work(rank, _):
        if rank == 1:
            return None
        try:
            with pytest.raises(PeerLost) as raised:
                for _ in range(3):
                    formed[rank].sum([np.ones(1000)])
        finally:
            formed[rank].close()
        return str(raised.value)

    messages = in_threads(3, work)
    assert "node 1" in messages[2]
    assert time.monotonic() - began < 15  # the limit is 20


def test_a_silent_peer_is_waited_for_and_then_named():
    heard = []
    formed = rings(2, timeout=2.5, waiting=lambda rank: heard.append if rank == 0 else lambda _: None)
    with pytest.raises(PeerTimeout, match="node 1 exchanged nothing"):
        formed[0].sum([np.ones(1000)])
    assert heard == [True]
    for ring in formed:
        ring.close()


def test_waiting_ends_when_the_peer_comes():
    heard = []
    formed = rings(2, waiting=lambda rank: heard.append if rank == 0 else lambda _: None)

    def late(rank, _):
        if rank == 1:
            time.sleep(1.5)
        return sums(formed[rank], [np.ones(10)])

    in_threads(2, late)
    assert heard == [True, False]
    for ring in formed:
        ring.close()


def test_no_thread_is_left():
    before = threading.active_count()
    for ring in rings(3):
        ring.close()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
    assert threading.active_count() <= before
