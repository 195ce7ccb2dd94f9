"""The shipped models: their layers and sizes. One file, so that TensorFlow is imported once."""

import itertools

import keras
import numpy as np
import pytest

from models import cnn, lstm, mlp
from sparksplit.model.description import DataDescription

TEN = tuple(map(str, range(10)))


def images(*shape, classes=TEN):
    return DataDescription(inputs={"x": shape}, classes=classes, label_shape=(), rows=100)


NUMBER = DataDescription(inputs={"x": (3,)}, classes=None, label_shape=(), rows=100)


def widths(model):
    return [layer.units for layer in model.layers if isinstance(layer, keras.layers.Dense)]


@pytest.mark.parametrize(("hidden", "expected"), [((128,), [128, 10]), ((), [10]), ((32, 16, 8), [32, 16, 8, 10])])
def test_an_mlp_of_any_number_and_width_of_hidden_layers(hidden, expected):
    model = mlp.build(images(28, 28), hidden)
    assert widths(model) == expected
    sizes = [784, *expected]
    assert model.count_params() == sum((inner + 1) * outer for inner, outer in itertools.pairwise(sizes))


def test_the_mlp_gives_probabilities_for_classes_and_a_number_otherwise():
    outputs = np.asarray(mlp.build(images(4, 4))(np.ones((3, 4, 4), np.float32)))
    np.testing.assert_allclose(outputs.sum(axis=1), 1, rtol=1e-6)
    assert mlp.build(NUMBER, activation="tanh")(np.ones((3, 3), np.float32)).shape == (3, 1)


@pytest.mark.parametrize("shape", [(28, 28), (28, 28, 1), (28, 28, 3)])
def test_the_cnn_is_lenets(shape):
    model = cnn.build(images(*shape))
    channels = shape[2] if len(shape) == 3 else 1
    convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    assert [(layer.filters, layer.kernel_size) for layer in convolutions] == [(20, (5, 5)), (50, (5, 5))]
    assert [layer.pool_size for layer in model.layers if isinstance(layer, keras.layers.MaxPooling2D)] == [(2, 2)] * 2
    assert widths(model) == [512, 10]
    expected = (25 * channels + 1) * 20 + (25 * 20 + 1) * 50 + (4 * 4 * 50 + 1) * 512 + 513 * 10
    assert model.count_params() == expected
    assert model(np.zeros((2, *shape), np.float32)).shape == (2, 10)


@pytest.mark.parametrize("shape", [(784,), (2, 28, 28, 1)])
def test_the_cnn_wants_images(shape):
    with pytest.raises(ValueError, match=r"cnn needs images"):
        cnn.build(images(*shape))


def test_images_too_small_for_the_cnn():
    with pytest.raises(ValueError, match=r"(negative|zero)"):
        cnn.build(images(8, 8))


def sequences(*shape, label=(), classes=TEN):
    return DataDescription(inputs={"x": shape}, classes=classes, label_shape=label, rows=100)


@pytest.mark.parametrize(("units", "embedding"), [((8,), 0), ((8, 6), 0), ((8,), 5)])
def test_the_lstm_predicts_the_next_token_at_each_position(units, embedding):
    model = lstm.build(sequences(7, label=(7,)), units, embedding)
    tokens = np.arange(21).reshape(3, 7) % 10
    outputs = np.asarray(model(tokens.astype(np.float32)))
    assert outputs.shape == (3, 7, 10)
    np.testing.assert_allclose(outputs.sum(axis=-1), 1, rtol=1e-5)
    inner = [embedding or 10, *units]
    weights = sum(4 * (before + after + 1) * after for before, after in itertools.pairwise(inner))
    weights += (units[-1] + 1) * 10 + 10 * embedding
    assert sum(int(np.prod(variable.shape)) for variable in model.trainable_variables) == weights
    # What comes later changes nothing that was said before.
    tokens[:, 4:] = (tokens[:, 4:] + 1) % 10
    again = np.asarray(model(tokens.astype(np.float32)))
    np.testing.assert_array_equal(outputs[:, :4], again[:, :4])
    assert (outputs[:, 4] != again[:, 4]).any()


def test_one_hot_vectors_are_the_same_for_every_seed_and_dtype():
    model = lstm.build(sequences(4, label=(4,)))
    table = model.layers[0]
    np.testing.assert_array_equal(np.asarray(table(np.array([[3.0, 0.0, 9.0, 1.0]]))), [np.eye(10)[[3, 0, 9, 1]]])
    assert len(table.variables) == 1 and table.trainable_variables == []


@pytest.mark.parametrize(
    ("data", "params", "shape"),
    [
        (sequences(7), {}, (3, 10)),
        (sequences(7, 5), {}, (3, 10)),
        (sequences(7), {"tokens": 4, "embedding": 3}, (3, 10)),
        (sequences(7, classes=None), {"units": (4, 4)}, (3, 1)),
        (sequences(7, label=(7,), classes=None), {}, (3, 7, 1)),
        (sequences(7, 5, label=(7,)), {}, (3, 7, 10)),
        # Windows over time: what comes after the sequence, from its last state.
        (sequences(9, 5, label=(4,), classes=None), {}, (3, 4)),
        (sequences(9, label=(4,), classes=None), {"units": (4, 4)}, (3, 4)),
        (sequences(4, 5, label=(4,), classes=None), {"each": False}, (3, 4)),
        (sequences(4, 5, label=(4,), classes=None), {}, (3, 4, 1)),
    ],
)
def test_the_lstm_predicts_a_class_or_a_number_from_tokens_or_numbers(data, params, shape):
    assert lstm.build(data, **params)(np.ones((3, *data.input_shape), np.float32)).shape == shape


@pytest.mark.parametrize(
    ("data", "params", "message"),
    [
        (
            sequences(2, 3, 4),
            {},
            r"lstm needs sequences \[length\(, features\)\], not rows of shape \[2, 3, 4\]",
        ),
        (sequences(7, label=(6,)), {}, r"a label of shape \[6\] has not one value for each of 7 positions"),
        (sequences(7), {"each": True}, r"a label of shape \[\] has not one value for each of 7 positions"),
        (sequences(7, label=(6,), classes=None), {"each": True}, "not one value for each of 7"),
        (sequences(7), {"embedding": 5}, "an embedding needs to know how many tokens there are"),
    ],
)
def test_what_the_lstm_will_not_take(data, params, message):
    with pytest.raises(ValueError, match=message):
        lstm.build(data, **params)


def test_what_a_builder_is_told():
    assert (images(4, 4).outputs, images(4, 4).activation) == (10, "softmax")
    assert (NUMBER.outputs, NUMBER.activation) == (1, "linear")
    several = DataDescription({"a": (3,), "b": (2,)}, None, (), 100)
    with pytest.raises(ValueError, match=r"has 2 tensors \(a, b\), not one"):
        _ = several.input_shape
