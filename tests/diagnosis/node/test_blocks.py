"""How long blocks are, and how many rounds there are."""

from __future__ import annotations

import pytest

from sparksplit.diagnosis.messages import Effort
from sparksplit.diagnosis.node.blocks import (
    Extent,
    extent_of,
    is_enough,
    rotated,
    sync_interval,
    syncs,
    updates_per_call,
)
from sparksplit.diagnosis.node.handed import stretches


@pytest.mark.parametrize(
    ("steps", "pace", "found"),
    [
        (1000, 0.01, Extent(0, 50)),
        (100, 0.01, Extent(0, 50)),
        (99, 0.01, Extent(1)),
        (10, 0.01, Extent(5)),
        (10, 10.0, Extent(0, 1)),
        (1, 10.0, Extent(1)),
        (1, 1e-12, Extent(500_000_000)),
    ],
)
def test_a_block_is_a_part_of_a_round_or_whole_rounds(steps, pace, found):
    assert extent_of(steps, pace, 0.5) == found
    assert found.steps(steps) == (found.rounds * steps or found.updates)


def test_there_are_several_calls_in_a_block_and_at_least_one_update_in_a_call():
    assert [updates_per_call(pace, 0.4) for pace in (0.001, 0.05, 7.0)] == [100, 2, 1]
    assert updates_per_call(0.001, 60.0) == 250  # as in training


@pytest.mark.parametrize(
    ("every", "steps", "interval"), [(None, 100, 100), (32, 100, 25), (100, 100, 100), (500, 100, 100), (1, 7, 1)]
)
def test_syncs_within_a_round_and_at_its_end_are_as_many_as_in_training(every, steps, interval):
    assert sync_interval(every, steps) == interval
    assert syncs(0, steps, interval) == -(-steps // min(every or steps, steps))


def test_syncs_are_counted_where_steps_cross_them():
    assert [syncs(before, before + 3, 4) for before in (0, 1, 2, 3, 4)] == [0, 1, 1, 1, 0]
    assert syncs(0, 17, 1 << 62) == 0


def test_each_variant_is_first_in_some_round():
    assert {rotated("abc", by)[0] for by in range(3)} == set("abc")
    assert rotated("abc", 4) == ["b", "c", "a"]


def test_rounds_end_when_intervals_are_narrow_or_time_is_over():
    effort = Effort(rounds=5, most_rounds=7, narrow=0.03, seconds=60.0)
    wide, narrow = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.0], [1.0, 1.001, 1.0, 1.001, 1.0]
    assert not is_enough({"full": narrow[:4]}, 1.0, effort)
    assert is_enough({"full": narrow}, 1.0, effort)
    assert not is_enough({"full": narrow, "compute": wide[:5]}, 1.0, effort)
    # By the whole step: what is a small part of it may be known less well.
    assert is_enough({"full": narrow, "reading": [value / 20 for value in wide[:5]]}, 1.0, effort)
    assert is_enough({"full": narrow, "compute": wide[:5]}, 61.0, effort)
    assert is_enough({"full": wide, "compute": wide}, 1.0, effort)
    assert is_enough({"full": wide[:3]}, 121.0, effort) and not is_enough({"full": wide[:2]}, 121.0, effort)


def test_stretches_of_a_feed_begin_before_its_first_rows_and_end_with_its_last():
    marks = [(0.0, 0), (1.0, 0), (2.0, 800), (3.0, 1600), (4.0, 1600)]
    seconds, rows = stretches(marks)
    assert seconds == pytest.approx([0.25] * 8) and rows == pytest.approx([200.0] * 8)
    assert sum(stretches([(0.0, 0), (0.1, 1300)])[1]) == pytest.approx(1300)
