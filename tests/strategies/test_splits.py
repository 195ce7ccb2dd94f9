"""Which lanes a split gives to whom, and what a user's own split must not do."""

import re

import numpy as np
import pytest

from sparksplit.strategies import STRATEGIES, Strategy
from sparksplit.strategies.splits import (
    BatchSplit,
    EpochSplit,
    LaneSplit,
    SharedLanes,
    check_epochs,
    owned_by_rank,
    owned_together,
)
from sparksplit.strategies.syncs import RoundSync, StepSync


class Given(BatchSplit):
    """A split that was told what to answer."""

    def __init__(self, *owned, every_row=False):
        self.every_row, self._owned = every_row, owned

    def lanes(self, lanes, rank, nodes):
        return np.array(self._owned[rank], np.int64)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("nodes", [1, 2, 3, 7])
def test_every_strategy_reads_every_lane_as_often_as_it_says(name, nodes):
    split = STRATEGIES[name].split
    owned = owned_by_rank(split, 7, nodes)
    assert sorted(lane for own in owned for lane in own) == sorted([*range(7)] * (nodes if split.every_row else 1))


def test_a_split_of_ones_own_is_asked():
    assert owned_by_rank(Given([0, 1, 2], [3]), 4, 2) == [[0, 1, 2], [3]]
    assert owned_by_rank(SharedLanes(Given([0, 1, 2], [3])), 4, 2) == [[0, 1, 2], [3]]
    assert owned_by_rank(EpochSplit(), 3, 2) == [[0, 1, 2]] * 2
    assert owned_together([BatchSplit(), LaneSplit()], 5, 2) == [[0, 2, 4], [1, 3]]
    assert owned_together([BatchSplit(), Given([0, 1, 2], [3, 4])], 5, 2) == [[0, 1, 2, 4], [1, 3, 4]]
    assert owned_together([BatchSplit(), EpochSplit()], 3, 2) == [[0, 1, 2]] * 2


@pytest.mark.parametrize(
    ("split", "problem"),
    [
        (Given([0, 1], [3]), "not every_row, so 1 of 2 nodes must own each lane (lane 2 has 0)"),
        (Given([0, 1, 2], [2, 3]), "not every_row, so 1 of 2 nodes must own each lane (lane 2 has 2)"),
        (Given([0, 1, 2, 3], [0, 1, 3], every_row=True), "every_row, so 2 of 2 nodes must own each lane (lane 2"),
        (Given([1, 0], [2, 3]), "lanes(4, 0, 2) must be ascending lanes from 0 to 3 (is [1, 0])"),
        (Given([0, 1], [2, 3, 4]), "lanes(4, 1, 2) must be ascending lanes from 0 to 3 (is [2, 3, 4])"),
    ],
)
def test_a_split_that_loses_or_repeats_rows_is_refused(split, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        owned_by_rank(split, 4, 2)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("nodes", [1, 2, 3, 7])
@pytest.mark.parametrize("epochs", [1, 2, 6, 12])
def test_the_epochs_of_every_strategy_are_whole(name, nodes, epochs):
    check_epochs(STRATEGIES[name].split, epochs, nodes)


class Runs(BatchSplit):
    """A split whose nodes run the epochs that it was told."""

    def __init__(self, *by_rank, every_row=False):
        self.every_row, self._by_rank = every_row, by_rank

    def epochs(self, done, epochs, rank, nodes):
        return self._by_rank[rank]


@pytest.mark.parametrize(
    ("split", "problem"),
    [
        (Runs(range(3), range(2)), "split.epochs(0, 3, 1, 2) gives 2 epochs, and rank 0 gets 3"),
        (Runs(range(2), range(2)), "not every_row, so the epochs(0, 3, rank, 2) of rank 0 must be 0 to 2, each once"),
        (Runs(range(3), range(1, 4)), "of rank 1 must be 0 to 2, each once (are 1, 2, 3)"),
        (
            Runs(range(3), range(3), every_row=True),
            "every_row, so the epochs(0, 3, rank, 2) of all nodes must be 0 to 5",
        ),
        (Runs(range(1), range(1, 2), every_row=True), "of all nodes must be 0 to 2, each once (are 0, 1)"),
    ],
)
def test_epochs_that_are_left_out_or_run_twice_are_refused(split, problem):
    """Was told after the whole training, as a defect of ours: the ledger was not exact."""
    with pytest.raises(ValueError, match=re.escape(problem)):
        check_epochs(split, 3, 2)


@pytest.mark.parametrize(
    ("split", "sync", "problem"),
    [
        (LaneSplit(), StepSync, "with split.dealt_apart, sync.every_step must be False"),
        (BatchSplit(), RoundSync, "with split.shared, sync.every_step must be True"),
    ],
)
def test_a_pair_whose_parts_do_not_go_together_is_refused(split, sync, problem):
    with pytest.raises(ValueError, match=problem):
        Strategy(split, sync)
