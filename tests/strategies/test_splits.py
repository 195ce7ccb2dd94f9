"""Which lanes a split gives to whom, and what a split of one's own must not do."""

import re

import numpy as np
import pytest

from sparksplit.strategies import STRATEGIES
from sparksplit.strategies.splits import BatchSplit, EpochSplit, SharedLanes, owned_by_rank


class Given(BatchSplit):
    """A split that was told what to answer."""

    def __init__(self, *owned, every_row=False):
        self.every_row, self._owned = every_row, owned

    def lanes(self, lanes, rank, nodes):
        return np.array(self._owned[rank], np.int64)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("nodes", [1, 2, 3, 7])
def test_every_way_reads_every_lane_as_often_as_it_says(name, nodes):
    split = STRATEGIES[name].split
    owned = owned_by_rank(split, 7, nodes)
    assert sorted(lane for own in owned for lane in own) == sorted([*range(7)] * (nodes if split.every_row else 1))


def test_a_split_of_ones_own_is_asked():
    assert owned_by_rank(Given([0, 1, 2], [3]), 4, 2) == [[0, 1, 2], [3]]
    assert owned_by_rank(SharedLanes(Given([0, 1, 2], [3])), 4, 2) == [[0, 1, 2], [3]]
    assert owned_by_rank(EpochSplit(), 3, 2) == [[0, 1, 2]] * 2


@pytest.mark.parametrize(
    ("split", "problem"),
    [
        (Given([0, 1], [3]), "not every_row, so each lane must be of 1 of 2 nodes (lane 2 is of 0)"),
        (Given([0, 1, 2], [2, 3]), "not every_row, so each lane must be of 1 of 2 nodes (lane 2 is of 2)"),
        (Given([0, 1, 2, 3], [0, 1, 3], every_row=True), "every_row, so each lane must be of 2 of 2 nodes (lane 2"),
        (Given([1, 0], [2, 3]), "lanes(4, 0, 2) must ascend within 0 to 3 (is [1, 0])"),
        (Given([0, 1], [2, 3, 4]), "lanes(4, 1, 2) must ascend within 0 to 3 (is [2, 3, 4])"),
    ],
)
def test_a_split_that_loses_or_repeats_rows_is_refused(split, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        owned_by_rank(split, 4, 2)
