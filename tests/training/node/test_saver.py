"""Checkpoints that are written beside training: one at a time, awaited, and their errors told."""

import threading
import time

import pytest

from sparksplit.base.errors import Passing, PeerLost, RunError
from sparksplit.training.node.saver import Saver
from tests.training.node.stand_ins import Member


def test_training_goes_on_while_one_is_written_and_the_next_waits_for_it():
    saver, go, written = Saver(Member()), threading.Event(), []

    def write(gather):
        assert gather("name", 7) == [7]
        go.wait(30)
        written.append(1)

    saver.begin(write)
    assert saver.seconds > 0 and not written
    threading.Timer(0.3, go.set).start()
    saver.begin(lambda gather: written.append(2))
    assert written[:1] == [1]
    saver.wait()
    assert written == [1, 2] and saver.seconds == 0


def test_what_writing_fails_with_is_told_once_by_whatever_comes_next():
    def full(gather):
        raise Passing("state.npz: cannot be written: No space left on device")

    for look in ("check", "wait", "begin"):
        saver = Saver(Member())
        saver.begin(full)
        while saver.seconds:
            time.sleep(0.001)
        with pytest.raises(Passing, match="No space left"):
            getattr(saver, look)(*([full] if look == "begin" else []))
        saver.wait()


def test_a_node_counts_as_waiting_only_while_it_has_written_and_others_have_not():
    """What it waits for itself to write must be its own hang, not theirs."""
    member, meets, hangs = Member(), threading.Event(), threading.Event()
    seen = []
    member.state = lambda **fields: seen.append(fields["waiting"])

    def meeting(name, value, *, beside):
        assert beside
        while seen[-1:] != [True]:
            time.sleep(0.01)
        return [value]

    member.gather = meeting

    def write(gather):
        meets.wait(30)
        gather("written", {})
        hangs.wait(30)

    saver = Saver(member)
    saver.begin(write)
    threading.Timer(0.5, meets.set).start()
    threading.Timer(1.5, hangs.set).start()
    saver.wait()
    assert seen[0] is False and True in seen and seen[-1] is False
    assert seen[seen.index(True) :].count(False) > 1, "the last of them wait for nobody"


def test_virtual_nodes_write_in_their_turn():
    member, threads = Member(), []
    saver = Saver(member, beside=False)
    saver.begin(lambda gather: threads.append((threading.current_thread(), gather("name", 1))))
    assert threads == [(threading.current_thread(), [1])]
    assert saver.seconds == 0


@pytest.mark.parametrize("error", [RunError("the loss is nan"), PeerLost("node 1 closed its connection")])
def test_what_is_good_is_finished_where_training_fails_after_it(error):
    """Not where it never would be."""
    saver, go, written = Saver(Member()), threading.Event(), []
    saver.begin(lambda gather: go.wait(30) and written.append(1))
    threading.Timer(0.3, go.set).start()
    with pytest.raises(type(error)), saver.finishing():
        raise error
    assert written == ([1] if isinstance(error, RunError) and not isinstance(error, PeerLost) else [])
    saver.wait()
