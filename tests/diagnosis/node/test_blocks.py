"""How long blocks are, and how many rounds there are."""

from __future__ import annotations

import pytest

from sparksplit.diagnosis.messages import Effort
from sparksplit.diagnosis.node.blocks import (
    Extent,
    Read,
    begin_of,
    common_extent,
    extent_of,
    is_enough,
    next_call,
    rotated,
    sweep_is_enough,
    sync_interval,
    syncs,
    whole_calls,
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


@pytest.mark.parametrize(
    ("steps", "updates", "together", "found"),
    [
        (1000, 7, 10, Extent(0, 10)),  # of two readers that have five updates each
        (1000, 11, 10, Extent(0, 20)),
        (1000, 0, 1, Extent(0, 1)),
        (30, 7, 20, Extent(1)),
        (30, 61, 20, Extent(2)),
    ],
)
def test_a_block_goes_on_until_all_readers_are_as_far_again(steps, updates, together, found):
    assert whole_calls(steps, updates, together) == found


@pytest.mark.parametrize(("again", "begin"), [(Read(1000, 1.0), 0.3), (Read(100, 0.4), 0.0), (Read(1000, 0.0), 0.4)])
def test_the_begin_of_the_first_reading_is_what_its_rows_do_not_explain(again, begin):
    assert begin_of(Read(100, 0.4), again) == pytest.approx(begin)


@pytest.mark.parametrize(
    ("extents", "steps", "found"),
    [
        ([Extent(3), Extent(5)], [20, 20], Extent(3)),
        ([Extent(0, 7), Extent(0, 9)], [20, 20], Extent(0, 7)),
        ([Extent(3), Extent(0, 9)], [20, 30], Extent(0, 9)),
        ([Extent(3), Extent(1)], [20, 30], Extent(0, 20)),
    ],
)
def test_blocks_of_several_nodes_have_as_many_steps(extents, steps, found):
    assert common_extent(extents, steps) == found


def test_calls_grow_and_shrink_as_in_training():
    assert next_call(1, 0.001, 0.25) == 4
    assert next_call(200, 0.001, 0.25) == 250
    assert next_call(200, 0.01, 0.25) == 25
    assert next_call(1, 7.0, 0.25) == 1


def test_readers_are_swept_until_the_knee_is_decided_or_time_is_over():
    effort = Effort(sweep_rounds=3, most_sweep_rounds=6, sweep_seconds=20.0)
    clear = {"0": [2.0, 2.1, 2.0], "1": [1.0, 1.01, 1.0], "2": [1.0, 1.0, 1.01]}
    open_ = {"0": [2.0, 2.1, 2.0], "1": [1.1, 1.2, 1.0], "2": [1.0, 1.0, 1.01]}
    assert not sweep_is_enough({name: own[:2] for name, own in clear.items()}, 1.0, effort)
    assert sweep_is_enough(clear, 1.0, effort) and not sweep_is_enough(open_, 1.0, effort)
    assert sweep_is_enough(open_, 21.0, effort)
    assert sweep_is_enough({name: own * 2 for name, own in open_.items()}, 1.0, effort)
    assert sweep_is_enough({name: own[:2] for name, own in open_.items()}, 41.0, effort)
    assert not sweep_is_enough({name: own[:1] for name, own in open_.items()}, 41.0, effort)


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
