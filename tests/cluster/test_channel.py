"""The driver's channel and its clients over loopback, without Spark."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base import activity
from sparksplit.base.errors import ConfigError
from sparksplit.base.network import Network
from sparksplit.cluster import line, member, wire
from sparksplit.cluster.channel import Channel, Hello
from sparksplit.cluster.faults import Link
from sparksplit.cluster.line import Line, Post, Refused
from sparksplit.cluster.member import NodeMember, Start
from sparksplit.cluster.seal import NONCE, Text, seals
from tests.descriptors import no_descriptors
from tests.relay import Relay, at_random


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Channel]:
    # Members of this process must not end it.
    monkeypatch.setattr(member, "_end_as_orphan", lambda reason: None)
    begin, begun = Line.__init__, []

    def noted(line: Line, *arguments: Any, **keys: Any) -> None:
        begun.append(line)
        begin(line, *arguments, **keys)

    monkeypatch.setattr(Line, "__init__", noted)
    channel = Channel("127.0.0.1", nodes=2)
    yield channel
    channel.close()
    for each in begun:
        if hasattr(each, "_wire"):
            each.close()


def post(channel: Channel, rank: int = 0, kind: Any = "node") -> Post:
    return Post(channel.address, channel.secret, rank, kind, channel.fingerprint)


def join(channel: Channel, rank: int, size: int = 2) -> NodeMember:
    return NodeMember(Start(post(channel, rank), size, "", {"a": rank}, {}, "", os.getpid()))


def until(condition: Callable[[], Any], seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_it_listens_on_the_given_address_only(channel: Channel) -> None:
    assert channel.address[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", channel.address[1]), 1)


def test_it_listens_on_one_address_and_is_known_by_another() -> None:
    channel = Channel("0.0.0.0", 1, known_as="127.0.0.2")
    try:
        assert channel.address[0] == "127.0.0.2"
        Line(post(channel)).close()
    finally:
        channel.close()


def test_an_address_of_another_machine_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"spark\.driver\.host: .* 192\.0\.2\.1 "):
        Channel("192.0.2.1", nodes=1)


def said(channel: Channel, hello: Any, secret: str | None = None) -> dict[str, Any] | None:
    """The driver's answer to a hello, as whoever knows the secret (or `secret`) may give it."""
    with socket.create_connection(channel.address, 5) as connection:
        return wire.Wire(connection).introduce(secret or channel.secret, hello, time.monotonic() + 5)


def as_node(rank: int = 0, **other: Any) -> dict[str, Any]:
    return {"kind": "node", "rank": rank, "pid": 1, "host": "h", "life": "stranger", "heard": 0, **other}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no JSON\n",
        b"x" * 100_000,
        b"GET / HTTP/1.1\r\n\r\n" * 9,
        pickle.dumps(print) * 9 + b"\n",
        b"0" * 64 + json.dumps(as_node()).encode() + b"\n",
        b"0" * 64 + b"[" * 4000 + b"\n",
    ],
)
def test_who_does_not_know_the_secret_is_turned_away(channel: Channel, text: bytes) -> None:
    with socket.create_connection(channel.address, 5) as stranger:
        stranger.sendall(text)
        received = bytearray()
        # Reset where the rest of a long line was left unread.
        with suppress(OSError):
            stranger.shutdown(socket.SHUT_WR)
            while piece := stranger.recv(100):
                received += piece
    assert len(received) <= NONCE, "nothing but the challenge"
    with suppress(ConnectionResetError):
        assert said(channel, as_node(), "0" * 64) is None
    assert channel.alive() == []
    assert all(record.node is None for record in channel.records)


@pytest.mark.parametrize(
    "change",
    [
        {"rank": 2},
        {"rank": True},
        {"rank": 10**4000},
        {"kind": "nobody"},
        {"kind": ["node"]},
        {"pid": float("nan")},
        {"pid": [1]},
        {"heard": "1"},
    ],
)
def test_a_hello_that_is_none_is_refused_whoever_sends_it(channel: Channel, change: dict[str, Any]) -> None:
    with suppress(ConnectionResetError, ValueError):
        assert said(channel, as_node(**change)) is None
    assert channel.alive() == []


