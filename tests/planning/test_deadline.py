"""One deadline for all measurements of a plan."""

from __future__ import annotations

import pytest

from sparksplit.planning.deadline import LEAST, Deadline


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("step", "rounds"), [(0.1, 5), (3.0, 4), (30.0, LEAST)])
def test_two_rounds_are_measured_however_long_they_take(step, rounds):
    clock, done = Clock(), []
    for number in Deadline(20.0, clock).rounds(5, 0.5):
        done.append(number)
        clock.now += step
    assert done == [*range(rounds)]


def test_all_loops_share_the_seconds_and_a_late_one_has_the_fewest_rounds():
    clock = Clock()
    deadline = Deadline(30.0, clock)
    for share in (0.5, 0.7, 1.0):
        for _ in deadline.rounds(100, share):
            clock.now += 1.0
        assert clock.now == 30 * share and deadline.is_over(share)
    assert len([*deadline.rounds(100)]) == LEAST
