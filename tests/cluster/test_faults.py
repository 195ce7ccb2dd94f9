"""Who is named: everything that the driver may know, in seconds since some start, without processes."""

from __future__ import annotations

import errno
import signal
from typing import Any

import pytest

from sparksplit.base.errors import (
    ConfigError,
    Diverged,
    InputError,
    NodeFailed,
    Passing,
    PeerLost,
    RunError,
    UsageError,
)
from sparksplit.cluster.channel.limits import ORPHANED
from sparksplit.cluster.failures import FOLLOWS, Failure
from sparksplit.cluster.faults import Fault, culprit, driver_at_fault, kind_and_text
from sparksplit.cluster.node_record import Link, NodeRecord

NOW = 100.0


def healthy(nodes: int = 3, heard: float = NOW) -> list[NodeRecord]:
    return [
        NodeRecord(rank, host=f"host{rank}", launcher=Link("", 1, heard), node=Link("", 2, heard), progressed=heard)
        for rank in range(nodes)
    ]


def named(records: list[NodeRecord], now: float = NOW, **options: Any) -> tuple[int | None, str] | None:
    fault = culprit(records, now, **options)
    return fault and (fault.rank, fault.text)


def gone(link: Link | None, at: float) -> None:
    assert link is not None
    link.gone = at


def test_nothing_is_wrong_with_healthy_nodes() -> None:
    assert culprit(healthy(), NOW + 1) is None


def test_nodes_that_have_not_called_yet_are_not_at_fault() -> None:
    assert culprit([NodeRecord(0), NodeRecord(1)], NOW) is None


def test_the_verdict_waits_for_better_evidence() -> None:
    records = healthy()
    records[2].error = (NOW, Failure.OWN, "ValueError: x")
    assert culprit(records, NOW + 0.4) is None
    assert named(records, NOW + 0.6) == (2, "ValueError: x")


def test_a_signal_outranks_earlier_errors_of_others() -> None:
    records = healthy()
    records[0].error = (NOW, Failure.ECHO, "ConnectionResetError: x")
    records[2].error = (NOW, Failure.OWN, "OSError: x")
    records[1].ended = (NOW + 0.3, -signal.SIGKILL)
    rank, text = named(records, NOW + 0.6) or (None, "")
    assert rank == 1
    assert text.startswith("was ended by SIGKILL")


def test_a_lost_launcher_outranks_errors() -> None:
    records = healthy()
    records[0].error = (NOW - 1, Failure.OWN, "OSError: x")
    gone(records[1].launcher, NOW)
    gone(records[1].node, NOW)
    assert culprit(records, NOW + 0.9) is None, "it may call again"
    rank, text = named(records, NOW + 1.1) or (None, "")
    assert rank == 1
    assert "the Python worker that held it" in text


def test_a_launcher_alone_has_longer_to_call_again() -> None:
    """The death of its process would have taken the node along."""
    records = healthy()
    gone(records[1].launcher, NOW)
    assert culprit(records, NOW + 2.9) is None
    assert (named(records, NOW + 3.1) or (None,))[0] == 1


def test_who_has_called_again_is_not_at_fault() -> None:
    records = healthy()
    for link in (records[1].node, records[1].launcher):
        gone(link, NOW)
        assert link is not None
        link.gone = None
    assert culprit(records, NOW + 5) is None


def test_while_others_call_again_there_is_longer_to_do_so() -> None:
    """The driver takes seconds to answer a thousand nodes that were cut off at once."""
    records = healthy()
    for link in (records[1].node, records[1].launcher):
        gone(link, NOW)
    for second in range(1, 9):
        assert records[0].node is not None
        records[0].node.again = NOW + second
        assert culprit(records, NOW + second + 0.9) is None
    assert (named(records, NOW + 9.1) or (None,))[0] == 1
    records[0].node.again = NOW + 11
    assert (named(records, NOW + 11.1) or (None,))[0] == 1, "but no longer than silence is waited for"


