"""How long executors are waited for, and what is said meanwhile: on made-up states and clocks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sparksplit.spark.settings.requirements import Problem
from sparksplit.spark.waiting import Patience, Seen, Wait, too_few

PATIENCE = Patience(queue=60, start=30)
WHAT = Problem("nodes", "3 nodes need 4 executors (1 to feed them)")


def wait(*looks: tuple[float, int, int | None], patience: Patience = PATIENCE) -> tuple[Wait, Seen]:
    """A wait for four executors from 0 s on. looks: each at how many seconds, executors, and granted ones."""
    found, seen = Wait(4, patience, 0.0), Seen(0)
    for now, executors, granted in looks:
        seen = Seen(executors, granted)
        found.look(seen, now)
    return found, seen


def said(*looks: tuple[float, int, int | None], lost: Sequence[str] = ()) -> str:
    found, seen = wait(*looks)
    assert found.over
    return str(found.failure(WHAT, seen, lost, "is the queue full?", "look at LOG"))


@pytest.mark.parametrize(
    ("looks", "line"),
    [
        ([(10, 0, None)], "waiting for the cluster to grant executors: 0 of 4, 10 of 60 s (queue_timeout)"),
        ([(10, 1, None)], "waiting for the cluster to grant executors: 1 of 4, 10 of 60 s (queue_timeout)"),
        ([(10, 1, 3)], "waiting for the cluster to grant executors: 3 of 4, 10 of 60 s (queue_timeout)"),
        ([(40, 1, 3), (50, 1, 4)], "waiting for granted executors to start: 1 of 4, 10 of 30 s (start_timeout)"),
        # What Spark has is granted, however late YARN's answer is.
        ([(40, 0, 3), (50, 3, 2)], "waiting for the cluster to grant executors: 3 of 4, 50 of 60 s (queue_timeout)"),
    ],
)
def test_a_line_says_what_is_waited_for_and_for_how_long(looks, line):
    found, seen = wait(*looks)
    assert found.line(seen) == line and not found.over


def test_a_queue_that_grants_too_few_ends_the_wait_by_its_own_limit():
    assert not wait((60, 3, 3))[0].over
    queue = f"{WHAT}, and Spark has 3 after 60 s (queue_timeout); is the queue full?"
    assert said((61, 3, None)) == said((61, 3, 3)) == queue


def test_the_time_to_start_counts_from_when_all_are_granted():
    assert not wait((59, 0, 3), (89, 2, 4))[0].over
    assert said((59, 0, 3), (90, 2, 4)) == (
        f"{WHAT}: the cluster has granted them, but only 2 of 4 have started within 30 s (start_timeout). Each "
        "host first"
        " downloads the files of the application (--archives): look at LOG, or set a larger start_timeout"
    )


def test_lost_containers_bring_the_queue_back_and_the_wait_ends_all_the_same():
    looks: list[tuple[float, int, int | None]] = []
    while not wait(*looks)[0].over:
        looks.append((5.0 * len(looks) + 5, 0, 4 if len(looks) % 2 == 0 else 3))
    assert looks[-1] == (65, 0, 4)
    assert wait(*looks)[0].seconds == {"queue": 30, "start": 35}


def test_an_executor_that_was_lost_is_named_before_the_numbers():
    lost = ["executor 0 on 10.0.0.2 was lost", "executor 1 on 10.0.0.3 was lost (Worker shutting down)"]
    assert said((61, 3, None), lost=lost) == (
        "nodes: executor 1 on 10.0.0.3 was lost (Worker shutting down), and no new executor came within 60 s "
        "(queue_timeout); "
        "3 nodes need 4 executors (1 to feed them), and Spark has 3. Restart the host, or add another"
    )
    assert too_few(Problem("nodes", "2 nodes need 2 executors"), 1, "120 s", [], "why?") == Problem(
        "nodes", "2 nodes need 2 executors, and Spark has 1 after 120 s; why?"
    )
