"""Samples of the rows to measure with."""

from __future__ import annotations

import numpy as np
import pytest

from sparksplit.rows.feed import Feed
from sparksplit.rows.samples import Unread
from tests.training.node.stand_ins import Rows


@pytest.mark.parametrize(
    ("rows", "blocks", "passes"),
    [
        (12, 1, [{8, 9, 10, 11}, {4, 5, 6, 7}, {0, 1, 2, 3}, {8, 9, 10, 11}]),  # then a lane begins again
        (14, 2, [{4, 5, 6, 7, 8, 9, 10, 11}, {0, 1, 2, 3, 8, 9, 10, 11}]),  # the last block is shorter: it is left out
        (3, 1, [{0, 1, 2}, {0, 1, 2}]),
    ],
)
def test_each_pass_reads_blocks_that_were_not_read_before(rows, blocks, passes):
    """A block has four rows."""
    sample = Unread(Rows([rows, 5, rows]), [0, 2], blocks)
    assert sample.lane_rows == [len(passes[0]), 0, len(passes[0])]
    feed = Feed(sample, np.arange(3), batch_size=3, readers=0)
    for number, expected in enumerate(passes):
        seen = {int(row) for chunk in feed.epoch(number) for row in chunk.tensors[0]}
        assert seen == {lane + row for lane in (0, 2000) for row in expected}
    feed.close()
