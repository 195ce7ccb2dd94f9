"""Connections to the driver that are cut on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sparksplit.cluster.channel import line
from sparksplit.cluster.channel.line import Line, Post
from sparksplit.cluster.channel.server import Channel
from sparksplit.cluster.member import NodeMember, Start
from sparksplit.network.wire import Wire
from tests.cluster.channel.ends import post, until
from tests.relay import Relay, at_random

DRIVER = """
import json, time
from sparksplit.cluster.channel.server import Channel
channel = Channel("127.0.0.1", 1)
print(json.dumps([channel.address, channel.secret]), flush=True)
while channel.records[0].ended is None:
    time.sleep(0.01)
print(channel.records[0].ended[1], flush=True)
"""


def test_connections_that_are_cut_in_the_middle_of_messages_lose_and_double_nothing(channel: Channel) -> None:
    """The largest messages have 20,000 and 40,000 bytes, and a connection is reset within 50,000."""
    sizes, told, rendezvous = (0, 10, 3000, 20_000), 60, 60
    heard: dict[int, list[Any]] = {0: [], 1: []}
    gathered: dict[int, list[Any]] = {0: [], 1: []}
    listening = [threading.Event() for _ in range(2)]
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
            listening[rank].set()
            for number in range(rendezvous):
                values = node.gather(f"g{number}", [rank, number, "x" * sizes[number % len(sizes)]])
                gathered[rank].append([value[:2] for value in values])
            until(lambda: len(heard[rank]) == told, 60)
            # A delivery waits for five seconds, and this device may cut as often as it likes.
            assert any(node.report_result({"rank": rank}) for _ in range(5))

        threads = [threading.Thread(target=live, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        assert all(each.wait(30) for each in listening)
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
    monkeypatch.setattr(line, "DELIVERY", 0.2)  # shorter, as it really is
    with Relay(channel.address) as relay:
        client = Line(replace(post(channel, 0, "launcher"), driver=relay.address))
        until(channel.alive)
        relay.forget()
        assert client.deliver(ended=0, output=[])
        assert relay.calls >= 2  # more where the machine is so busy that the new one falls silent for so long
    assert channel.records[0].ended is not None


def test_what_was_heard_while_another_connection_was_dialled_is_not_counted_twice(
    channel: Channel, monkeypatch: Any
) -> None:
    """The hello was made before that; a beat over the first connection has told the driver of it meanwhile."""
    monkeypatch.setattr(line, "BEAT", 0.02)
    heard: list[int] = []
    client = Line(post(channel), on_message=lambda message: heard.append(message["value"]))
    until(channel.alive)
    peer, go_on, introduce = channel._peers["node", 0], threading.Event(), Wire.introduce
    begun = threading.Event()

    def slow(*arguments: Any) -> Any:
        begun.set()
        assert go_on.wait(60)
        return introduce(*arguments)

    monkeypatch.setattr(Wire, "introduce", slow)
    calling = threading.Thread(target=client._call_anew)

    def dialled(until: float) -> Any:  # whoever notices the first one's end first, this one is taken
        calling.join(60)
        return client._next

    monkeypatch.setattr(client, "_dialled", dialled)
    calling.start()
    assert begun.wait(60)
    channel.tell("node", value=1)
    until(lambda: not peer._told)
    first = peer._wire
    go_on.set()
    calling.join(60)
    until(lambda: peer._wire is not first)
    channel.tell("node", value=2)
    channel.tell("node", value=3)
    until(lambda: 3 in heard)
    assert heard == [1, 2, 3]


def test_what_two_connections_acknowledge_at_once_is_acknowledged(channel: Channel) -> None:
    class Raced(dict[int, Any]):
        """Of which another thread takes everything between a look and a pop."""

        def __iter__(self) -> Iterator[int]:
            found = list(super().__iter__())
            self.clear()
            return iter(found)

    client = Line(post(channel))
    client._open = Raced({1: None})
    client._acknowledged(1)
    assert not client._open


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
