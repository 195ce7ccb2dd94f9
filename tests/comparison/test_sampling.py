"""Rows as a part of a difference's error: arithmetic, and a simulation whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sparksplit.comparison.analysis.estimates import Estimate, Rows, estimates
from sparksplit.comparison.analysis.sampling import paired, rows_error
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
    assert found.whole_error == pytest.approx(np.hypot(alone.whole_error, found.rows.error))
    assert found.reach() >= alone.reach()
    if alone.error:
        assert found.p_above(0) >= alone.p_above(0) * (1 - 1e-6) - 1e-11
    if found.rows.error == 0:
        assert (found.interval(), found.p_above(0)) == (alone.interval(), alone.p_above(0))


@given(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(-3, 3), st.sampled_from([0.95, 0.99, 0.999]))
def test_a_p_value_is_small_where_the_interval_of_seeds_and_rows_is_beyond(of_seeds, of_rows, mean, level):
    found = Estimate(mean, of_seeds, 4, 0.0, 5, rows=Rows(of_rows, 95))
    reaches = stats.t.ppf((1 + level) / 2, 4) * of_seeds, stats.t.ppf((1 + level) / 2, 95) * of_rows
    assert found.reach(level) == pytest.approx(np.hypot(*reaches))
    low, high = found.interval(level)
    if min(abs(low), abs(high)) > 1e-4:
        p = (1 - level) / 2
        assert (found.p_above(0) < p, found.p_below(0) < p) == (low > 0, high < 0)
    # With next to nothing of one, it is Student's t of the other.
    seeds, rows = (replace(found, rows=Rows(1e-9, 95)), replace(found, error=1e-9))
    if 0.05 < mean < 1:
        assert seeds.p_above(0) == pytest.approx(stats.t.sf(mean / of_seeds, 4), rel=1e-3, abs=2e-9)
        assert rows.p_above(0) == pytest.approx(stats.t.sf(mean / of_rows, 95), rel=1e-3, abs=2e-9)


def test_runs_pair_by_seed_and_lane_where_all_of_them_tell():
    first, second = ({1: [1.0, 2.0], 2: [0.0, 1.0]}, {1: [0.5, 0.5], 2: [1.0, 1.0]})
    one, other = (
        {seed: compared_run(jackknife={"loss": lanes}) for seed, lanes in one.items()} for one in (first, second)
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
        squares.append(found.whole_error**2)
    assert held / times > 0.93
    assert 0.9 < np.mean(squares) / np.var(means) < 1.35


def test_over_lanes_windows_that_overlap_look_independent_and_over_the_seeds_alone_nothing_is_claimed_of_others():
    """1,000 windows of 50 values each, one value apart, in 40 lanes by chance: the truth of all windows, by the lanes,
    and that of these very windows, by the seeds alone."""
    generator, times, rows, seeds = np.random.default_rng(6), 300, 1000, 5
    by_lanes = alone = 0
    for _ in range(times):
        shared = np.convolve(generator.normal(size=rows + 49), np.full(50, 0.02), "valid")
        whole = shared.mean() + 0.01 * generator.normal(size=seeds)
        lane = generator.integers(0, 40, rows)
        counts, sums = np.bincount(lane, minlength=40), np.bincount(lane, shared, 40)
        added = (shared.mean() - (shared.sum() - sums) / (rows - counts)) * np.sqrt((rows - counts) / counts)
        known = rows_error([added] * seeds)
        found = estimates({name: dict(enumerate(whole)) for name in "ab"}, rows={"a": known, "b": None})
        (low, high), (least, most) = (found[name].interval() for name in "ab")
        by_lanes += low <= 0 <= high
        alone += least <= shared.mean() <= most
    assert by_lanes / times < 0.5 and alone / times > 0.92
