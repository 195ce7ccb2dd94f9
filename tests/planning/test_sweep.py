"""Which sums are measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.comparison.comparison_record import SweepPoint
from sparksplit.planning.sweep import sweep_sizes, takes_long


@given(st.integers(1, 1 << 40))
def test_no_sum_has_more_bytes_than_the_weights_or_16_mib(weights):
    sizes = sweep_sizes(weights)
    assert len(sizes) >= 3 and sizes[-1] <= max(1 << 16, min(weights, 16 << 20))
    assert weights <= 1 << 16 or sizes[-1] == min(weights, 16 << 20)


@pytest.mark.parametrize(("seconds", "sizes"), [(1e-4, 4), (2e-3, 3), (1.0, 2)])
def test_sums_end_before_a_size_that_would_take_seconds_but_have_two_sizes(seconds, sizes):
    points: list[SweepPoint] = []
    for size in sweep_sizes(1 << 30):
        if takes_long(points, size):
            break
        points.append(SweepPoint(2, size, seconds * size / (1 << 16)))
    assert len(points) == sizes