def test_a_launcher_that_is_gone_after_its_result_holds_up_no_verdict() -> None:
    records = healthy()
    records[1].result = {}
    gone(records[1].launcher, NOW)
    records[0].error = (NOW, Failure.OWN, "OSError: x")
    assert named(records, NOW + 0.6) == (0, "OSError: x")


def test_five_silent_seconds_outrank_an_error() -> None:
    records = healthy()
    records[0].error = (NOW - 1, Failure.OWN, "OSError: x")
    assert records[1].node is not None
    records[1].node.heard = NOW - 5.5
    rank, text = named(records) or (None, "")
    assert rank == 1
    assert "silent for 6 s" in text


def test_silence_alone_is_a_failure_after_ten_seconds() -> None:
    for part in ("node", "launcher"):
        records = healthy()
        getattr(records[1], part).heard = NOW - 9.5
        assert culprit(records, NOW) is None
        assert (named(records, NOW + 1) or (None,))[0] == 1


def test_a_process_that_is_stopped_before_it_has_called_is_silent_too() -> None:
    """Its launcher says so; once it has called, its own beats tell more."""
    records = healthy()
    records[1].node = None
    for second in range(0, 12, 2):
        records[1].beaten("launcher", {"stopped": True}, NOW + second - 10)
    assert culprit(records, NOW - 0.1) is None
    rank, text = named(records, NOW + 0.1) or (None, "")
    assert (rank, text) == (1, "its process has been stopped for 10 s, before it had called the driver")
    records[1].beaten("launcher", {}, NOW + 0.1)
    assert culprit(records, NOW + 0.2) is None
    records[1].stopped, records[1].node = NOW - 20, Link("", 2, NOW)
    assert culprit(records, NOW + 0.1) is None


def test_a_task_is_watched_until_it_is_a_launcher() -> None:
    records = [NodeRecord(0, task=Link("", 1, NOW))]
    assert culprit(records, NOW + 9) is None
    rank, text = named(records, NOW + 10.1) or (None, "")
    assert rank == 0 and text.startswith("the Python worker that holds it has been silent for 10 s")
    gone(records[0].task, NOW)
    assert culprit(records, NOW + 2.9) is None
    assert "lost with the Python worker" in (named(records, NOW + 3.1) or (None, ""))[1]
    records[0].launcher = Link("", 1, NOW + 10)
    assert culprit(records, NOW + 11) is None


def test_an_echo_waits_for_its_source() -> None:
    records = healthy()
    records[0].error = (NOW, Failure.ECHO, "lost node 1")
    assert culprit(records, NOW + 1) is None
    records[1].error = (NOW + 1.5, Failure.OWN, "ValueError: the source")
    assert named(records, NOW + 1.8) == (1, "ValueError: the source")


def test_an_echo_waits_as_long_as_another_node_may_be_dying() -> None:
    records = healthy()
    records[0].error = (NOW, Failure.ECHO, "lost node 1")
    assert records[1].node is not None and records[1].launcher is not None
    records[1].node.heard = NOW - 1
    records[2].node = records[1].launcher = records[2].launcher = None
    assert culprit(records, NOW + 3.5) is None
    assert (named(records, NOW + 4.5) or (None,))[0] == 1


def test_an_echo_without_a_source_is_named_itself() -> None:
    records = healthy(heard=NOW + 3)
    records[0].error = (NOW, Failure.ECHO, "lost node 1")
    assert named(records, NOW + 3) == (0, "lost node 1")


def test_abort_ranks_behind_own_errors() -> None:
    records = healthy()
    records[0].ended = (NOW, -signal.SIGABRT)
    records[1].error = (NOW + 0.2, Failure.OWN, "ValueError: x")
    assert (named(records, NOW + 1) or (None,))[0] == 1
    records[1].error = None
    assert "SIGABRT" in (named(records, NOW + 3) or (None, ""))[1]


