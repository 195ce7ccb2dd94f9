"""Raw columns as stored values."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfs_io.features import encode
from hdfs_io.features.spec import Category, Date, Number, Text
from hdfs_io.preprocessing import TensorSpec


def category(**keys):
    return Category(column="c", type="string", tensor="i", place=0, **keys)


def number(**keys):
    return Number(**{"column": "n", "type": "double", "tensor": "n", "place": 0, **keys})


def test_a_category_is_missing_unknown_or_its_place():
    feature = category(vocabulary=["x", "ü"])
    indices = encode.index_array(feature, pa.array(["x", None, "", "ü", "X"]))
    assert indices.tolist() == [[2], [0], [0], [3], [1]]
    assert indices.dtype == np.uint8


@given(st.lists(st.none() | st.text(max_size=20)))
def test_hashed_categories_are_below_their_size_and_missing_ones_0(texts):
    feature = category(hash=300)
    indices = encode.index_array(feature, pa.array(texts, pa.string()))
    assert indices.dtype == np.uint16 and indices.shape == (len(texts), 1)
    assert [index == 0 for index in indices[:, 0]] == [not text for text in texts]
    assert (indices < feature.size).all()


@given(st.lists(st.none() | st.text(max_size=20), min_size=1), st.data())
def test_a_slice_of_a_column_is_the_slice_of_its_indices(texts, data):
    start = data.draw(st.integers(0, len(texts)))
    column = pa.array(texts, pa.string())
    for feature in (
        category(hash=7),
        category(vocabulary=["", "a", "b"]),
        Text(column="t", type="string", tensor="t", place=0, values=3, unit="characters", vocabulary=["a", "0"]),
        Text(column="t", type="string", tensor="t", place=0, values=3, vocabulary=["a", "0"]),
    ):
        whole = encode.index_array(feature, column)
        np.testing.assert_array_equal(encode.index_array(feature, column.slice(start)), whole[start:])


@pytest.mark.parametrize(
    ("size", "dtype"), [(2, "uint8"), (256, "uint8"), (257, "uint16"), (65536, "uint16"), (65537, "int32")]
)
def test_indices_take_the_smallest_dtype(size, dtype):
    assert encode.index_dtype(size) == dtype
    assert np.iinfo(dtype).max >= size - 1


def test_numbers_keep_their_type_and_nulls_are_its_missing_value():
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        values = encode.encoded(number(), pa.array([3, None, -4], kind))
        assert values.dtype == kind.to_pandas_dtype()
        assert values.tolist() == [[3], [np.iinfo(values.dtype).min], [-4]]
        assert encode.is_missing(values).tolist() == [[False], [True], [False]]
    for kind in (pa.float32(), pa.float64()):
        values = encode.encoded(number(), pa.array([3, None, -4], kind))
        assert values.dtype == kind.to_pandas_dtype()
        np.testing.assert_array_equal(values, [[3], [np.nan], [-4]])
    big = encode.encoded(number(), pa.array([2**53 + 1, None], pa.int64()))
    assert big[0, 0] == 2**53 + 1


def test_unsigned_numbers_have_no_missing_value():
    assert encode.missing_value(np.uint8) is None
    assert not encode.is_missing(np.zeros(2, np.uint8)).any()


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 2), pa.large_list(pa.float32())])
def test_arrays_lie_side_by_side_and_a_missing_one_is_all_missing(kind):
    values = encode.encoded(number(values=2), pa.array([[1, 2], None, [None, 4]], kind).slice(1))
    np.testing.assert_array_equal(values, [[np.nan, np.nan], [np.nan, 4]])


def test_a_malformed_date_is_told():
    feature = Date(column="d", type="string", tensor="d", place=0)
    assert encode.encoded(feature, pa.array(["1970-01-02", None])).tolist() == [[1], [-(2**31)]]
    with pytest.raises(ValueError, match="column d: '1970-1-2' is no day"):
        encode.encoded(feature, pa.array(["1970-01-02", "1970-1-2"]))


def test_dates_and_timestamps_as_arrow_has_them():
    day = Date(column="d", type="date", tensor="d", place=0)
    assert encode.encoded(day, pa.array([1, None], pa.int32()).cast(pa.date32())).tolist() == [[1], [-(2**31)]]
    moment = Date(column="d", type="timestamp", tensor="d", place=0, moment=True)
    column = pa.array([1, None], pa.int64()).cast(pa.timestamp("ms"))
    assert encode.encoded(moment, column).tolist() == [[1000], [-(2**63)]]


def test_features_are_put_into_their_places():
    features = [
        number(place=1, values=2),
        category(vocabulary=["a"]),
        number(column="m"),
        Text(column="t", type="string", tensor="i", place=1, values=2, vocabulary=["b"]),
    ]
    tensors = [TensorSpec(name="n", dtype="float32", shape=[3]), TensorSpec(name="i", dtype="uint8", shape=[3])]
    columns = [pa.array([[1.0, 2], [3, 4]]), pa.array(["a", "b"]), pa.array([None, 5.0]), pa.array(["b", "b c"])]
    numbers, indices = encode.stored(features, tensors, columns)
    np.testing.assert_array_equal(numbers, np.array([[np.nan, 1, 2], [5, 3, 4]], np.float32))
    np.testing.assert_array_equal(indices, np.array([[2, 2, 0], [1, 2, 1]], np.uint8))
    assert (numbers.dtype, indices.dtype) == (np.float32, np.uint8)
