"""Categories and texts as the indices that are stored."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset.feature_spec import Category, Text
from sparksplit.features import encoding


def category(**keys):
    return Category(column="c", type="string", tensor="i", place=0, **keys)


def test_a_category_is_missing_unknown_or_its_place():
    feature = category(vocabulary=["x", "ü"])
    indices = encoding.index_array(feature, pa.array(["x", None, "", "ü", "X"]))
    assert indices.tolist() == [[2], [0], [0], [3], [1]]
    assert indices.dtype == np.uint8


@given(st.lists(st.none() | st.text(max_size=20)))
def test_hashed_categories_are_below_their_size_and_missing_ones_0(texts):
    feature = category(hash=300)
    indices = encoding.index_array(feature, pa.array(texts, pa.string()))
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
        whole = encoding.index_array(feature, column)
        np.testing.assert_array_equal(encoding.index_array(feature, column.slice(start)), whole[start:])


@pytest.mark.parametrize(
    ("size", "dtype"), [(2, "uint8"), (256, "uint8"), (257, "uint16"), (65536, "uint16"), (65537, "int32")]
)
def test_indices_take_the_smallest_dtype(size, dtype):
    assert encoding.index_dtype(size) == dtype
    assert np.iinfo(dtype).max >= size - 1


def test_what_stands_for_a_missing_number():
    assert np.isnan(encoding.missing_value(np.float32))
    assert encoding.missing_value(np.int16) == -(2**15)
    assert encoding.missing_value(np.uint8) is None