def test_an_orphan_is_an_echo() -> None:
    records = healthy()
    records[0].ended = (NOW, ORPHANED)
    records[1].ended = (NOW + 0.4, 7)
    assert named(records, NOW + 1) == (1, "ended with exit status 7 and without a result")


def test_a_driver_that_stood_still_is_at_fault_where_its_nodes_ended_themselves() -> None:
    """Spark has nothing to tell then but that it did not try tasks again."""
    echo, job = Fault(Failure.ECHO, NOW, 0, "h", "x"), Fault(Failure.JOB, NOW + 1, None, "", "x")
    for fault in (echo, job):
        error = driver_at_fault(fault, NOW, 47.2).error()
        assert str(error).startswith("the driver stood still for 47 s (it was stopped, or its machine was suspended)")
        assert isinstance(error, NodeFailed) and error.may_pass
        # Not for so long that nodes would end; long ago; no such stop at all.
        assert driver_at_fault(fault, NOW, 12) == driver_at_fault(fault, NOW - 60, 47) == fault
        assert driver_at_fault(fault, NOW - 60, 0) == fault
    for other in (Fault(Failure.KILLED, NOW, 1, "h", "x"), Fault(Failure.OWN, NOW, 1, "h", "x")):
        assert driver_at_fault(other, NOW, 47.2) == other


def test_a_hang_up_is_the_executors_end() -> None:
    records = healthy()
    records[0].ended = (NOW, -signal.SIGHUP)
    assert named(records, NOW + 1) == (0, "its executor was lost")


def test_a_reported_error_outranks_the_exit_status_that_follows() -> None:
    records = healthy()
    records[0].error, records[0].ended = (NOW, Failure.OWN, "ValueError: x"), (NOW + 0.1, 1)
    assert named(records, NOW + 1) == (0, "ValueError: x")


def test_nodes_with_a_result_are_never_at_fault() -> None:
    records = healthy()
    records[0].result = {}
    records[0].ended = (NOW, -signal.SIGKILL)
    gone(records[0].launcher, NOW)
    assert culprit(records, NOW + 1) is None


def test_a_node_without_connection_is_named_when_its_launcher_says_nothing() -> None:
    records = healthy()
    gone(records[1].node, NOW - 2.5)
    assert culprit(records, NOW) is None
    assert named(records, NOW + 1) == (1, "closed its connection to the driver")


class UnavailableError(Exception):
    """Has the name of TensorFlow's."""


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ValueError("a\n b"), Failure.OWN, "ValueError: a b"),
        (KeyError(), Failure.OWN, "KeyError"),
        (ConfigError("conf/x.yaml:3: wrong"), Failure.USAGE, "conf/x.yaml:3: wrong"),
        (InputError("data/part-1: row 3 holds nan"), Failure.INPUT, "data/part-1: row 3 holds nan"),
        (RunError("the ring broke"), Failure.OWN, "the ring broke"),
        (Diverged("epoch 1, step 3: the loss is nan"), Failure.DIVERGED, "epoch 1, step 3: the loss is nan"),
        (RunError("epoch 1, step 3: the loss is nan"), Failure.OWN, None),
        (Passing("spool: cannot take more rows: No space left on device"), Failure.PASSING, None),
        (OSError(errno.ENOSPC, "No space left on device"), Failure.PASSING, None),
        (OSError(errno.ESTALE, "Stale file handle"), Failure.PASSING, None),
        (FileNotFoundError(errno.ENOENT, "No such file"), Failure.OWN, None),
        (OSError("an error of a library's own"), Failure.OWN, None),
        (OSError(errno.EBADF, "Bad file descriptor"), Failure.OWN, None),
        (MemoryError("Unable to allocate 1 TiB"), Failure.MEMORY, None),
        (PeerLost("node 2 is gone"), Failure.ECHO, "node 2 is gone"),
        (ConnectionResetError(104, "reset"), Failure.ECHO, "ConnectionResetError: [Errno 104] reset"),
        (UnavailableError("x"), Failure.ECHO, "UnavailableError: x"),
        (SystemExit(3), Failure.OWN, "SystemExit: 3"),
    ],
)
def test_errors_are_described_in_one_line(error: BaseException, kind: Failure, text: str | None) -> None:
    found = kind_and_text(error)
    assert found == (kind, found[1] if text is None else text)


