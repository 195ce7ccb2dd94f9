"""Approximate quantiles: within the stated error, and the same whatever parts the values come in."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.features.quantiles import BINS, Quantiles, _bits_too_many, _images, _value, pieces

finite = st.floats(allow_nan=False, allow_infinity=False)
few = st.sampled_from([0.0, -0.0, 1.0, 1.5, -1.5, 1e-320, 5e-324, -5e-324, 1e300, -1e300, 3.0, np.pi])
columns = st.lists(finite | few | st.integers(-50, 50).map(float), min_size=1, max_size=80)


def of(values: list[float], bins: int) -> Quantiles:
    found = Quantiles(bins)
    found.update(np.array(values))
    return found


def exact(values: list[float], share: Fraction) -> float:
    return sorted(values)[max(1, math.ceil(share * len(values))) - 1]


@given(columns, st.sampled_from([2, 3, 8, 64, 1024]), st.fractions(0, 1, max_denominator=1000))
def test_quantiles_are_within_the_stated_error_and_no_further_from_0(
    values: list[float], bins: int, share: Fraction
) -> None:
    found = of(values, bins)
    wanted, got = exact(values, share), found.quantile(share)
    assert len(found.state()[0]) <= bins
    assert found.count == len(values)
    assert abs(Fraction(wanted) - Fraction(got)) <= Fraction(found.error) * Fraction(abs(wanted)) + Fraction(1, 10**308)
    assert abs(got) <= abs(wanted)
    if len(set(values)) <= bins:
        assert got == wanted and found.error == 0


@pytest.mark.parametrize(
    ("rows", "buckets", "wanted"),
    [
        ({0.0: 60, 1.0: 40}, 2, [1.0]),  # a flag
        ({0.0: 40, 1.0: 60}, 2, [1.0]),
        ({0.0: 60, 1.0: 40}, 10, [1.0]),
        ({0.0: 97, 5.0: 2, 7.0: 1}, 10, [5.0]),
        ({-1.0: 1, 0.0: 99}, 10, [0.0]),
        ({1.0: 10, 2.0: 10, 3.0: 10}, 3, [2.0, 3.0]),
        ({0.0: 50, **dict.fromkeys(map(float, range(1, 51)), 1)}, 4, [1.0, 26.0]),
        ({float(number): 1 for number in range(100)}, 4, [25.0, 50.0, 75.0]),
        ({3.0: 7}, 4, []),
        ({}, 4, []),
    ],
)
def test_buckets_begin_where_values_change(rows: dict[float, int], buckets: int, wanted: list[float]) -> None:
    assert of([value for value, times in rows.items() for _ in range(times)], BINS).boundaries(buckets) == wanted


@given(columns | st.lists(few, min_size=1, max_size=80), st.integers(2, 12), st.sampled_from([4, 16, 1024]))
def test_no_bucket_is_empty_and_frequent_values_have_one_each(values: list[float], buckets: int, bins: int) -> None:
    counted = of(values, bins)
    found = counted.boundaries(buckets)
    assert found == sorted(set(found)) and len(found) < buckets
    places = np.searchsorted(found, values, side="right")
    assert set(places.tolist()) == set(range(len(found) + 1))
    times = Counter(value + 0.0 for value in values)
    frequent = [value for value in times if times[value] * buckets >= len(values)]
    if counted.error == 0:
        assert len({int(np.searchsorted(found, value, side="right")) for value in frequent}) == len(frequent)
        assert (len(found) > 0) == (len(times) > 1)


places = st.lists(st.integers(0, 80), max_size=6)


@given(columns, st.sampled_from([2, 5, 16]), st.randoms(use_true_random=False), places)
def test_parts_and_their_order_change_nothing(values: list[float], bins: int, random: Random, cuts: list[int]) -> None:
    whole = of(values, bins).state()
    mixed = list(values)
    random.shuffle(mixed)
    parts = [of(list(part), bins) for part in np.split(np.array(mixed), sorted(cuts))]
    random.shuffle(parts)
    left = Quantiles(bins)
    for part in parts:
        left.merge(part)
    right = Quantiles(bins)
    for keys, counts, shift in [piece for part in reversed(parts) for piece in pieces(part.state(), 3)]:
        right.add(keys, counts, shift)
    for merged in (left.state(), right.state()):
        assert merged[2] == whole[2]
        np.testing.assert_array_equal(merged[0], whole[0])
        np.testing.assert_array_equal(merged[1], whole[1])


@given(st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 40), min_size=1, max_size=60), st.sampled_from([2, 3, 10]))
def test_no_more_bits_are_left_out_than_need_be(keys: set[int], bins: int) -> None:
    ordered = sorted(keys)
    less = _bits_too_many(np.array(ordered, np.uint64), bins)
    assert len({key >> less for key in ordered}) <= bins
    assert less == 0 or len({key >> (less - 1) for key in ordered}) > bins


@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=20))
def test_images_have_the_order_of_the_values(values: list[float]) -> None:
    ordered = sorted(values)
    images = _images(np.array(ordered)).tolist()
    assert images == sorted(images)
    assert [_value(image, 0) for image in images] == ordered


def test_no_error_is_above_what_is_promised_for_numbers_of_many_sizes() -> None:
    rng = np.random.default_rng(1)
    values = 10.0 ** rng.uniform(-6, 6, 300_000)  # 40 powers of two
    found = Quantiles()
    found.update(values)
    assert 0 < found.error <= 2.0**-10
    for share in (0.01, 0.5, 0.999):
        assert found.quantile(share) == pytest.approx(
            np.quantile(values, share, method="inverted_cdf"), rel=found.error
        )


def test_a_day_of_microseconds_is_known_to_the_second_though_it_is_far_from_0() -> None:
    rng = np.random.default_rng(2)
    values = 1.7e15 + rng.integers(0, 86_400_000_000, 200_000)
    found = Quantiles()
    found.update(values)
    assert abs(found.quantile(0.5) - np.quantile(values, 0.5, method="inverted_cdf")) < 4e6


def test_as_many_different_whole_numbers_as_bins_are_exact() -> None:
    values = np.arange(BINS, dtype=np.int64) - BINS // 2
    found = Quantiles()
    for part in np.array_split(np.random.default_rng(3).permutation(np.repeat(values, 2)), 7):
        found.update(part)
    assert found.error == 0
    assert found.quantile(0.5) == -1 and found.quantile(0) == -(BINS // 2) and found.quantile(1) == BINS // 2 - 1


def test_gaps_are_no_values_and_nothing_has_no_quantiles() -> None:
    found = Quantiles()
    assert math.isnan(found.quantile(0.5)) and found.error == 0 and found.count == 0
    found.update(np.array([[np.nan, 3.0], [1.0, np.nan]], np.float32))
    assert found.count == 2 and found.quantile(0.5) == 1.0
    assert of([-np.inf, 0.0, np.inf], 3).quantile(1) == np.inf


def test_shares_are_exact_where_floats_are_not() -> None:
    found = of([float(number) for number in range(1, 11)], BINS)
    for number in range(1, 10):
        assert found.quantile(Fraction(number, 10)) == found.quantile(number / 10) == number


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="two bins"):
        Quantiles(1)
    with pytest.raises(ValueError, match="from 0 to 1"):
        of([1.0], 2).quantile(1.5)
