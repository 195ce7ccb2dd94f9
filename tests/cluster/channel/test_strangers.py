"""Who is let in, who is turned away, and what it costs until that is known."""

from __future__ import annotations

import json
import os
import pickle
import socket
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.cluster.channel import line
from sparksplit.cluster.channel.line import Line, Refused
from sparksplit.cluster.channel.server import Channel, Hello
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.member import NodeMember, Start
from sparksplit.network import wire
from sparksplit.network.listening import Network
from sparksplit.network.seal import NONCE, Text, seals
from tests.cluster.channel.ends import as_node, join, post, said, until
from tests.relay import Relay

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


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
        node.report_error(Failure.OWN, "overheard")
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
    sends, receives = seals(b"s", b"a", b"b")[0], seals(b"s", b"a", b"b")[0]
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
    monkeypatch.setattr("sparksplit.network.callers.SECONDS", 0.2)
    channel, sent = Channel("127.0.0.1", 1, Network(tls=bool(beginning))), 0
    with socket.create_connection(channel.address, 5) as stranger, suppress(OSError):
        stranger.sendall(beginning)
        for _ in range(400):
            stranger.sendall(b"x")
            sent += 1
            time.sleep(0.01)
    channel.close()
    assert 10 < sent < 400


def test_a_second_process_of_a_rank_is_turned_away(channel: Channel) -> None:
    first = join(channel, 0)
    until(channel.alive)
    with pytest.raises(Refused, match="another process is node 0"):
        Line(post(channel, 0))
    assert channel.alive() == ["node 0"]
    assert first.rank == 0


@pytest.mark.parametrize("tls", [False, True])
def test_strangers_are_many_and_real_nodes_join_all_the_same(tls: bool) -> None:
    channel = Channel("127.0.0.1", 20, Network(tls=tls))
    strangers, ended = [], threading.Event()

    def serving() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "callers-serve"]

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
        until(lambda: channel.callers.unproven <= channel.callers.most)
        until(lambda: len(serving()) <= channel.callers.most + 20)  # more of them are ending
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
        monkeypatch.setattr(line, "ORPHAN", 9)
        monkeypatch.setattr(line, "PAUSE", 10)  # so that it calls once
        with pytest.raises(ConnectionError, match="certificate"):
            Line(replace(post(channel, 0, "task"), fingerprint=other.fingerprint))
    finally:
        channel.close()
        other.close()