def test_an_error_that_an_echo_caused_is_an_echo() -> None:
    error = RuntimeError("the step failed")
    error.__cause__ = ConnectionResetError()
    assert kind_and_text(error)[0] is Failure.ECHO
    error.__cause__ = BrokenPipeError()
    assert kind_and_text(error)[0] is Failure.PIPE


def test_long_texts_are_cut() -> None:
    assert len(kind_and_text(ValueError("x" * 10_000))[1]) < 600


def test_the_verdict_becomes_the_exception_to_raise() -> None:
    failed = Fault(Failure.PASSING, NOW, 1, "host1", "ValueError: x").error()
    assert isinstance(failed, NodeFailed)
    assert (str(failed), failed.rank) == ("node 1 on host1: ValueError: x", 1)
    assert failed.may_pass


@pytest.mark.parametrize(
    ("kind", "may_pass"),
    [("own", False), ("diverged", False), ("pipe", False), ("passing", True), ("memory", True), ("echo", True)],
)
def test_an_error_of_its_own_would_come_again(kind: str, may_pass: bool) -> None:
    records = healthy()
    records[0].error = (NOW, Failure(kind), "x")
    for record in records:
        for link in (record.node, record.launcher):
            assert link is not None
            link.heard = NOW + 3
    fault = culprit(records, NOW + 3)
    assert fault is not None and fault.follows.may_pass is may_pass
    assert isinstance(fault.error(), Diverged) is (kind == "diverged")
    records[0].error, records[0].ended = None, (NOW, -signal.SIGKILL)
    fault = culprit(records, NOW + 3)
    assert fault is not None and fault.follows.may_pass


def test_the_table_says_what_follows_from_every_kind() -> None:
    assert set(FOLLOWS) == set(Failure)
    final = {Failure.USAGE, Failure.INPUT, Failure.CALLBACK, Failure.DIVERGED, Failure.OWN, Failure.PIPE}
    assert {failure for failure in Failure if not FOLLOWS[failure].may_pass} == final
    memory = {Failure.MEMORY, Failure.KILLED_FOR_MEMORY}
    assert {failure for failure in Failure if FOLLOWS[failure].memory} == memory
    lost = {Failure.EXECUTOR_LOST, Failure.JOB}
    assert {failure for failure in Failure if FOLLOWS[failure].executor_lost} == lost


def test_a_kind_of_a_newer_node_may_pass_and_a_diverged_run_may_not() -> None:
    assert Failure("quota") is Failure.PASSING
    assert not Diverged("the loss is nan").may_pass


def test_a_users_mistake_is_one_in_the_end() -> None:
    usage = Fault(Failure.USAGE, NOW, 1, "host1", "model: wrong").error()
    assert type(usage) is UsageError
    assert str(usage) == "model: wrong"
    assert type(Fault(Failure.INPUT, NOW, 1, "host1", "data: damaged").error()) is InputError


def test_a_full_disk_in_tensorflows_words_is_not_memory():
    """Its error for both has one name; the one may pass."""
    error = type("ResourceExhaustedError", (Exception,), {})
    assert kind_and_text(error("/x/part; No space left on device"))[0] is Failure.PASSING
    assert kind_and_text(error("OOM when allocating tensor"))[0] is Failure.MEMORY


def test_what_was_given_comes_before_what_others_made_of_it():
    """A NaN in a row of one node is a loss of NaN on all; a node that has none may say so first."""
    first, second = NodeRecord(0, "a"), NodeRecord(1, "b")
    first.error, second.error = (1.0, Failure.OWN, "the loss is nan"), (1.2, Failure.USAGE, "file: row 3 holds nan")
    fault = culprit([first, second], 2.0)
    assert fault is not None and fault.error().args[0] == "file: row 3 holds nan"
