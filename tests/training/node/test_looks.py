"""When checkpoints are due: after the same step on all nodes, whoever's clock says what."""

import random
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

from sparksplit.collectives import Alone
from sparksplit.training.node import looks
from sparksplit.training.node.looks import Looks
from tests.nodes import in_threads
from tests.replaced import replaced
from tests.training.node.stand_ins import Together

IDLE = SimpleNamespace(seconds=0.0, check=lambda: None)


def test_all_nodes_look_after_the_same_steps_and_none_has_planned_beyond():
    """Each makes its chunks ahead, of lengths of its own, at a pace of its own."""

    def node(rank, gather):
        chance = random.Random(rank)
        own = Looks(Together(rank, 3, gather), IDLE, None, lambda: False, begun=0, patience=1)
        planned, step, looked = [0], 0, []
        while step < 400:
            while len(planned) < 4:
                most = chance.randint(1, 20)
                end = own.until(planned[-1], planned[-1] + (1 << 62), most)
                planned.append(min(end, planned[-1] + most))
            planned.pop(0)
            step = planned[0]
            assert step <= own._next
            if step == own._next:
                own._length = min(own._length, 16)  # which the clock may or may not have made longer
                own.look(step)
                looked.append(step)
        return looked

    first, *others = in_threads(3, node)
    assert len(first) > 5 and all(other == first for other in others)


@pytest.mark.parametrize("asked", [None, 0, 2])
def test_rank_0s_clock_decides_and_any_node_may_ask(asked):
    def node(rank, gather):
        seconds = 1e-9 if rank == 0 else 1e9
        own = Looks(Together(rank, 3, gather), IDLE, seconds, lambda: rank == asked, begun=0, patience=1)
        time.sleep(0.01)
        return own.look(1)

    for seen in in_threads(3, node):
        assert (seen.due, seen.ending) == (True, asked is not None)


def test_one_at_a_time_by_the_clock_until_it_takes_too_long():
    """Then the next is waited for, and the driver sees who hangs."""
    saver = SimpleNamespace(seconds=5.0, check=lambda: None)
    own = Looks(Alone(), saver, 1e-9, lambda: False, begun=0, patience=60)
    assert not own.look(1).due
    saver.seconds = 61.0
    assert own.look(2).due
    saver.seconds = 0.0
    assert own.look(3).due
    never = Looks(Alone(), saver, None, lambda: False, begun=0, patience=60)
    assert not never.look(1).due


def test_looks_come_about_once_a_second(monkeypatch):
    now = [0.0]
    replaced(monkeypatch, looks, "time", monotonic=lambda: now[0])
    own, step, times = Looks(Alone(), IDLE, 10.0, lambda: False, begun=0, patience=60), 0, []
    while now[0] < 100:
        now[0] += (own._next - step) * 0.002
        step = own._next
        if own.look(step).due:
            own.saved(False)
            times.append(now[0])
    assert 8 < len(times) < 11
    assert all(10 <= later - earlier < 11.1 for earlier, later in pairwise(times))


def test_where_only_as_many_nodes_can_go_on_within_a_round_its_end_has_a_clock_of_its_own(monkeypatch):
    now = [0.0]
    replaced(monkeypatch, looks, "time", monotonic=lambda: now[0])
    own = Looks(Alone(), IDLE, 10.0, lambda: False, begun=0, patience=60, rounds=True)
    now[0] = 11.0
    assert own.look(1).due
    own.saved(False)
    assert own.is_next(2, ends_round=True) and own.look(2, ends_round=True).due
    own.saved(True)
    now[0] = 20.0
    assert not own.look(3).due and not own.look(4, ends_round=True).due
    own = Looks(Alone(), IDLE, 10.0, lambda: False, begun=4, patience=60)
    assert not own.is_next(4, ends_round=True) and own.is_next(5, ends_round=False)