def test_the_secret_does_not_cross_the_wire_and_what_was_overheard_is_of_no_use(channel: Channel) -> None:
    with Relay(channel.address) as relay:
        node = NodeMember(Start(replace(post(channel), driver=relay.address), 2, "", {}, {}, "", os.getpid()))
        node.report_error("own", "overheard")
        assert channel.secret.encode() not in relay.sent + relay.received
        overheard = bytes(relay.sent)
    with socket.create_connection(channel.address, 5) as stranger:
        stranger.sendall(overheard)
        with suppress(ConnectionResetError):
            assert len(stranger.recv(100)) == NONCE
            assert stranger.recv(100) == b""


def test_a_driver_that_does_not_know_the_secret_is_not_obeyed(channel: Channel, monkeypatch: Any) -> None:
    monkeypatch.setattr(line, "ORPHAN", 0.3)
    heard: list[Any] = []
    with pytest.raises((OSError, ValueError)):
        Line(replace(post(channel), secret="1" * 64), on_message=heard.append)
    assert heard == []


@given(st.data())
def test_only_the_lines_that_were_sealed_are_opened_and_in_their_order(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.binary(max_size=20), min_size=1, max_size=4))
    sends, receives = seals("s", b"a", b"b")[0], seals("s", b"a", b"b")[0]
    lines = [sends.mark(Text.of(text)) + text for text in texts]
    tampered = data.draw(
        st.one_of(
            st.permutations(lines),
            st.lists(st.sampled_from(lines), max_size=5),
            st.lists(st.sampled_from(lines) | st.binary(max_size=60), max_size=5),
            st.tuples(st.integers(0, len(lines) - 1), st.integers(0, 31), st.integers(1, 255)).map(
                lambda at: [
                    bytes(byte ^ (at[2] if (number, place) == at[:2] else 0) for place, byte in enumerate(each))
                    for number, each in enumerate(lines)
                ]
            ),
        )
    )
    opened = []
    with suppress(ValueError):
        for each in tampered:
            opened.append(receives.opened(bytes(each)))
    assert opened == texts[: len(opened)], "what is opened is the beginning of what was sealed"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_a_line_is_a_message_or_a_value_error(text: bytes) -> None:
    try:
        assert isinstance(wire.parsed(text), dict)
    except ValueError:
        return


@given(st.integers(0, 100_000), st.sampled_from(["[", '{"a":', "[[", '[{"":']))
def test_a_line_may_be_nested_as_deeply_as_it_likes(depth: int, opening: str) -> None:
    with pytest.raises(ValueError):  # Python's own, or ours
        wire.parsed((opening * depth + "0").encode())


@given(st.dictionaries(st.sampled_from(["rank", "kind", "pid", "host", "life", "heard"]), json_values), st.booleans())
def test_a_hello_is_one_of_this_run_or_refused(message: dict[str, Any], fits: bool) -> None:
    if fits:
        message |= {"rank": 1, "kind": "node", "pid": 7, "heard": 0}
    hello = Hello.of(message, 2)
    if hello is None:
        assert not fits
    else:
        assert hello.rank in range(2) and hello.kind in ("node", "launcher", "task")


