"""Raw columns, stored values and the model's inputs: the same bits from NumPy, in a graph, and in an exported model.

One file, so that TensorFlow is imported once.
"""

import random
import re
import subprocess
import sys

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from sparksplit.dataset import feature_spec
from sparksplit.dataset.description import Description, FittedPreprocessing, TensorSpec
from sparksplit.features.names import serving_names
from sparksplit.features.quantiles import Quantiles
from sparksplit.features.siphash import siphash
from sparksplit.model.export import export
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.graphs.raw_inputs import RawInputs
from tests.features import by_numpy
from tests.hdfs_io.outputs import fenced
from tests.model import features as tables

ROWS = 1000


@pytest.fixture(scope="module")
def table():
    """(description, raw columns, stored tensors, the model's inputs), the last two by NumPy."""
    return made(tables.description(log1p=False))


def made(description):
    columns = tables.messy(description.features, ROWS, seed=7)
    stored = by_numpy.stored(description.features, description.tensors, columns)
    by_name = dict(zip([tensor.name for tensor in description.tensors], stored, strict=True))
    return description, columns, stored, by_numpy.decoded(description.features, by_name)


def same(first, second):
    """Whether two arrays have the same dtype, shape and bits."""
    assert (first.dtype, first.shape) == (second.dtype, second.shape)
    np.testing.assert_array_equal(
        np.ascontiguousarray(first).view(np.uint8), np.ascontiguousarray(second).view(np.uint8)
    )


def test_in_float64_nothing_passes_through_float32(table, float64):
    description, _, stored, _ = table
    by_name = dict(zip([tensor.name for tensor in description.tensors], stored, strict=True))
    found = by_numpy.decoded(description.features, by_name, "float64")
    theirs, _ = Inputs(description).decode([tf.constant(tensor) for tensor in stored])
    for name, value in found.items():
        same(value, theirs[name].numpy())
    number = feature_spec.Number(column="whole", type="int", tensor="i4", place=0)
    whole = description.model_copy(
        update={"features": [number], "tensors": [TensorSpec(name="i4", dtype="int32", shape=[1])]}
    )
    assert Inputs(whole).decode([tf.constant([[2**24 + 1]], tf.int32)])[0].numpy().tolist() == [[2**24 + 1]]


def test_hashes_are_tensorflows():
    chance = random.Random(1)
    texts = ["".join(chr(chance.randrange(0xD800)) for _ in range(chance.randrange(40))) for _ in range(500)]
    theirs = tf.strings.to_hash_bucket_strong(tf.constant(texts), 2**31 - 1, list(feature_spec.HASH_KEY)).numpy()
    np.testing.assert_array_equal(siphash(pa.array(texts), feature_spec.HASH_KEY) % np.uint64(2**31 - 1), theirs)


@pytest.mark.slow
def test_a_graph_makes_the_same_stored_values_of_raw_columns(table):
    description, columns, stored, _ = table
    raw = RawInputs(description)
    graph = tf.function(lambda *given: raw.stored(given), input_signature=raw.signature())
    found = graph(*(tf.constant(column) for column in tables.raw(description.features, columns)))
    for tensor, ours, theirs in zip(description.tensors, stored, found, strict=True):
        assert tuple(theirs.shape[1:]) == tuple(tensor.shape)
        same(ours, theirs.numpy())


def test_a_graph_makes_the_same_inputs_of_stored_values(table):
    description, _, stored, found = table
    assert {name: value.shape[1:] for name, value in found.items()} == feature_spec.inputs(description.features)
    inputs = Inputs(description)
    decode = tf.function(inputs.decode, input_signature=[inputs.signature()])
    # The whole, and a row alone, which takes no vector instructions.
    for rows in (slice(None), slice(1), slice(1, 2), slice(0)):
        theirs, label = decode([*(tf.constant(tensor[rows]) for tensor in stored), tf.zeros(ROWS, tf.int64)])
        assert list(theirs) == list(found) and label.dtype == tf.int64
        for name, value in found.items():
            same(value[rows], theirs[name].numpy())


