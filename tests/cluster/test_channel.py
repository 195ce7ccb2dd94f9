"""The driver's channel and its clients over loopback, without Spark."""

from __future__ import annotations

import json
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base import activity
from sparksplit.base.errors import ConfigError
from sparksplit.cluster import line, member, wire
from sparksplit.cluster.channel import Channel, Hello
from sparksplit.cluster.faults import Link
from sparksplit.cluster.line import Line, Post
from sparksplit.cluster.member import NodeMember, Start
from tests.descriptors import no_descriptors


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
        each.close()


def post(channel: Channel, rank: int = 0, kind: Any = "node") -> Post:
    return Post(channel.address, channel.secret, rank, kind)


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


def test_an_address_of_another_machine_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"spark\.driver\.host: .* 192\.0\.2\.1 "):
        Channel("192.0.2.1", nodes=1)


@pytest.mark.parametrize(
    "hello",
    [
        {"secret": "0" * 32, "rank": 0, "kind": "node"},
        {"rank": 0, "kind": "node"},
        {"secret": None, "rank": 2, "kind": "node"},
        {"secret": None, "rank": 0, "kind": "nobody"},
        {"secret": None, "rank": True, "kind": "node"},
        ["a list"],
        "no JSON",
        "x" * 100_000,
        pickle.dumps(print),
        "[" * 4000,
        '{"a":' * 800,
        b"\xff\xfe" + b"{}",
        {"secret": "\ud800", "rank": 0, "kind": "node"},
        {"secret": None, "rank": 10**4000, "kind": "node"},
        {"secret": None, "rank": 0, "kind": "node", "pid": float("nan")},
        {"secret": None, "rank": 0, "kind": "node", "pid": [1]},
        {"secret": None, "rank": 0, "kind": ["node"]},
    ],
)
def test_who_does_not_belong_is_turned_away(channel: Channel, hello: Any) -> None:
    if isinstance(hello, dict) and "secret" in hello:
        hello["secret"] = hello["secret"] or channel.secret
    text = hello if isinstance(hello, bytes) else (hello if isinstance(hello, str) else json.dumps(hello)).encode()
    with socket.create_connection(channel.address, 5) as stranger:
        stranger.sendall(text + b"\n")
        # Reset where the rest of a long line was left unread.
        with suppress(ConnectionResetError):
            assert stranger.recv(100) == b""
    assert channel.alive() == []
    assert all(record.node is None for record in channel.records)


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


@given(
    st.dictionaries(st.sampled_from(["secret", "rank", "kind", "pid", "host", "id"]), json_values),
    st.booleans(),
    st.booleans(),
)
def test_a_hello_is_one_of_this_run_or_refused(message: dict[str, Any], knows: bool, fits: bool) -> None:
    if knows:
        message["secret"] = "s" * 32
    if fits:
        message |= {"rank": 1, "kind": "node", "pid": 7, "id": 0}
    hello = Hello.of(message, "s" * 32, 2)
    if hello is None:
        assert not (knows and fits)
    else:
        assert knows and hello.rank in range(2) and hello.kind in ("node", "launcher", "task")


def test_who_sends_its_hello_byte_by_byte_is_turned_away(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparksplit.cluster.channel.DEAD", 0.2)
    sent = 0
    with socket.create_connection(channel.address, 5) as stranger, suppress(OSError):
        for _ in range(500):
            stranger.sendall(b"x")
            sent += 1
            time.sleep(0.01)
    assert sent < 500


def test_a_lack_of_descriptors_passes_and_is_said(channel: Channel, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as late:
        late.settimeout(10)
        with no_descriptors():
            late.connect(channel.address)
            until(lambda: "nodes cannot connect for the moment, trying on: Too many open files" in caplog.text)
        hello = {"secret": channel.secret, "rank": 0, "kind": "node", "id": 3}
        late.sendall(json.dumps(hello).encode() + b"\n")
        assert json.loads(late.recv(100)) == {"received": 3}
    assert caplog.text.count("trying on") == 1


def test_a_driver_that_speaks_nonsense_is_as_good_as_gone() -> None:
    reasons: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        node = Post(server.getsockname(), "", 0, "node")
        client = Line(node, on_message=lambda message: message["values"], on_silence=reasons.append)
        with server.accept()[0] as connection:
            connection.sendall(b'{"gathered": "x"}\n')
            until(lambda: reasons)
        client.close()
    assert reasons == ["lost the driver (KeyError: 'values')"]


def test_a_second_process_of_a_rank_is_turned_away(channel: Channel) -> None:
    first, lost = join(channel, 0), threading.Event()
    until(channel.alive)
    second = Line(post(channel, 0), on_silence=lambda reason: lost.set())
    assert lost.wait(60)
    second.close()
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


def test_a_driver_that_says_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "ORPHAN", 0.2)
    monkeypatch.setattr(line, "BEAT", 0.05)
    reasons: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Line(Post(silent.getsockname(), "", 0, "node"), on_silence=reasons.append)
        until(lambda: reasons)
        client.close()
    assert reasons == ["no sign of the driver for 0.2 s"]


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