@pytest.mark.parametrize("beginning", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_who_sends_its_hello_byte_by_byte_is_turned_away(monkeypatch: pytest.MonkeyPatch, beginning: bytes) -> None:
    """In clear, or within TLS's own greeting."""
    monkeypatch.setattr("sparksplit.cluster.channel.DEAD", 0.2)
    channel, sent = Channel("127.0.0.1", 1, Network(tls=bool(beginning))), 0
    with socket.create_connection(channel.address, 5) as stranger, suppress(OSError):
        stranger.sendall(beginning)
        for _ in range(400):
            stranger.sendall(b"x")
            sent += 1
            time.sleep(0.01)
    channel.close()
    assert 10 < sent < 400


def test_a_lack_of_descriptors_passes_and_is_said(channel: Channel, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as late:
        late.settimeout(10)
        with no_descriptors():
            late.connect(channel.address)
            until(lambda: "nodes cannot connect for the moment, trying on: Too many open files" in caplog.text)
        assert wire.Wire(late).introduce(channel.secret, as_node(), time.monotonic() + 10) == {"received": -1}
    assert caplog.text.count("trying on") == 1


def test_a_driver_that_speaks_nonsense_is_as_good_as_gone(channel: Channel) -> None:
    reasons: list[str] = []
    Line(post(channel), on_message=lambda message: message["values"], on_silence=reasons.append)
    until(channel.alive)
    channel.tell("node", gathered="x")
    until(lambda: reasons)
    assert reasons == ["lost the driver (KeyError: 'values')"]


def test_a_second_process_of_a_rank_is_turned_away(channel: Channel) -> None:
    first = join(channel, 0)
    until(channel.alive)
    with pytest.raises(Refused, match="another process is node 0"):
        Line(post(channel, 0))
    assert channel.alive() == ["node 0"]
    assert first.rank == 0


def test_beats_carry_the_state_and_are_answered(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "BEAT", 0.02)
    node = join(channel, 1)
    node.state(update=7, loss=0.5)
    until(lambda: channel.records[1].state.items() >= {"update": 7, "loss": 0.5}.items())
    node.state(update=8)
    activity.note()
    until(lambda: channel.records[1].state == {"update": 8, "loss": 0.5, "done": activity.count()})
    assert channel.records[1].node is not None
    assert channel.records[1].node.pid == os.getpid()
    assert channel.records[1].host == socket.gethostname()


def test_scalars_of_libraries_travel(channel: Channel) -> None:
    numpy = pytest.importorskip("numpy")
    node = join(channel, 0)
    node.state(loss=numpy.float32(0.5), rows=numpy.arange(2))
    assert node.report_result({})
    assert channel.records[0].state == {"loss": 0.5, "rows": [0, 1], "done": activity.count()}


def test_state_is_cheap_and_safe_in_threads(channel: Channel) -> None:
    node = join(channel, 0)
    begin = time.thread_time()  # whatever else the machine computes
    for update in range(100_000):
        node.state(update=update)
    seconds = (time.thread_time() - begin) / 100_000
    assert seconds < 5e-6
    threads = [threading.Thread(target=lambda k=k: [node.state(**{f"f{k}": i}) for i in range(2000)]) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    node.report_result({})
    assert {channel.records[0].state[f"f{k}"] for k in range(4)} == {1999}


def test_phases_nest_and_are_counted(channel: Channel) -> None:
    node = join(channel, 0)
    with node.phase("validation"):
        with node.phase("checkpoint"):
            assert node._state["phase"] == "checkpoint"
        assert node._state["phase"] == "validation"
    assert node._state["phase"] is None
    assert node._state["phases"] == 4


def test_gather_gives_all_values_by_rank(channel: Channel) -> None:
    nodes = [join(channel, rank) for rank in range(2)]
    values: dict[int, list[Any]] = {}
    threads = [
        threading.Thread(target=lambda node=node: values.update({node.rank: node.gather("x", {"r": node.rank})}))
        for node in nodes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert values == {0: [{"r": 0}, {"r": 1}], 1: [{"r": 0}, {"r": 1}]}


def test_a_rendezvous_waits_and_says_so_until_the_last_one_comes(channel: Channel) -> None:
    nodes = [join(channel, rank) for rank in range(2)]
    first = threading.Thread(target=lambda: nodes[0].gather("x", 1))
    first.start()
    until(lambda: nodes[0]._state.get("waiting"))
    first.join(0.1)
    assert first.is_alive()
    nodes[1].gather("x", 2)
    first.join(10)
    assert not first.is_alive()
    assert not nodes[0]._state["waiting"]


def test_a_process_hears_that_it_shall_stop(channel: Channel) -> None:
    node = join(channel, 0)
    until(channel.alive)
    channel.tell("node", stop=True)
    assert node.stopping.wait(60)


def test_last_words_arrive_before_the_end(channel: Channel) -> None:
    launcher = Line(post(channel, 0, "launcher"))
    assert launcher.deliver(ended=-9, output=["a", "b"])
    launcher.close()
    until(lambda: not channel.alive())
    record = channel.records[0]
    assert record.ended is not None and record.ended[1] == -9
    assert record.output == ["a", "b"]
    assert record.launcher is not None and record.launcher.gone is not None


def test_only_the_first_error_of_a_rank_counts(channel: Channel) -> None:
    node = join(channel, 0)
    node.report_error("own", "first")
    node.report_error("own", "second")
    assert channel.records[0].error is not None
    assert channel.records[0].error[1:] == ("own", "first")


def test_a_closed_channel_is_noticed_at_once_and_leaves_nothing(channel: Channel) -> None:
    reasons: list[str] = []
    clients = [Line(post(channel, 0, kind), on_silence=reasons.append) for kind in ("node", "launcher")]
    until(lambda: len(channel.alive()) == 2)
    channel.close()
    channel.close()
    until(lambda: len(reasons) == 2)
    assert channel.alive() == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(channel.address, 1)
    for client in clients:
        client.close()


def test_a_driver_that_says_nothing_is_noticed(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "ORPHAN", 0.5)
    monkeypatch.setattr(line, "BEAT", 0.05)
    monkeypatch.setattr(line, "QUIET", 0.2)
    reasons: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        Line(Post(silent.getsockname(), "", 0, "node"))
    with Relay(channel.address) as relay:
        Line(replace(post(channel), driver=relay.address), on_silence=reasons.append)
        relay.stall()
        until(lambda: reasons)
    assert reasons == ["no sign of the driver for 0.5 s"]


def test_an_own_end_is_not_taken_for_the_drivers(channel: Channel) -> None:
    reasons: list[str] = []
    client = Line(post(channel, 0), on_silence=reasons.append)
    client.close()
    until(lambda: not channel.alive())
    time.sleep(0.05)
    assert reasons == []


def test_descriptors_do_not_pile_up(channel: Channel) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for rank in (0, 1):
        client = Line(post(channel, rank, "launcher"))
        client.deliver(ended=0, output=[])
        client.close()
    until(lambda: not channel.alive())
    until(lambda: descriptors() <= before)


def test_the_limits_are_those_of_the_design() -> None:
    assert (wire.BEAT, wire.SILENT, wire.DEAD, wire.ORPHAN) == (2.0, 5.0, 10.0, 20.0)


def test_a_driver_that_stands_still_again_and_again_still_sees_who_hangs(channel: Channel) -> None:
    """It stands still for 3 s in every 13 s; 10 s of them count."""
    now, record = time.monotonic(), channel.records[0]
    record.node = Link("host0", 1, heard=now - 13)
    record.progressed = now - 130
    for _ in range(10):
        channel.forgive(3)
    assert record.node.heard == pytest.approx(now, abs=1), "never later than now"
    assert record.progressed == pytest.approx(now - 100, abs=1)


def test_a_result_is_progress_that_others_may_have_waited_for(channel: Channel) -> None:
    node, record = join(channel, 0), channel.records[0]
    until(lambda: record.node)
    record.progressed = 0.0
    assert node.report_result({})
    assert record.progressed > 0


def test_connections_that_are_cut_in_the_middle_of_messages_lose_and_double_nothing(channel: Channel) -> None:
    """The largest messages have 20,000 and 40,000 bytes, and a connection is reset within 50,000."""
    sizes, told, rendezvous = (0, 10, 3000, 20_000), 60, 60
    heard: dict[int, list[Any]] = {0: [], 1: []}
    gathered: dict[int, list[Any]] = {0: [], 1: []}
    with Relay(channel.address, at_random(50_000)) as relay:

        def live(rank: int) -> None:
            start = Start(replace(post(channel, rank), driver=relay.address), 2, "", {}, {}, "", os.getpid())
            node = NodeMember(start)
            message = node._message

            def noted(received: dict[str, Any]) -> None:
                if "told" in received:
                    heard[rank].append(received["value"])
                message(received)

            node._line._on_message = noted
            for number in range(rendezvous):
                values = node.gather(f"g{number}", [rank, number, "x" * sizes[number % len(sizes)]])
                gathered[rank].append([value[:2] for value in values])
            until(lambda: len(heard[rank]) == told, 60)
            # A delivery waits for five seconds, and this device may cut as often as it likes.
            assert any(node.report_result({"rank": rank}) for _ in range(5))

        threads = [threading.Thread(target=live, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: len(channel._peers) == 2, 30)
        for number in range(told):
            channel.tell("node", told="news", value=number)
            time.sleep(0.005)
        for thread in threads:
            thread.join(60)
        assert relay.cuts > 20
    assert heard == {0: list(range(told)), 1: list(range(told))}
    expected = [[[0, number], [1, number]] for number in range(rendezvous)]
    assert gathered == {0: expected, 1: expected}
    assert [record.result for record in channel.records] == [{"rank": 0}, {"rank": 1}]


def test_a_connection_that_is_dropped_without_a_word_is_dialled_anew(channel: Channel, monkeypatch: Any) -> None:
    monkeypatch.setattr(line, "BEAT", 0.05)
    monkeypatch.setattr(line, "QUIET", 0.3)
    with Relay(channel.address) as relay:
        client = Line(replace(post(channel, 0, "launcher"), driver=relay.address))
        until(channel.alive)
        relay.forget()
        assert client.deliver(ended=0, output=[])
        assert relay.calls == 2
    assert channel.records[0].ended is not None


DRIVER = """
import json, time
from sparksplit.cluster.channel import Channel
channel = Channel("127.0.0.1", 1)
print(json.dumps([channel.address, channel.secret]), flush=True)
while channel.records[0].ended is None:
    time.sleep(0.01)
print(channel.records[0].ended[1], flush=True)
"""


def test_a_driver_that_was_stopped_reads_the_last_words_of_who_ended_meanwhile(monkeypatch: Any) -> None:
    """They go over the connection that there was, though another was dialled when the driver fell silent."""
    for name, seconds in (("BEAT", 0.05), ("QUIET", 0.3), ("ORPHAN", 1.2), ("DELIVERY", 0.2)):
        monkeypatch.setattr(line, name, seconds)
    silent = threading.Event()
    with subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE) as driver:
        try:
            assert driver.stdout is not None
            address, secret = json.loads(driver.stdout.readline())
            launcher = Line(Post(tuple(address), secret, 0, "launcher"), on_silence=lambda reason: silent.set())
            driver.send_signal(signal.SIGSTOP)
            assert silent.wait(20)
            assert not launcher.deliver(ended=113, output=[])
            launcher.close()
            driver.send_signal(signal.SIGCONT)
            assert driver.stdout.readline() == b"113\n"
        finally:
            driver.kill()


@pytest.mark.parametrize("tls", [False, True])
def test_strangers_are_many_and_real_nodes_join_all_the_same(tls: bool) -> None:
    channel = Channel("127.0.0.1", 20, Network(tls=tls))
    strangers, ended = [], threading.Event()

    def crowd() -> None:
        while not ended.is_set() and len(strangers) < 500:
            with suppress(OSError):
                strangers.append(socket.create_connection(channel.address, 5))

    crowding = threading.Thread(target=crowd)
    crowding.start()
    lines: list[Line] = []
    joining = [threading.Thread(target=lambda rank=rank: lines.append(Line(post(channel, rank)))) for rank in range(20)]
    try:
        for thread in joining:
            thread.start()
        for thread in joining:
            thread.join(20)
        assert len(channel.alive()) == 20
        crowding.join(20)
        until(lambda: len(channel._unproven) <= channel._most_unproven)
        serving = [thread for thread in threading.enumerate() if thread.name == "nodes-serve"]
        assert len(serving) <= channel._most_unproven + 20 + 5, "some may be ending"
    finally:
        ended.set()
        for each in lines:
            each.close()
        for stranger in strangers:
            stranger.close()
        channel.close()


def test_an_encrypted_channel_is_for_those_who_know_its_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    channel, other = Channel("127.0.0.1", 1, Network(tls=True)), Channel("127.0.0.1", 1, Network(tls=True))
    try:
        with Relay(channel.address) as relay:
            client = Line(replace(post(channel, 0, "launcher"), driver=relay.address))
            client.send(beat={}, heard=0)
            assert client.deliver(error="e" * 300_000, kind="own")
            assert b"eeee" not in relay.sent
            channel.tell("launcher", told="x", value="v" * 300_000)
            until(lambda: client._heard == 1)
            assert b"vvvv" not in relay.received
            client.close()
        assert channel.records[0].error is not None and len(channel.records[0].error[2]) == 300_000
        monkeypatch.setattr(line, "ORPHAN", 0.3)
        with pytest.raises(ConnectionError, match="certificate"):
            Line(replace(post(channel, 0, "task"), fingerprint=other.fingerprint))
    finally:
        channel.close()
        other.close()
