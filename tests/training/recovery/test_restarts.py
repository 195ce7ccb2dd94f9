"""Whether a run goes on after a failure, and when."""

from __future__ import annotations

import pytest

from sparksplit.base.errors import Cancelled, InputError, NodeFailed, Passing, RunError
from sparksplit.training.recovery.restarts import Restarts

LOST = NodeFailed("node 1 was killed", 1)
MEMORY = NodeFailed("node 1 ran out of memory", 1, memory=True)


def pauses(most, *failures):
    """The pause after each of the failures: (error, seconds, reached)."""
    restarts = Restarts(most)
    return [restarts.after(*each) for each in failures]


def test_pauses_grow_and_end():
    assert pauses(5, *[(LOST, 0, 7)] * 6) == [0, 5, 20, 60, 60, None]
    assert pauses(0, (LOST, 1, 7)) == [None]


def test_the_time_that_an_attempt_has_taken_is_part_of_the_pause():
    assert pauses(5, *[(LOST, 8, 7)] * 5) == [0, 0, 12, 52, 52]


@pytest.mark.parametrize("error", [InputError("x"), RunError("x"), NodeFailed("x", may_pass=False), Cancelled("x")])
def test_what_would_fail_again_ends_the_run(error):
    assert pauses(3, (error, 1, 7)) == [None]
    assert pauses(3, (Passing("a full disk"), 1, 7)) == [0]


def test_ten_minutes_with_a_checkpoint_begin_the_count_anew():
    assert pauses(1, (LOST, 1, 7), (LOST, 601, 8), (LOST, 601, 8)) == [0, 0, None]


def test_out_of_memory_twice_at_the_same_place_ends_the_run():
    assert pauses(9, (MEMORY, 1, 7), (MEMORY, 1, 7)) == [0, None]
    assert pauses(9, (MEMORY, 1, -1), (MEMORY, 1, -1)) == [0, None]
    assert pauses(9, (MEMORY, 1, 7), (MEMORY, 1, 8), (MEMORY, 1, 8)) == [0, 4, None]
    assert pauses(9, (MEMORY, 1, 7), (LOST, 1, 7), (MEMORY, 1, 7)) == [0, 4, 19]
