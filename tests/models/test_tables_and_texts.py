"""The shipped models for tables and texts: what they take, and what their parts compute."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from models import tabular, text
from sparksplit.model.description import DataDescription


def described(inputs, categories, classes=("no", "yes"), label=()):
    return DataDescription(inputs, classes, label, 100, categories)


# Columns may be called as layers are by default, or what no scope of TensorFlow may be called.
TABLE = described(
    {"numbers": (3,), "embedding": (), "hours a week": (), "title": (6,)},
    {"embedding": 5, "hours a week": 300, "title": 40},
)
TITLE = described({"title": (6,)}, {"title": 40}, None)
NUMBERS = described({"x": (3, 2)}, {})


def rows_of(data, rows=4):
    random = np.random.default_rng(0)
    values = {
        name: random.integers(0, data.categories[name], (rows, *shape), dtype=np.int32)
        if name in data.categories
        else random.normal(size=(rows, *shape)).astype(np.float32)
        for name, shape in data.inputs.items()
    }
    return values if len(values) > 1 else next(iter(values.values()))


def part(model, layer):
    """The model as far as one layer's outputs."""
    return keras.Model(model.input, model.get_layer(layer).output)


def shaken(model):
    """The model with random weights, those too that begin as zeros."""
    random = np.random.default_rng(1)
    model.set_weights([random.normal(size=weights.shape) for weights in model.get_weights()])
    return model


@pytest.mark.parametrize(
    "model",
    [tabular.build(TABLE), tabular.build(TABLE, wide=True), text.build(TABLE), text.build(TABLE, "lstm")],
    ids=["tabular", "wide", "text", "lstm"],
)
def test_they_take_columns_of_any_name_in_graphs_and_from_files(model, tmp_path):
    rows = rows_of(TABLE)
    outputs = np.asarray(model(rows))
    assert outputs.shape == (4, 2)
    np.testing.assert_allclose(outputs.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(tf.function(model)(rows)), outputs, rtol=1e-5)
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(np.asarray(keras.models.load_model(tmp_path / "model.keras")(rows)), outputs)


@pytest.mark.parametrize("data", [NUMBERS, TITLE, described({"city": ()}, {"city": 7})])
@pytest.mark.parametrize("wide", [False, True])
def test_a_table_of_one_input_is_a_tensor(data, wide):
    assert tabular.build(data, wide=wide)(rows_of(data)).shape == (4, data.outputs)


@pytest.mark.parametrize("build", [tabular.build, text.build])
def test_numbers_to_be_predicted_have_an_output_each(build):
    several = described(TABLE.inputs, TABLE.categories, None, (5,))
    assert build(several)(rows_of(several)).shape == (4, 5)
    outputs = np.asarray(shaken(build(several))(rows_of(several)))
    assert (outputs < 0).any() and (outputs > 1).any()


@pytest.mark.parametrize(("size", "width"), [(2, 2), (10, 6), (300, 39), (455, 49), (10**6, 50)])
def test_the_width_of_an_embedding(size, width):
    assert tabular.embedding_width(size) == width


@pytest.mark.parametrize("hidden", [(), (7,), (9, 8, 7)])
def test_any_number_and_width_of_hidden_layers(hidden):
    data = described({"numbers": (3,), "city": ()}, {"city": 10})
    model = tabular.build(data, hidden)
    sizes = [3 + 6, *hidden, 2]
    dense = sum((inner + 1) * outer for inner, outer in itertools.pairwise(sizes))
    assert model.count_params() == 10 * 6 + dense
    assert tabular.build(data, hidden, wide=True).count_params() == 10 * 6 + dense + (3 + 10) * 2


def test_wide_adds_a_linear_model_to_what_goes_into_the_last_activation():
    model, rows = shaken(tabular.build(TABLE, wide=True)), rows_of(TABLE)
    weights = [model.get_layer(f"wide.{place}").get_weights()[0] for place in range(4)]
    linear = (
        rows["numbers"] @ weights[0]
        + weights[1][rows["embedding"]]
        + weights[2][rows["hours a week"]]
        + weights[3][rows["title"]].mean(axis=1)
    )
    deep = np.asarray(part(model, "deep.outputs")(rows))
    np.testing.assert_allclose(np.asarray(part(model, "sum.outputs")(rows)), deep + linear, rtol=1e-4)


def test_a_text_in_a_table_is_the_largest_of_its_tokens_vectors():
    model, rows = shaken(tabular.build(TITLE)), rows_of(TITLE)
    vectors = model.get_layer("embedding.0").get_weights()[0][rows].max(axis=1)
    np.testing.assert_array_equal(np.asarray(part(model, "largest.0")(rows)), vectors)


@pytest.mark.parametrize("build", [tabular.build, text.build])
def test_dropout_is_off_unless_it_is_asked_for(build):
    def dropped(model):
        return [layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)]

    assert dropped(build(TABLE)) == []
    assert set(dropped(build(TABLE, dropout=0.25))) == {0.25}


@pytest.mark.parametrize("network", ["convolution", "lstm"])
def test_the_order_of_a_texts_tokens_counts(network):
    rows = np.array([[2, 3, 4, 5, 0, 0], [5, 4, 3, 2, 0, 0]], np.int32)
    first, second = np.asarray(shaken(text.build(TITLE, network))(rows))
    assert np.abs(first - second).max() > 1e-6


def test_the_lstm_ends_with_a_texts_last_token():
    model = shaken(text.build(TITLE, "lstm"))
    longer = text.build(described({"title": (9,)}, {"title": 40}, None), "lstm")
    longer.set_weights(model.get_weights())
    rows = np.array([[2, 3, 4, 5, 0, 0], [7, 0, 0, 0, 0, 0], [0] * 6], np.int32)
    padded = np.pad(rows, ((0, 0), (0, 3)))
    np.testing.assert_allclose(np.asarray(model(rows)), np.asarray(longer(padded)), rtol=1e-5)


def test_each_text_and_each_width_has_a_part_of_what_comes_into_the_last_layer():
    data = described({"numbers": (3,), "city": (), "a": (2,), "b": (6,)}, {"city": 5, "a": 9, "b": 9})
    model = text.build(data, embedding=4, widths=(1, 3), filters=7)
    assert part(model, "side.by.side").output_shape == (None, 3 + 4 + 2 * (7 + 7))
    assert part(text.build(data, "lstm", embedding=4, units=6), "side.by.side").output_shape == (None, 3 + 4 + 6 + 6)


@pytest.mark.parametrize(
    ("data", "params", "message"),
    [
        (NUMBERS, {}, r"text needs a text among its inputs \(features: COLUMN: text\)"),
        (described({"city": ()}, {"city": 5}), {}, r"text needs a text among its inputs"),
        (TITLE, {"network": "gru"}, r"network must be convolution or lstm \(is 'gru'\)"),
    ],
)
def test_what_text_will_not_take(data, params, message):
    with pytest.raises(ValueError, match=message):
        text.build(data, **params)