def test_a_graph_puts_rows_into_the_buckets_that_were_fitted():
    chance = random.Random(11)
    for column in [[0.0] * 6 + [1.0] * 4, [0.0] * 4 + [1.0] * 6, *([chance.choice([-1e9, -0.5, -0.0, 0.0, 1e-300, 7.0])
                   for _ in range(30)] for _ in range(20))]:  # fmt: skip
        values = np.array([*column, np.nan])[:, None]
        counted = Quantiles()
        counted.update(values)
        place = {"type": "double", "tensor": "f8", "place": 0, "encoding": "embedding"}
        feature = feature_spec.Number(column="c", buckets=counted.boundaries(4), **place)
        found, _ = Inputs(_of(feature)).decode([tf.constant(values)])
        theirs = found.numpy().tolist()
        assert theirs == by_numpy.decoded([feature], {"f8": values})["c"].tolist()
        assert theirs[-1] == feature_spec.MISSING
        assert set(theirs[:-1]) == set(range(1, feature.size))  # none is empty
        frequent = {value + 0.0 for value in column if column.count(value) * 4 >= len(column)}
        assert len({theirs[column.index(value)] for value in frequent}) == len(frequent)


def _of(feature):
    tensor = TensorSpec(name=feature.tensor, dtype="float64", shape=[1])
    return Description(tensors=[tensor], label=None, preprocessing=FittedPreprocessing(), features=[feature])


@pytest.mark.slow
def test_logarithms_are_the_same_to_a_last_bit():
    description, _, stored, inputs = made(tables.description(log1p=True))
    found, _ = tf.function(Inputs(description).decode)([tf.constant(tensor) for tensor in stored])
    np.testing.assert_array_max_ulp(inputs["numbers"], found["numbers"].numpy(), maxulp=1)


def small(inputs):
    """A model of all the inputs."""
    given, parts = {}, []
    for name, shape in inputs.items():
        layer = keras.layers.Input(shape, name=name, dtype="float32" if name == "numbers" else "int32")
        given[name] = layer
        # Some numbers are so great that nothing else would count.
        parts.append(keras.ops.tanh(layer) if name == "numbers" else keras.layers.Flatten()(_floats(layer, shape)))
    return keras.Model(given, keras.layers.Dense(2)(keras.layers.Concatenate()(parts)))


def _floats(layer, shape):
    return keras.ops.cast(layer if shape else keras.ops.expand_dims(layer, -1), "float32")


LOADED = """
import sys
import numpy as np
import tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
given = np.load(sys.argv[2], allow_pickle=True).item()
answers = {name: loaded.signatures[name](**{key: tf.constant(value) for key, value in columns.items()})["outputs"]
           for name, columns in given.items()}
np.savez(sys.argv[3], **answers)
"""


@pytest.fixture(scope="module")
def exported(table, tmp_path_factory):
    """(the model, where its SavedModel is)"""
    description = table[0]
    folder, scratch = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("scratch")
    keras.utils.set_random_seed(3)
    model = small(feature_spec.inputs(description.features))
    with fenced(folder) as run:
        export(model, Inputs(description), run, str(scratch))
    return model, folder / "saved_model" / "1"


@pytest.mark.slow
def test_another_process_gets_the_same_of_raw_columns_and_of_stored_values(table, exported, tmp_path):
    description, columns, stored, inputs = table
    model, folder = exported
    names = serving_names(description.features).values()
    given = {
        "serving_default": dict(zip(names, tables.raw(description.features, columns), strict=True)),
        "stored": {tensor.name: values for tensor, values in zip(description.tensors, stored, strict=True)},
    }
    np.save(tmp_path / "given.npy", given, allow_pickle=True)
    command = [sys.executable, "-c", LOADED, folder, tmp_path / "given.npy", tmp_path / "answers.npz"]
    subprocess.run(command, check=True, timeout=120)
    answers = np.load(tmp_path / "answers.npz")
    same(answers["serving_default"], answers["stored"])
    ours = tf.function(lambda given: model(given, training=False))(
        {name: tf.constant(value) for name, value in inputs.items()}
    )
    same(answers["stored"], ours.numpy())
    assert len(np.unique(answers["stored"], axis=0)) > ROWS / 2


