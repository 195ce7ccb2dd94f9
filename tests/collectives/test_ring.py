"""The ring over real sockets: nodes are threads of this process."""

import secrets
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.base.errors import PeerLost
from sparksplit.collectives import PeerTimeout, handshake
from sparksplit.collectives.handshake import neighbours
from sparksplit.collectives.ring import Ring
from sparksplit.network import callers
from sparksplit.network.listening import ANY, Network
from tests.nodes import in_threads
from tests.relay import Relay

SECRET = b"known to all"


def rings(nodes, timeout=20.0, secrets_=None, waiting=lambda rank: lambda _: None, network=ANY):
    def connect(rank, gather):
        secret = secrets_[rank] if secrets_ else SECRET
        return Ring.connect(rank, nodes, "127.0.0.1", secret, gather, timeout, waiting(rank), network)

    return in_threads(nodes, connect)


def sums(ring, *calls):
    return [[np.array(result) for result in ring.sum(arrays)] for arrays in calls]


@settings(max_examples=25, deadline=None)
@given(
    nodes=st.integers(2, 5),
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    dtype=st.sampled_from([np.float16, ml_dtypes.bfloat16]),
    seed=st.integers(0, 99),
)
def test_sums_of_16_bits_are_those_of_float32_rounded_once(nodes, sizes, dtype, seed):
    """Whatever travels beside them, and on every rank."""
    generator = np.random.default_rng(seed)
    narrow = [[generator.normal(size=size).astype(dtype) for size in sizes] for _ in range(nodes)]
    wide = [[array.astype(np.float32) for array in own] for own in narrow]
    beside = np.arange(3, dtype=np.float32)
    formed = rings(nodes)
    try:
        found = in_threads(nodes, lambda rank, _: sums(formed[rank], [*narrow[rank], beside], [*wide[rank], beside]))
    finally:
        for ring in formed:
            ring.close()
    for (*sums_, _), (*expected, _) in found:
        for result, exact, first in zip(sums_, expected, found[0][0], strict=False):
            assert result.dtype == dtype
            assert result.tobytes() == exact.astype(dtype).tobytes() == first.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tensors_of_16_bits_are_summed_within_a_graph(dtype):
    """256 + 1 is 256 in bfloat16: rounded at each node, five ones more would be lost."""
    formed = rings(6)

    @tf.function
    def summed(rank, value):
        return formed[rank].sum_tensors([value, tf.ones(2)])

    def work(rank, _):
        value = tf.fill([40], tf.cast(256.0 if rank == 0 else 1.0, dtype))
        return [result.numpy() for result in summed.get_concrete_function(rank, value)(value)]

    try:
        for narrow, wide in in_threads(6, work):
            assert narrow.dtype == tf.as_dtype(dtype).as_numpy_dtype and wide.tolist() == [6.0, 6.0]
            assert set(narrow.astype(np.float32).tolist()) == {261.0 if dtype == "float16" else 260.0}
    finally:
        for ring in formed:
            ring.close()


def test_a_sum_that_is_too_large_for_16_bits_is_infinite():
    formed = rings(2)
    found = in_threads(2, lambda rank, _: sums(formed[rank], [np.array([6e4, 1.0], np.float16)]))
    assert [result[0][0].tolist() for result in found] == [[np.inf, 2.0]] * 2
    for ring in formed:
        ring.close()


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
    in_threads(2, lambda rank, _: sums(formed[rank], [array[:9], np.arange(9)]))
    assert formed[0].sums == formed[1].sums == 1 + 2  # of each dtype
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


@pytest.mark.parametrize("tls", [False, True])
def test_a_node_that_does_not_know_the_secret_is_refused(tls):
    with pytest.raises(PeerLost):
        rings(2, timeout=2.0, secrets_=[SECRET, b"guessed"], network=Network(tls=tls))


def test_an_encrypted_ring_moves_more_than_a_socket_holds_and_says_nothing_in_clear():
    """Through devices that overhear it; the sums' sizes are not those of TLS's records."""
    given_ = [np.full(3_000_000 + 7, 0x61616161 + rank, np.int32) for rank in range(2)]
    relays = []

    def connect(rank, gather):
        def gather_through_relay(name, value):
            relay = Relay(tuple(value[:2])).__enter__()
            relays.append(relay)
            return gather(name, [*relay.address, *value[2:]])

        return Ring.connect(rank, 2, "127.0.0.1", SECRET, gather_through_relay, network=Network(tls=True))

    formed = in_threads(2, connect)
    small = [np.ones(3, np.float32)]
    found = in_threads(2, lambda rank, _: sums(formed[rank], small, [given_[rank]], small))
    for ring in formed:
        ring.close()
    for relay in relays:
        relay.__exit__()
        assert len(relay.sent) > 10_000_000
        assert b"aaaa" * 4 not in relay.sent
    for results in found:
        assert (results[1][0] == given_[0] + given_[1]).all()
        assert results[0][0].tolist() == results[2][0].tolist() == [2, 2, 2]


