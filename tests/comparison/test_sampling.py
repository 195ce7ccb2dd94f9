"""Rows as a part of a difference's error: arithmetic, and a simulation whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.comparison.analysis.estimates import estimates
from sparksplit.comparison.analysis.sampling import freedom, paired, rows_error
from tests.comparison.records import compared_run

tables = st.tuples(st.integers(2, 6), st.integers(2, 9), st.integers(0, 2**32 - 1)).map(
    lambda drawn: np.random.default_rng(drawn[2]).normal(size=drawn[:2]) * [10.0 ** (drawn[2] % 5 - 2)]
)


@given(tables)
def test_rows_and_what_they_share_with_seeds_are_the_mean_squares_of_a_table(table):
    """Seeds by lanes of equally many rows: those of the two-way analysis of variance, without replicates."""
    seeds, lanes = table.shape
    values = table - table.mean(axis=1, keepdims=True)
    # What the jackknife over equal lanes makes of means: 1 / sqrt(lanes - 1) of the distance from the mean of all.
    found = rows_error(list(values / np.sqrt(lanes - 1)))
    grand, by_lane, by_seed = table.mean(), table.mean(axis=0), table.mean(axis=1, keepdims=True)
    of_lanes = seeds * ((by_lane - grand) ** 2).sum() / (lanes - 1)
    of_both = ((table - by_lane - by_seed + grand) ** 2).sum() / (lanes - 1) / (seeds - 1)
    assert found.of_mean == pytest.approx(of_lanes / (seeds * lanes))
    assert found.both == pytest.approx(of_both / (seeds * lanes))
    expected = max(0.0, of_lanes - of_both) / (seeds * lanes)
    assert found.variance == pytest.approx(expected, rel=1e-9, abs=1e-9 * found.of_mean)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8, unique=True), tables)
def test_rows_only_widen_an_interval_and_leave_its_mean(values, table):
    seeds = dict(enumerate(values))
    alone = estimates({"a": seeds})["a"]
    found = estimates({"a": seeds}, rows={"a": rows_error(list(table))})["a"]
    assert alone.rows is None and found.mean == alone.mean
    assert found.error >= alone.error and found.error**2 == pytest.approx(alone.error**2 + found.rows**2)
    if found.rows == 0:
        assert found == replace(alone, rows=0.0)


def test_degrees_of_freedom_are_satterthwaites():
    assert freedom([(2.0, 7.0)]) == pytest.approx(7)
    assert freedom([(1.0, 4.0), (1.0, 4.0)]) == pytest.approx(8)
    assert freedom([(1e-9, 4.0), (1.0, 95.0)]) == pytest.approx(95)
    assert freedom([(0.0, 4.0)]) == 4


def test_runs_pair_by_seed_and_lane_where_all_of_them_tell():
    first, second = ({1: [1.0, 2.0], 2: [0.0, 1.0]}, {1: [0.5, 0.5], 2: [1.0, 1.0]})
    one, other = (
        {seed: compared_run(jackknife={"loss": lanes}) for seed, lanes in way.items()} for way in (first, second)
    )
    found = paired(one, other, "loss", [1, 2])
    assert found == rows_error([np.array([0.5, 1.5]), np.array([-1.0, 0.0])])
    assert paired(one, other, "accuracy", [1, 2]) is None
    assert paired(one, other, "loss", [1]) is None
    assert paired({**one, 2: compared_run()}, other, "loss", [1, 2]) is None
    assert paired({**one, 2: compared_run(jackknife={"loss": [1.0]})}, other, "loss", [1, 2]) is None


@pytest.mark.parametrize(("of_seeds", "of_rows", "of_both"), [(1, 1, 1), (0.1, 1, 3), (1, 0, 3), (1, 3, 0)])
def test_intervals_hold_the_truth_on_rows_drawn_anew(of_seeds, of_rows, of_both):
    """5 seeds on 200 rows in 40 lanes by chance; rows' shares are skewed. Over the seeds alone, too few do where rows
    matter, and the variance of the mean is what is estimated."""
    generator, times, rows, seeds = np.random.default_rng(5), 800, 200, 5
    held, means, squares = 0, [], []
    for _ in range(times):
        lane = generator.integers(0, 40, rows)
        shared = of_rows * (generator.exponential(size=rows) - 1)
        table = shared + of_both * generator.normal(size=(seeds, rows))
        table += of_seeds * generator.normal(size=(seeds, 1)) / np.sqrt(rows)
        counts = np.bincount(lane, minlength=40)
        used = counts > 0
        sums = np.array([np.bincount(lane, one, 40)[used] for one in table])
        whole, share = table.mean(axis=1, keepdims=True), counts[used] / rows
        added = (whole - (whole * rows - sums) / (rows - counts[used])) * np.sqrt((1 - share) / share)
        found = estimates({"a": dict(enumerate(whole[:, 0]))}, rows={"a": rows_error(list(added))})["a"]
        low, high = found.interval()
        held += low <= 0 <= high
        means.append(found.mean)
        squares.append(found.error**2)
    assert held / times > 0.93
    assert 0.9 < np.mean(squares) / np.var(means) < 1.35
