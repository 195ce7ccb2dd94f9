"""The driver's channel and its clients over loopback, without Spark."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hdfs_io import activity
from sparksplit.base.errors import ConfigError, RunError
from sparksplit.cluster.channel import limits, line
from sparksplit.cluster.channel.line import Line, Post
from sparksplit.cluster.channel.server import Channel
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.faults import culprit
from sparksplit.cluster.node_record import Link, NodeRecord
from sparksplit.network import callers, wire
from tests.cluster.channel.ends import as_node, join, post, until
from tests.descriptors import no_descriptors
from tests.relay import Relay


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


def test_a_lack_of_descriptors_passes_and_is_said(
    channel: Channel, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of tests before may give back some descriptors meanwhile: each of them lets one caller in."""
    monkeypatch.setattr(callers, "PATIENCE", 60.0)
    with ExitStack() as stack:
        late = [stack.enter_context(socket.socket()) for _ in range(20)]
        with no_descriptors():
            for caller in late:
                caller.settimeout(10)
                caller.connect(channel.address)
                with suppress(AssertionError):
                    until(lambda: "nodes cannot connect at the moment, trying again: Too many" in caplog.text, 1.0)
                    break
        assert "Too many open files" in caplog.text
        assert wire.Wire(caller).introduce(channel.secret.encode(), as_node(), time.monotonic() + 10) == {
            "received": -1,
            "behind": 0,
        }
    assert 1 <= caplog.text.count("trying again") <= 1 + late.index(caller)


def test_a_driver_that_speaks_nonsense_is_as_good_as_gone(channel: Channel) -> None:
    reasons: list[str] = []
    Line(post(channel), on_message=lambda message: message["values"], on_silence=reasons.append)
    until(channel.alive)
    channel.tell("node", gathered="x")
    until(lambda: reasons)
    assert reasons == ["lost the driver (KeyError: 'values')"]


def test_a_line_whose_driver_is_gone_leaves_no_thread(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "BEAT", 0.02)
    before = set(threading.enumerate())
    reasons: list[str] = []
    Line(post(channel), on_silence=reasons.append)
    until(channel.alive)
    channel.close()
    until(lambda: reasons)
    until(lambda: not any(each.name.startswith("driver-") for each in set(threading.enumerate()) - before))


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


def test_a_beat_is_one_nodes_business_however_many_there_are(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the driver does for a beat must not grow with the nodes: a thousand beat 500 times a second."""
    monkeypatch.setattr(line, "BEAT", 0.02)
    node, passed = join(channel, 1), list[str]()

    class Records(list[NodeRecord]):
        def __iter__(self) -> Iterator[NodeRecord]:
            passed.append("all records")
            return super().__iter__()

    channel.records = Records(channel.records)
    passed.clear()
    for update in range(3):
        node.state(update=update)
        until(lambda update=update: channel.records[1].state.get("update") == update)  # type: ignore[misc]
    assert not passed
    assert culprit(channel.records, time.monotonic()) is None
    assert passed, "they are looked at once in a while, by whoever waits"


def test_scalars_of_libraries_travel(channel: Channel) -> None:
    numpy = pytest.importorskip("numpy")
    node = join(channel, 0)
    node.state(loss=numpy.float32(0.5), rows=numpy.arange(2))
    assert node.report_result({})
    assert channel.records[0].state == {"loss": 0.5, "rows": [0, 1], "done": activity.count()}


def test_state_is_safe_in_threads(channel: Channel) -> None:
    node = join(channel, 0)
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


def test_what_is_too_long_for_a_line_is_refused_where_it_is_sent(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be sent, dropped and sent again over every next connection."""
    monkeypatch.setattr(wire, "LONGEST_LINE", 3 << 10)
    node = join(channel, 0)
    with pytest.raises(RunError, match=r"\(id, gather x, value\) has 1,5\d\d bytes, and may have 1,024: put"):
        node.gather("x", "a" * 1500)
    with pytest.raises(RunError, match=r"\(id, result, state\) has 3,0\d\d bytes, and may have 2,048: put"):
        node.report_result({"a": "b" * 3000})
    with pytest.raises(RunError, match=r"\(told x, value\)"):
        channel.tell("node", told="x", value="a" * 3000)
    assert node.report_result({"a": "b" * 1500})
    assert channel.records[0].result == {"a": "b" * 1500}
    assert channel.alive() == ["node 0"]


def test_the_longest_values_of_all_nodes_fit_into_one_line(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LONGEST_LINE", 3 << 10)
    nodes = [join(channel, rank) for rank in range(2)]
    overhead = len(wire.text_of({"id": 0, "gather": "x", "value": ""}).line)
    value, refused = "a" * (1024 - overhead), "a" * (1025 - overhead)
    for node in nodes:
        with pytest.raises(RunError):
            node.gather("x", refused)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda node: node.gather("x", value), nodes)) == [[value] * 2] * 2