def test_a_node_with_another_certificate_is_refused():
    def connect(rank, gather):
        def gather_falsely(name, value):
            return [[*address[:2], "0" * 64] for address in gather(name, value)]

        return Ring.connect(rank, 2, "127.0.0.1", SECRET, gather_falsely, 2.0, network=Network(tls=True))

    with pytest.raises(PeerLost):
        in_threads(2, connect)


def test_a_ring_listens_within_its_ports_and_passes_over_those_that_are_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        low = taken.getsockname()[1]
        seen = []

        def connect(rank, gather):
            def noted(name, value):
                seen.append(value[1])
                return gather(name, value)

            return Ring.connect(rank, 2, "127.0.0.1", SECRET, noted, network=Network((low, low + 50), kept=(low + 1,)))

        for ring in in_threads(2, connect):
            ring.close()
    assert low not in seen and low + 1 not in seen
    assert len(set(seen)) == 2 and all(low < port <= low + 50 for port in seen)


def test_strangers_do_not_disturb_the_forming_ring():
    """They connect first, with nonsense, and take no place in the ring."""
    strangers = []

    def connect(rank, gather):
        def gather_after_strangers(name, value):
            if rank == 0:
                for _ in range(3):
                    strangers.append(socket.create_connection(tuple(value)))
                    strangers[-1].sendall(secrets.token_bytes(52))
                    strangers[-1].shutdown(socket.SHUT_WR)
            return gather(name, value)

        return Ring.connect(rank, 2, "127.0.0.1", SECRET, gather_after_strangers, 20.0)

    formed = in_threads(2, connect)
    found = in_threads(2, lambda rank, _: sums(formed[rank], [np.ones(2)]))
    assert found[0][0][0].tolist() == [2.0, 2.0]
    for connection in [*formed, *strangers]:
        connection.close()


@pytest.mark.parametrize("number", [3, handshake.MOST_STRANGERS + 6])
def test_silent_strangers_hold_nobody_up(number):
    """They come first, begin like a neighbour, and wait; one after the other they would use up the time limit."""
    strangers = []

    def connect(rank, gather):
        def gather_after_strangers(name, value):
            for _ in range(number if rank == 0 else 0):
                strangers.append(socket.create_connection(tuple(value)))
                strangers[-1].sendall(b"x")
            return gather(name, value)

        return Ring.connect(rank, 2, "127.0.0.1", SECRET, gather_after_strangers, 20.0)

    formed = in_threads(2, connect)
    found = in_threads(2, lambda rank, _: sums(formed[rank], [np.ones(2)]))
    assert found[0][0][0].tolist() == [2.0, 2.0]
    for connection in [*formed, *strangers]:
        connection.close()


def test_a_stranger_who_dribbles_is_turned_away_and_the_deadline_is_kept(monkeypatch):
    monkeypatch.setattr(callers, "SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as server:
        stranger = socket.create_connection(server.getsockname())
        sent = []

        def dribble():
            with suppress(OSError):
                for byte in range(63):  # one fewer than begin a hello
                    stranger.sendall(b"x")
                    sent.append(byte)
                    time.sleep(0.02)

        thread = threading.Thread(target=dribble)
        thread.start()
        with pytest.raises(PeerTimeout, match=r"^node 1 did not join the ring in time$"):
            neighbours(server, silent.getsockname(), 0, (1, 1), SECRET, time.monotonic() + 0.5)
        thread.join()
        stranger.close()
        assert len(sent) < 63


def test_a_refused_call_is_told_at_once_though_nobody_has_called():
    """Within the patience of a person, where the time limit is ten minutes."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()
    errors = []

    def connect():
        try:
            Ring.connect(0, 2, "127.0.0.1", SECRET, lambda _, own: [own, address], 600.0)
        except PeerLost as error:
            errors.append(error)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(10)
    assert [str(error) for error in errors] == [f"cannot reach node 1 at 127.0.0.1:{address[1]}: Connection refused"]


def test_a_neighbour_that_ends_during_the_handshake_is_told_at_once():
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_server(("127.0.0.1", 0)) as server:

        def end():
            other.accept()[0].close()

        thread = threading.Thread(target=end)
        thread.start()
        with pytest.raises(PeerLost, match=r"cannot reach node 1 at .*: it ended the connection during the handshake"):
            neighbours(server, other.getsockname(), 0, (1, 1), SECRET, time.monotonic() + 60)
        thread.join()


def test_a_peer_that_goes_is_noticed_at_once():
    """By the node that reads from it; and by the others as each that has noticed ends."""
    formed = rings(3)
    formed[1].close()

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


def test_no_thread_is_left():
    before = set(threading.enumerate())
    for ring in rings(3):
        ring.close()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
    assert set(threading.enumerate()) <= before
