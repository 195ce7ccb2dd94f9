"""The parts of a preparation: their seconds add up, and what is lost has its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.diagnosis.preprocess.parts import kept_bytes, loss, parts_of
from sparksplit.diagnosis.preprocess.stages import OTHER, Stage, Task
from sparksplit.spark.job_names import PARTS
from tests.diagnosis.preprocess.tables import after, stage

EVEN = [1.0] * 8
SPAN = st.tuples(st.sampled_from([*PARTS, OTHER]), st.floats(0, 100), st.floats(0, 50))


@given(st.lists(SPAN, max_size=12), st.floats(0, 60), st.floats(60, 120))
def test_seconds_add_up_to_the_wall_time(spans: list[tuple[str, float, float]], began: float, ended: float) -> None:
    """Jobs of others may begin before the preparation, and end after it."""
    stages = [Stage(part, start, start + took) for part, start, took in spans]
    parts = parts_of(stages, began, ended, 4)
    assert sum(part.seconds for part in parts) == pytest.approx(ended - began)
    assert all(part.seconds >= 0 for part in parts)


def test_the_drivers_own_time_is_before_between_and_after_the_jobs() -> None:
    stages = [Stage("open", 12, 13), Stage("parse", 15, 20), Stage("write", 21, 25), Stage("count", 18, 20.5)]
    found = {part.name: part.seconds for part in parts_of(stages, 10, 28, 2)}
    assert found == {"open": 5, "parse": 5, "count": 0.5, "write": 4, "driver": 0.5, "publish": 3}


def test_jobs_of_others_count_only_within_the_preparation() -> None:
    parse = Stage("parse", 1, 5)
    for others, parts in (
        ([Stage(OTHER, 5, 16)], {"open": 1, "parse": 4, OTHER: 5}),
        ([Stage(OTHER, 12, 14)], {"open": 1, "parse": 4, "publish": 5}),
        ([Stage("write", -9, -5)], {"open": 1, "parse": 4, "publish": 5}),
    ):
        found = parts_of([parse, *others], 0, 10, 2)
        assert {part.name: part.seconds for part in found} == parts


@given(
    st.lists(st.floats(0.01, 10), min_size=1, max_size=30),
    st.integers(1, 16),
    st.booleans(),
)
def test_what_is_lost_is_what_the_even_share_does_not_take(seconds: list[float], slots: int, large: bool) -> None:
    rows = [1000] * len(seconds)
    if large:
        rows[max(range(len(seconds)), key=lambda place: seconds[place])] = 50_000
    one = stage("parse", seconds, rows, slots=slots)
    lost = loss(one, slots, {})
    assert lost.seconds == pytest.approx(max(0.0, one.completed - sum(seconds) / slots), abs=1e-9)
    assert min(lost.skew, lost.slow, lost.few) >= 0


def test_reasons() -> None:
    assert loss(stage("parse", EVEN), 4, {}).seconds == 0
    # Two tasks on four slots: half of the time.
    few = loss(stage("parse", [4.0, 4.0]), 4, {})
    assert (few.few, few.skew, few.slow) == (2.0, 0, 0)
    # Three equal tasks on two slots: the second round is half empty.
    uneven = loss(stage("parse", [2.0] * 3, slots=2), 2, {})
    assert (uneven.few, uneven.skew, uneven.slow) == (1.0, 0, 0)
    # One task has most of the rows: equal tasks would be three for four slots, and take four seconds.
    skew = loss(stage("parse", [10.0, 1.0, 1.0], [10_000, 1000, 1000]), 4, {})
    assert (skew.skew, skew.few, skew.slow) == (6.0, 1.0, 0)
    assert skew.large == 2.5
    # The same with equal rows: it is slow.
    slow = loss(stage("parse", [10.0, 1.0, 1.0, 1.0]), 4, {})
    assert (slow.slow, slow.skew) == (6.75, 0)
    # Of planned files, a smaller file_size would make more.
    write = loss(stage("write", [9.0, 1.0], [9000, 1000], slots=2), 2, {})
    assert (write.few, write.skew, write.slow) == (4.0, 0, 0)
    assert loss(stage("parse", []), 4, {}).seconds == 0


@given(st.floats(1.01, 100), st.integers(1, 30), st.integers(2, 16), st.floats(0.1, 10))
def test_skew_costs_what_the_others_wait_for(times: float, others: int, slots: int, seconds: float) -> None:
    """A task with so many times the rows of each other one, which all slots share: it begins first."""
    one = stage("parse", [times * seconds, *[seconds] * others], [round(1000 * times), *[1000] * others], slots=slots)
    lost = loss(one, slots, {})
    waited = times * seconds - max((times + others) * seconds / slots, (times + others) * seconds / (1 + others))
    assert lost.skew == pytest.approx(max(0.0, waited), abs=0.002 * times * seconds)
    assert lost.slow == pytest.approx(0, abs=0.002 * times * seconds)


def test_a_large_task_that_nobody_waits_for_costs_nothing() -> None:
    """1.5 times the rows of others on two slots, two each: a fifth of a task more than the even share."""
    lost = loss(stage("parse", [1.5, 1.0, 1.0, 1.0], [1500, 1000, 1000, 1000], slots=2), 2, {})
    assert lost.skew == 0 and lost.large == pytest.approx(4 / 3)
    # Two tasks alone: a quarter of a task, a sixth of the stage.
    assert loss(stage("parse", [1.5, 1.0], [1500, 1000], slots=2), 2, {}).skew == pytest.approx(0.25)


def test_rows_of_our_own_files_are_known_by_what_was_kept() -> None:
    # Spark counts one row for each task that reads a file itself.
    stages = after(("parse", [10.0, 1.0, 1.0, 1.0], [1, 1, 1, 1]), ("count", [1.0, 0.1, 0.1, 0.1], [900, 90, 90, 90]))
    kept = kept_bytes(stages)
    assert kept == {0: 90_000, 1: 9000, 2: 9000, 3: 9000}
    assert loss(stages[0], 4, kept).skew > 6
    assert loss(stages[0], 4, {}).slow > 6


def test_a_part_says_what_spark_measured() -> None:
    one = stage("parse", [4.0, 1.0, 1.0, 2.0])
    (part,) = parts_of([replace(one, tasks=[*one.tasks, Task(0, 0, 1, failed=True)])], 0, 4, 4)
    assert (part.name, part.seconds, part.tasks) == ("parse", 4, 4)
    assert part.waiting == pytest.approx(4 - 9 / 4)
