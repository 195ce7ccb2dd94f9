"""Which epochs come when, and by which strategy: arithmetic alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.strategies.splits import BatchSplit, EpochSplit, LaneSplit, SharedLanes
from sparksplit.training.node.schedule import (
    Rounds,
    Schedule,
    is_within_round,
    next_stop,
    own_steps,
    step_at,
    syncs_left,
)

LANES = (9, 3, 0, 12, 7, 6)
ROWS, BATCH = sum(LANES), 6
SPLITS = [BatchSplit(), EpochSplit(), LaneSplit()]


def schedule(split, nodes=2, epochs=4, **more):
    return Schedule(split, nodes, len(LANES), LANES, epochs, BATCH, **more)


@pytest.mark.parametrize(
    ("split", "steps", "epochs"),
    [
        (BatchSplit(), 7, [range(4), range(4)]),
        (EpochSplit(), 7, [range(0, 4, 2), range(1, 4, 2)]),
        (LaneSplit(), 7, [range(4), range(4)]),  # 21 of the 37 rows in lanes 1, 3, 5, by threes
    ],
)
def test_a_run_is_one_stretch(split, steps, epochs):
    (stretch,) = schedule(split).stretches()
    assert (stretch.own, stretch.begins, stretch.until, stretch.first, stretch.steps) == (True, 0, 4, 0, steps)
    rounds = schedule(split).rounds(stretch, 0)
    assert rounds == Rounds(epochs, 0, steps) and rounds.passes == 4


def test_the_user_may_say_the_rows_of_mini_batches_that_are_dealt_apart_and_of_no_others():
    assert schedule(LaneSplit(), local_batch_size=2).stretches()[0].steps == 11
    assert schedule(BatchSplit(), local_batch_size=2).stretches()[0].steps == 7


def test_after_enough_updates_a_run_goes_over_to_its_own_strategy():
    both = schedule(LaneSplit(), after=10)  # of 7 a pass: in its second one
    before, own = both.stretches()
    assert (before.own, before.begins, before.until, before.first, before.steps) == (False, 0, 2, 0, 7)
    assert (own.own, own.begins, own.until, own.first) == (True, 2, 4, 14)
    assert isinstance(before.split, SharedLanes) and before.split.lanes(6, 1, 2).tolist() == [1, 3, 5]
    assert both.rounds(before, 0) == Rounds([range(2), range(2)], 0, 7, (14 + 2 * own.steps, 4))
    assert both.rounds(before, 0).passes == both.rounds(own, 2).passes == 4
    assert both.stretches(2) == [own]
    # Nodes that read all lanes must not contribute every row twice to the mini-batches that they share.
    assert schedule(EpochSplit(), after=10).stretches()[0].split.lanes(6, 1, 2).tolist() == [1, 3, 5]


def test_a_run_that_never_gets_that_far_is_one_stretch_that_is_not_its_own_even_when_it_is_over():
    for done in (0, 2, 4):
        (stretch,) = schedule(LaneSplit(), after=10_000).stretches(done)
        assert (stretch.own, stretch.until) == (False, 4)


@given(
    split=st.sampled_from(SPLITS),
    nodes=st.integers(1, 6),
    epochs=st.integers(1, 12),
    after=st.integers(0, 100),
    lane_rows=st.lists(st.integers(1, 30), min_size=6, max_size=6),
)
def test_stretches_join_and_every_pass_is_run_once(split, nodes, epochs, after, lane_rows):
    """From the beginning, and from the end of each round."""
    whole = Schedule(split, nodes, 6, lane_rows, epochs, BATCH, after=after)
    steps, done, passes = 0, 0, []
    for stretch in whole.stretches():
        assert (stretch.begins, stretch.first) == (done, steps)
        rounds = whole.rounds(stretch, done)
        assert rounds.whole is None or stretch.until < epochs
        for number, own in enumerate(zip(*rounds.epochs, strict=True)):
            passes += sorted(set(own))
            assert whole.stretches(done)[0].until == stretch.until
            left = whole.rounds(stretch, done)
            assert [len(each) for each in left.epochs] == [len(rounds.epochs[0]) - number] * nodes
            steps, done = steps + stretch.steps, max(own) + 1
            assert not is_within_round(stretch, steps)
            assert step_at(stretch, stretch.begins + number + 1, steps) == steps
        if rounds.whole:
            promised = rounds.whole
    assert passes == list(range(len(passes))) and len(passes) == rounds.passes >= epochs
    if len(whole.stretches()) == 2:
        assert promised == (steps, len(passes))


def test_steps_are_counted_anew_where_other_nodes_deal_other_rounds():
    """Two nodes have made two rounds of 7 steps; three would have made as many of 11, 8 and 8 steps, by twos."""
    (stretch,) = schedule(LaneSplit(), nodes=3).stretches()
    assert step_at(stretch, 2, 14) == 2 * stretch.steps != 14
    (shared,) = schedule(BatchSplit(), nodes=3).stretches()
    assert step_at(shared, 2, 17) == 17


def test_a_node_with_fewer_rows_makes_fewer_steps_of_its_own():
    """Node 0 has 16 of the 37 rows, which are six mini-batches of three rows; node 1 has seven."""
    before, own = schedule(LaneSplit(), after=10).stretches()
    assert [own_steps(before, 14, 7), own_steps(own, 14 + 2 * 7, 6)] == [14, 14 + 2 * 6]
    assert own_steps(own, 14 + 2 * 7, 7) == 14 + 2 * 7


def test_only_nodes_that_share_mini_batches_may_become_more_within_a_round():
    for split, expected in ((BatchSplit(), False), (EpochSplit(), True), (LaneSplit(), True)):
        (stretch,) = schedule(split).stretches()
        assert [is_within_round(stretch, step) for step in (0, 3, 7)] == [False, expected, False]


@given(
    base=st.integers(0, 1000),
    step=st.integers(0, 1000),
    every=st.none() | st.integers(1, 50),
    sync_every=st.none() | st.integers(1, 50),
)
def test_a_chunk_ends_at_the_next_checkpoint_or_sync(base, step, every, sync_every):
    stop = next_stop(step, base, every, sync_every)
    assert stop > step
    if every is None and sync_every is None:
        assert stop - step == 1 << 62
        return
    due = [end for end in range(step + 1, stop + 1) if every and (base + end) % every == 0]
    due += [end for end in range(step + 1, stop + 1) if sync_every and end % sync_every == 0]
    assert set(due) == {stop}


@given(done=st.integers(0, 200), steps=st.integers(0, 200), sync_every=st.integers(1, 50))
def test_a_node_whose_rows_have_ended_still_joins_in_every_sync_before_the_rounds_end(done, steps, sync_every):
    expected = [step for step in range(done + 1, steps) if step % sync_every == 0]
    assert list(syncs_left(done, steps, sync_every)) == expected
    assert list(syncs_left(done, steps, None)) == []
