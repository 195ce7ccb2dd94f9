"""Estimates, verdicts over many of them, and looks: arithmetic on plain numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from sparksplit.comparison.analysis.estimates import Estimate, alike, estimates
from sparksplit.comparison.analysis.verdicts import (
    Errors,
    Question,
    holm,
    level_at,
    looks,
    rows_to_decide,
    seeds_to_decide,
    verdicts,
)
from sparksplit.comparison.intervals import interval

MARGIN = 0.003


def estimated(values, resolution=None):
    return estimates({"a": dict(enumerate(values))}, resolution)["a"]


def verdict(estimate, margin=MARGIN):
    return verdicts([Question(estimate, margin)])[0]


def between(low, high):
    """An estimate of five seeds with that interval."""
    return Estimate((low + high) / 2, (high - low) / 2 / float(stats.t.ppf(0.975, 4)), 4, 0.0, 5)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.002, 0.001, "no difference"),
        (0.001, 0.002, "no difference"),
        (0.001, 0.02, "better"),
        (-0.02, -0.001, "worse"),
        (-0.02, 0.001, "undecided"),
        (-0.002, 0.02, "not worse"),
    ],
)
def test_no_difference_only_within_the_margin(low, high, expected):
    assert verdict(between(low, high)) == expected


def test_without_an_estimate_or_a_margin_less_is_decided():
    assert verdict(None) == "undecided"
    assert verdict(between(-0.002, 0.001), margin=None) == "undecided"
    assert verdict(between(0.001, 0.002), margin=None) == "better"
    assert verdict(between(-0.002, 0.001), margin=0.0) == "undecided"


values = st.lists(st.floats(-1, 1).filter(lambda x: x == 0 or abs(x) > 1e-6), min_size=2, max_size=8)


@given(values, st.sampled_from([None, 0.01]))
def test_one_strategy_alone_has_the_interval_of_students_t(values, resolution):
    assume(not 0 < max(values) - min(values) <= 1e-5 * max(map(abs, values)))  # these count as equal
    found = estimated(values, resolution)
    assert (found.mean, *found.interval()) == pytest.approx(interval(values, resolution), abs=1e-9)
    assert not found.pooled


@given(values, st.sampled_from([None, 0.01]), st.floats(-0.5, 0.5))
def test_a_p_value_is_small_where_the_interval_is_beyond(values, resolution, value):
    found = estimated(values, resolution)
    low, high = found.interval(0.95)
    if found.error == 0 and found.mean != 0:
        assert found.p_above(value) == found.p_below(value) == 1
        return
    if abs(low - value) > 1e-9 and abs(high - value) > 1e-9:
        assert (found.p_above(value) < 0.025, found.p_below(value) < 0.025) == (low > value, high < value)
    assert found.p_above(value) + found.p_below(value) >= 0.999 or found.error == 0


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_equal_differences_on_few_rows_are_not_decided(seeds):
    """119 test rows, all at 116 of 119: one row is 0.84 points, the margin 0.3."""
    found = estimated([0.0] * seeds, 1 / 119)
    assert found.mean == 0 and found.reach() >= 1 / 119
    assert verdict(found) == "undecided"


def test_an_interval_of_no_width_is_believed_only_at_zero():
    assert verdict(estimated([0.25, 0.25])) == "undecided"
    assert verdict(estimated([0.0, 0.0])) == "no difference"
    # Two seeds that differ by the same two rows of 119 say little: with rounding the interval reaches 2.6 rows.
    assert verdict(estimated([2 / 119] * 2, 1 / 119)) == "undecided"
    assert verdict(estimated([0.0] * 2, 1 / 10_000)) == "no difference"


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_equal_differences_are_equal_whatever_rounding_makes_of_them(kind):
    """0.2 - 0.1, 0.3 - 0.2 and 0.4 - 0.3 are three numbers, which differ in the last digit."""
    values = [float(kind(one)) - float(kind(other)) for one, other in ((0.2, 0.1), (0.3, 0.2), (0.4, 0.3))]
    assert len(set(values)) > 1
    assert verdict(estimated(values)) == "undecided"


def test_strategies_that_spread_alike_share_their_spread():
    """By hand: variances 2.5 and 2.5, correlation 1: four degrees of freedom, as one strategy alone has."""
    same = {key: dict(enumerate([step + 1.0, 2.0, 3.0, 4.0, 5.0 + step])) for key, step in (("a", 0), ("b", 0))}
    found = estimates({**same, "c": dict(enumerate([5.0, 1.0, 4.0, 2.0, 3.0]))})
    assert all(one.pooled and one.error == pytest.approx(math.sqrt(0.5)) for one in found.values())
    squares = [1.0, 0.09, 0.09]  # r = 1 between a and b, -0.3 with c
    assert found["a"].freedom == pytest.approx(4 * 3 / (1 + 2 * sum(squares) / 3))


def test_a_strategy_that_spreads_otherwise_or_lacks_seeds_or_repeats_has_its_own():
    steps = [3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0, 5.0]
    narrow, other = dict(enumerate(steps)), dict(enumerate([1.1 * step for step in reversed(steps)]))
    wide = {seed: 30 * step for seed, step in narrow.items()}
    assert not any(one.pooled for one in estimates({"wide": wide, "narrow": narrow, "other": other}).values())
    some = {seed: other[seed] for seed in range(6)}
    repeats = {seed: 1e-9 * value for seed, value in wide.items()}
    found = estimates({"narrow": narrow, "other": other, "some": some, "repeats": repeats})
    assert {key for key, one in found.items() if one.pooled} == {"narrow", "other"}
    assert found["repeats"].freedom == 7 and found["some"].freedom == 5
    # Two seeds correlate, whatever they are.
    assert not any(one.pooled for one in estimates({"a": {1: 0.1, 2: 0.3}, "b": {1: 0.1, 2: 0.25}}).values())
    assert estimates({"a": {1: 0.1}})["a"] is None


@given(st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=6), st.integers(2, 9))
def test_the_test_of_spreads_is_bartletts(variances, freedom):
    scaled = [variance / max(variances) for variance in variances]
    assert alike(variances, freedom) == pytest.approx(alike(scaled, freedom), abs=1e-9)
    generator = np.random.default_rng(1)
    samples = []
    for variance in scaled:
        noise = generator.normal(size=freedom + 1)
        samples.append(noise / noise.std(ddof=1) * math.sqrt(variance))
    # SciPy's gives none where rounding makes its statistic less than 0.
    assert alike(scaled, freedom) == pytest.approx(np.nan_to_num(stats.bartlett(*samples).pvalue, nan=1), abs=1e-6)


@pytest.mark.parametrize(
    ("chances", "expected"),
    [
        ([0.01, 0.02, 0.04], [True, True, True]),
        ([0.04, 0.01, 0.03], [False, True, False]),
        ([0.02, 0.02, 0.02], [False, False, False]),
        ([], []),
    ],
)
def test_the_clearest_is_judged_first(chances, expected):
    assert holm(chances, 0.05) == expected


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.001, 0.2))
def test_holm_refuses_what_bonferroni_does_and_at_most_what_each_alone_would(chances, level):
    found = holm(chances, level)
    for chance, refused in zip(chances, found, strict=True):
        assert refused or chance > level / len(chances)
        assert chance <= level or not refused
    ordered = [refused for _, refused in sorted(zip(chances, found, strict=True), key=lambda one: (one[0], not one[1]))]
    assert ordered == sorted(ordered, reverse=True)


def test_of_many_pairs_what_one_alone_would_decide_may_be_chance():
    """Its interval ends just above 0: alone it is better, one of ten it is not."""
    found = [Question(between(0.0001, 0.02), MARGIN)] + [Question(between(-0.02, 0.02), MARGIN)] * 9
    assert verdicts(found[:1]) == ["better"]
    assert verdicts(found) == ["undecided"] * 10


def test_so_many_seeds_would_decide():
    """A spread of 1, and a mean of 0.5: by hand, t(0.975, N - 1) / sqrt(N) falls below 0.5 at N = 18."""
    error = 1 / math.sqrt(5)
    reach = float(stats.t.ppf(0.975, 4)) * error
    assert seeds_to_decide(Errors(error, 0.0, 5, 1), 0.5, 1000) == 18
    assert seeds_to_decide(Errors(error, 0.0, 5, 10), 0.5, 1000) == 36
    # What its own interval would decide, and all together did not, takes more seeds than there are.
    assert 5 < seeds_to_decide(Errors(error, 0.0, 5, 40), 2 * reach, 1000) < 12
    # More than can be told: too small, or differences that are all equal.
    assert seeds_to_decide(Errors(error, 0.0, 5, 1), 0.001, 1000) is None
    assert seeds_to_decide(Errors(0.0, 0.0, 5, 1), 0.5, 1000) is None


def test_so_many_rows_would_decide_what_no_seeds_would():
    """By rows alone, at a mean of 0.5: 1.96 / sqrt(times) falls below 0.5 at 15.4 times as many."""
    rows = Errors(1e-9, 1.0, 5, 1)
    assert seeds_to_decide(rows, 0.5, 1000) is None
    assert rows_to_decide(rows, 0.5, 0.0, 1000) == pytest.approx(15.4, rel=0.01)
    # Twenty times as many, where one row is twenty times as much as what is to be told.
    assert rows_to_decide(rows, 0.5, 10.0, 1000) == pytest.approx(20, rel=0.01)
    # With as much from the seeds, more of both.
    assert rows_to_decide(Errors(1.0, 1.0, 5, 1), 0.5, 0.0, 1000) is None
    # Either: 0.278 by 5 seeds and 0.196 / sqrt(5.5) together are 0.29, and so are 2.45 * 0.224 / sqrt(7) and 0.196.
    some = Errors(0.1, 0.1, 5, 1)
    assert rows_to_decide(some, 0.29, 0.0, 1000) == pytest.approx(5.46, rel=0.01)
    assert seeds_to_decide(some, 0.29, 1000) == 7


@given(st.integers(1, 40), st.integers(1, 400) | st.none())
def test_looks_spend_what_there_is_and_no_more(seeds, most):
    planned = looks(seeds, most)
    assert planned[0] == seeds and planned[-1] == max(seeds, most or 0)
    assert planned == sorted(set(planned)) and all(b <= 2 * a for a, b in itertools.pairwise(planned))
    assert sum(level_at(planned, look) for look in planned) == pytest.approx(0.05)
    assert level_at(planned, seeds - 1) == 0