@pytest.fixture(scope="module")
def served(table, exported):
    """(the loaded endpoint, three good rows for it)"""
    description, columns, _, _ = table
    rows = [column[:3] for column in tables.raw(description.features, columns)]
    good = dict(zip(serving_names(description.features).values(), map(tf.constant, rows), strict=True))
    loaded = tf.saved_model.load(exported[1])
    yield loaded.signatures["serving_default"], good, loaded


def refusal(served, **other):
    function, good, _ = served
    given = {name: value for name, value in {**good, **other}.items() if value is not None}
    with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError)) as error:
        function(**given)
    return str(error.value)


def test_a_missing_column_is_named(served):
    assert re.search("missing a required (keyword-only )?argument: 'age'", refusal(served, age=None))
    assert "unexpected keyword argument 'sex'" in refusal(served, sex=tf.constant(["f"] * 3))


@pytest.mark.parametrize(
    ("name", "value"),
    [("age", tf.constant(["1", "2", "3"])), ("day", tf.constant([1.0, 2.0, 3.0])), ("whole", tf.constant([1, 2, 3]))],
)
def test_a_column_of_another_type_is_named(served, name, value):
    place = sorted(served[1]).index(name)
    message = refusal(served, **{name: value})
    assert f"input #{place}(zero-based) was expected to be" in message
    assert f"_{place}_{name}_" in message


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("whole", [1.0, 2.5, 3.0], "must hold whole numbers from -2147483647 to 2147483647, or NaN"),
        ("small", [1.0, 128.0, 3.0], "must hold whole numbers from -127 to 127"),
        ("count", [1.0, 2.0**63, np.inf], "must hold whole numbers from"),
        ("small", [1.0, -128.0, 3.0], "must hold whole numbers from -127 to 127"),
        ("age", [1.0, -np.inf, 3.0], "must hold finite numbers of float64"),
        ("arg_1st", [[1.0, 2.0, 3.0], [1.0, 2.0, 1e39], [1.0, 2.0, np.nan]], "must hold finite numbers of float32"),
        ("day", ["2024-02-29", "2023-02-29", ""], "[2023-02-29]"),
        ("moment", ["2024-02-29T25:00", "", ""], "[2024-02-29T25:00]"),
        ("words", ["a", "b"], "must have as many rows as age:] [words]"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_column(served, column, value, message):
    dtype = tf.string if isinstance(value[0], str) else tf.float64
    found = refusal(served, **{column: tf.constant(value, dtype)})
    assert message in found and column.removeprefix("arg_") in found, found


def test_names_of_columns_that_a_signature_cannot_have(table, served):
    names = serving_names(table[0].features)
    assert names["hours-per-week"] == "hours_per_week"
    assert names["1st"] == "arg_1st"
    assert names["class"] == "arg_class"
    assert names["größe"] == "gr__e"
    assert sorted(served[0].structured_input_signature[1]) == sorted(names.values())


def test_texts_that_regular_expressions_of_both_see_alike():
    features = [
        feature_spec.Text(
            column="t", type="string", tensor="t", place=0, values=40, vocabulary=[chr(x) for x in range(32, 250)]
        )
    ]
    description = Description(
        tensors=[{"name": "t", "dtype": "uint8", "shape": [40]}], label=None, preprocessing={}, features=features
    )
    points = [*range(1, 0x3400), *range(0xA000, 0xA800), *range(0xF900, 0x10000), *range(0x1F000, 0x1FB00)]
    texts = [f"a{chr(point)}b {chr(point)}" for point in points if not 0xD800 <= point < 0xE000]
    (ours,) = by_numpy.stored(features, description.tensors, [pa.array(texts)])
    (theirs,) = RawInputs(description).stored([tf.constant(texts)])
    same(ours, theirs.numpy())