def test_a_state_that_is_too_long_is_its_nodes_error(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LONGEST_LINE", 3 << 10)
    monkeypatch.setattr(line, "BEAT", 0.02)
    join(channel, 0).state(history="a" * 3000)
    until(lambda: channel.records[0].error)
    assert channel.records[0].error is not None
    assert "(id, beat, heard) has 3,0" in channel.records[0].error[2]


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
    node.report_error(Failure.OWN, "first")
    node.report_error(Failure.OWN, "second")
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
    assert (limits.BEAT, limits.SILENT, limits.DEAD, limits.ORPHAN) == (2.0, 5.0, 10.0, 20.0)


def test_a_driver_that_stands_still_again_and_again_still_sees_who_hangs(channel: Channel) -> None:
    """It stands still for 3 s in every 13 s; 10 s of them count."""
    now, record = time.monotonic(), channel.records[0]
    record.node = Link("host0", 1, heard=now - 13)
    record.progressed = now - 130
    for _ in range(10):
        channel.forgive(3)
    assert record.node.heard == pytest.approx(now, abs=5), "never later than now"
    assert record.progressed == pytest.approx(now - 100, abs=5)


def test_who_may_have_called_again_while_the_driver_stood_still_is_not_lost(channel: Channel) -> None:
    now, record = time.monotonic(), channel.records[0]
    record.node, record.launcher = (Link("host0", 1, heard=now - 9, gone=now - 8.5) for _ in range(2))
    channel.forgive(8)
    assert culprit(channel.records, time.monotonic()) is None
    assert culprit(channel.records, time.monotonic() + 1) is not None


def test_a_launchers_beats_tell_that_its_node_is_stopped(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "BEAT", 0.02)
    told: dict[str, Any] = {"stopped": True}
    Line(post(channel, 1, "launcher"), state=lambda: told)
    until(lambda: channel.records[1].stopped)
    since = channel.records[1].stopped
    assert since is not None and since == channel.records[1].stopped <= time.monotonic()
    channel.forgive(3600)
    assert channel.records[1].stopped == pytest.approx(time.monotonic(), abs=5), "never later than now"
    told.clear()
    until(lambda: channel.records[1].stopped is None)


def test_a_task_that_calls_anew_while_its_first_line_ends_is_there(channel: Channel) -> None:
    first, again = Line(post(channel, 0, "task")), Line(post(channel, 0, "task"))
    until(lambda: channel.records[0].task)
    again.deliver(place="executor 3")
    first.close()
    time.sleep(0.05)
    assert channel.records[0].task is not None and channel.records[0].task.gone is None
    again.close()
    until(lambda: channel.records[0].task and channel.records[0].task.gone)


def test_a_task_that_fails_beside_its_launcher_is_not_lost(channel: Channel) -> None:
    """As where the node's folder cannot be made."""
    launcher = Line(post(channel, 0, "launcher"))
    launcher.close()
    until(lambda: not channel.alive())
    assert Line(post(channel, 0, "task")).deliver(error="before its start: OSError: no room", kind="passing")
    fault = culprit(channel.records, time.monotonic() + 1)
    assert fault is not None
    assert (fault.text, fault.follows.may_pass) == ("before its start: OSError: no room", True)
    assert culprit(channel.records, time.monotonic() + 10) == fault


def test_a_result_is_progress_that_others_may_have_waited_for(channel: Channel) -> None:
    node, record = join(channel, 0), channel.records[0]
    until(lambda: record.node)
    record.progressed = 0.0
    assert node.report_result({})
    assert record.progressed > 0
