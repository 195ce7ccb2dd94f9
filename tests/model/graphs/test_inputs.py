"""What a builder is told of a data set, and what the graph makes of stored rows."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sparksplit.dataset.description import FittedPreprocessing, TensorPreprocessing, TensorSpec
from sparksplit.dataset.feature_spec import Category, Number, Text
from sparksplit.model.description import data_description
from sparksplit.model.graphs.inputs import Inputs
from tests.model.parts import CLASSES, description


def test_a_builder_is_told_of_tensors_as_they_are_stored():
    told = data_description(description(tensors=[TensorSpec(name="x", dtype="uint8", shape=[4, 4])]), 10)
    assert (told.inputs, told.categories, told.classes, told.rows) == ({"x": (4, 4)}, {}, ("a", "b", "c"), 10)


def test_a_builder_is_told_of_features_as_the_model_gets_them():
    place = {"type": "string", "tensor": "indices", "place": 0}
    features = [
        Number(column="age", type="int", tensor="x", place=0, indicator=True),
        Category(column="city", vocabulary=["Bonn", "Ulm"], **place),
        Text(column="title", values=5, vocabulary=["a", "the", "of"], **place),
    ]
    stored = [TensorSpec(name="x", dtype="uint8", shape=[1]), TensorSpec(name="indices", dtype="uint8", shape=[6])]
    told = data_description(description(tensors=stored).model_copy(update={"features": features}), 10)
    assert told.inputs == {"numbers": (2,), "city": (), "title": (5,)}
    assert told.categories == {"city": 4, "title": 5}


# Far from the subnormal numbers, products included: TensorFlow takes those for 0, numpy does not.
numbers = st.integers(-(2**20), 2**20).map(lambda number: number / 1024)


@settings(deadline=None, max_examples=30)
@given(
    arrays.arrays(np.float32, (3, 2), elements=st.one_of(numbers, st.just(np.nan))),
    st.one_of(numbers, st.lists(numbers, min_size=2, max_size=2)),
    st.one_of(numbers, st.lists(numbers, min_size=2, max_size=2)),
    st.one_of(st.none(), numbers, st.lists(numbers, min_size=2, max_size=2)),
)
def test_the_graph_applies_the_very_preprocessing_of_hdfs_io(values, offset, scale, impute):
    fitted = FittedPreprocessing(tensors={"x": TensorPreprocessing(offset=offset, scale=scale, impute=impute)})
    inputs = Inputs(description(None, [TensorSpec(name="x", dtype="float32", shape=[2])], fitted))
    decoded, label = inputs.decode([tf.constant(values)])
    assert label is None
    np.testing.assert_array_equal(decoded.numpy(), fitted.apply("x", values))


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64", "float16", "float64"]
)
def test_every_stored_dtype_reaches_the_model(dtype):
    inputs = Inputs(description(None, [TensorSpec(name="x", dtype=dtype, shape=[2])]))
    decoded, _ = inputs.decode([tf.constant(np.array([[1, 2]], dtype))])
    assert (decoded.dtype.name, decoded.numpy().tolist()) == ("float32", [[1, 2]])


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float64"])
def test_the_graph_keeps_numbers_apart_that_are_far_from_0(dtype):
    """The minutes of a day, as seconds since 1970; where 64 bits hold them, as nanoseconds too."""
    seconds = 1_700_006_400 + 60 * np.arange(1440)
    for values in (seconds, seconds * 10**9) if dtype.endswith("64") else (seconds,):
        stored = values.astype(dtype)[:, None]
        scale = 1 / (float(values[-1]) - float(values[0]))
        fitted = FittedPreprocessing(tensors={"x": TensorPreprocessing(offset=float(values[0]), scale=scale)})
        inputs = Inputs(description(None, [TensorSpec(name="x", dtype=dtype, shape=[1])], fitted))
        decoded = tf.function(lambda column, inputs=inputs: inputs.decode([column])[0])(tf.constant(stored)).numpy()
        np.testing.assert_array_equal(decoded, fitted.apply("x", stored))
        assert len(np.unique(decoded)) == 1440


def test_several_tensors_are_a_mapping_and_the_label_comes_last():
    tensors = [TensorSpec(name="a", dtype="uint8", shape=[4]), TensorSpec(name="b", dtype="float32", shape=[2, 2])]
    inputs = Inputs(description(CLASSES, tensors))
    assert [(spec.name, spec.shape.as_list(), spec.dtype.name) for spec in inputs.tensor_signature()] == [
        ("a", [None, 4], "uint8"),
        ("b", [None, 2, 2], "float32"),
    ]
    example, label = inputs.examples(3)
    assert {name: tuple(value.shape) for name, value in example.items()} == {"a": (3, 4), "b": (3, 2, 2)}
    assert (tuple(label.shape), label.dtype.name) == ((3,), "int64")


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("numbers", [{}, {"scale": 1 / 255}, {"offset": 1 / 3, "scale": 1 / 7}])
def test_in_float64_nothing_passes_through_float32(dtype, numbers, float64):
    """Not where nothing is scaled, nor where bytes are: a 255th is another number there."""
    largest = {"uint8": 255, "uint16": 65535}.get(dtype, 2**24 + 1)
    stored = np.array([[1, largest]], dtype)
    fitted = FittedPreprocessing(tensors={"x": TensorPreprocessing(**numbers)} if numbers else {})
    inputs = Inputs(description(None, [TensorSpec(name="x", dtype=dtype, shape=[2])], fitted))
    decoded = inputs.decode([tf.constant(stored)])[0].numpy()
    assert decoded.dtype == np.float64
    np.testing.assert_array_equal(decoded, fitted.apply("x", stored, "float64"))
    exact = (stored.astype(np.float64) - numbers.get("offset", 0)) * numbers.get("scale", 1)
    np.testing.assert_allclose(decoded, exact, rtol=1e-15)
