"""Stored values as the model's inputs: by NumPy, which tests/model/graphs/test_features.py compares graphs with."""

import datetime
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset import feature_spec
from sparksplit.dataset.feature_spec import Category, Date, Number, Scaled, Text
from tests.features.by_numpy import decoded

LEAST = -(2**31)


def one(feature, values):
    """The only input of one feature, whose stored tensor holds `values` [rows] or [rows, n]."""
    values = np.asarray(values)
    (found,) = decoded([feature], {"t": values[:, None] if values.ndim == 1 else values}).values()
    return found


def number(**keys):
    return Number(**{"column": "n", "type": "double", "tensor": "t", "place": 0, **keys})


def date(**keys):
    return Date(**{"column": "d", "type": "date", "tensor": "t", "place": 0, **keys})


def category(**keys):
    return Category(**{"column": "c", "type": "string", "tensor": "t", "place": 0, **keys})


def test_numbers_are_clipped_then_filled_then_scaled():
    feature = number(clip=(0, 10), scaled=Scaled(impute=4, offset=2, scale=0.5), indicator=True)
    found = one(feature, [-5.0, 6.0, 50.0, np.nan])
    np.testing.assert_array_equal(found, np.array([[-1, 0], [2, 0], [4, 0], [1, 1]], np.float32))
    assert found.dtype == np.float32


def test_logarithms_are_scaled_in_their_own_units_and_exist_above_minus_1():
    feature = number(log1p=True, scaled=Scaled(impute=7, offset=1, scale=2), indicator=True)
    found = one(feature, [0.0, math.e - 1, -1.0, -3.0, np.nan])
    np.testing.assert_allclose(found, [[-2, 0], [0, 0], [12, 1], [12, 1], [12, 1]], atol=1e-7)


def test_the_least_whole_number_is_missing():
    feature = number(scaled=Scaled(impute=3))
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        assert one(feature, np.array([np.iinfo(dtype).min, 5], dtype)).tolist() == [[3], [5]]
    assert one(feature, np.array([0, 5], np.uint8)).tolist() == [[0], [5]]


def test_numbers_far_from_0_stay_apart():
    feature = number(scaled=Scaled(offset=1.7e9, scale=1.0))
    assert one(feature, np.array([1_700_000_001, 1_700_000_002])).tolist() == [[1], [2]]


def test_an_array_has_its_own_numbers_and_indicators_behind_them():
    scaled = Scaled(impute=[1, 2], offset=[10, 20], scale=[1, 2])
    found = one(number(values=2, scaled=scaled, indicator=True), [[11.0, np.nan]])
    assert found.tolist() == [[1, -36, 0, 1]]


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=9, unique=True).map(sorted), st.data())
def test_buckets(boundaries, data):
    values = data.draw(st.lists(st.floats() | st.sampled_from(boundaries), min_size=1))
    expected = [0 if math.isnan(x) else 1 + sum(bound <= x for bound in boundaries) for x in values]
    embedded = one(number(buckets=boundaries, encoding="embedding"), values)
    assert (embedded.tolist(), embedded.dtype) == (expected, np.int32)
    shown = one(number(buckets=boundaries), values)
    assert shown.shape == (len(values), len(boundaries) + 2)
    np.testing.assert_array_equal(
        shown, shown.max(axis=1, keepdims=True) * (np.arange(shown.shape[1]) == embedded[:, None])
    )


def test_categories_are_indices_or_one_hot():
    stored = np.array([0, 3, 1], np.uint8)
    embedded = one(category(vocabulary=["a", "b"]), stored)
    assert (embedded.tolist(), embedded.dtype) == ([0, 3, 1], np.int32)
    shown = one(category(vocabulary=["a", "b"], encoding="one-hot"), stored)
    assert shown.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]]


@given(st.dates())
def test_parts_of_a_day(day):
    stored = np.array([(day - datetime.date(1970, 1, 1)).days], np.int32)
    (found,) = one(date(parts=["month", "day", "weekday", "hour"], since="2000-01-01"), stored)
    turns = [(day.month - 1) / 12, (day.day - 1) / 31, day.weekday() / 7, 0.0]
    circles = [value for turn in turns for value in (math.sin(2 * math.pi * turn), math.cos(2 * math.pi * turn))]
    np.testing.assert_allclose(found, [*circles, (day - datetime.date(2000, 1, 1)).days, 0], rtol=1e-6, atol=1e-6)


@given(st.datetimes())
def test_parts_of_a_moment(moment):
    stored = np.array([(moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)])
    feature = date(moment=True, parts=["hour", "weekday"], since="2000-01-01", scaled=Scaled(offset=2, scale=0.5))
    (found,) = one(feature, stored)
    turns = [moment.hour / 24, moment.weekday() / 7]
    circles = [value for turn in turns for value in (math.sin(2 * math.pi * turn), math.cos(2 * math.pi * turn))]
    days = (moment - datetime.datetime(2000, 1, 1)) / datetime.timedelta(days=1)
    np.testing.assert_allclose(found, [*circles, (days - 2) / 2, 0], rtol=1e-6, atol=1e-6)


def test_a_missing_date_is_zeros_and_a_sign():
    assert one(date(parts=["day"], since="2000-01-01"), np.array([LEAST], np.int32)).tolist() == [[0, 0, 0, 1]]
    moment = date(moment=True, parts=["hour"], since="2000-01-01", scaled=Scaled(offset=5))
    assert one(moment, np.array([-(2**63)])).tolist() == [[0, 0, 0, 1]]


def test_numbers_are_in_the_order_of_the_features_wherever_they_are_stored():
    features = [
        category(tensor="i", place=1, vocabulary=["a"], encoding="one-hot"),
        number(column="x", place=1, indicator=True),
        date(tensor="d"),
        number(column="y", tensor="f"),
        category(column="e", tensor="i", vocabulary=["a"]),
        number(column="z", place=0, indicator=True),
        Text(column="w", type="string", tensor="i", place=2, values=2),
    ]
    stored = {
        "t": np.array([[1.0, 2.0]]),
        "f": np.array([[3.0]], np.float32),
        "i": np.array([[2, 1, 7, 8]], np.uint8),
        "d": np.array([[LEAST]], np.int32),
    }
    found = decoded(features, stored)
    assert {name: value.tolist() for name, value in found.items()} == {
        "numbers": [[0, 1, 0, 2, 0, 1, 3, 1, 0]],
        "e": [2],
        "w": [[7, 8]],
    }
    assert {name: value.shape[1:] for name, value in found.items()} == feature_spec.inputs(features)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_any_number_of_rows(rows):
    assert one(number(), np.zeros(rows)).shape == (rows, 1)
