"""Losses by Keras's names: one for each row, of all kinds of labels."""

import numpy as np
import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.model import build
from tests.model.parts import CLASSES, NUMBER, NUMBERS, TWO, dense, loss_of, metric_of, parts

PROBABILITIES = [[0.5, 0.25, 0.25], [0.125, 0.375, 0.5]]
CROSSENTROPY = -np.log([0.5, 0.5])


@pytest.mark.parametrize(
    "loss",
    [
        None,
        "sparse_categorical_crossentropy",
        "SparseCategoricalCrossentropy",
        {"name": "sparse_categorical_crossentropy"},
        {"name": "SparseCategoricalCrossentropy", "from_logits": False},
    ],
)
def test_one_crossentropy_per_row(loss):
    keys = {} if loss is None else {"loss": loss}
    found = loss_of(CLASSES, 3, PROBABILITIES, np.array([0, 2]), **keys)
    np.testing.assert_allclose(found, CROSSENTROPY, rtol=1e-6)


def test_logits():
    loss = {"name": "SparseCategoricalCrossentropy", "from_logits": True}
    found = loss_of(CLASSES, 3, np.log(PROBABILITIES), np.array([0, 2]), loss=loss)
    np.testing.assert_allclose(found, CROSSENTROPY, rtol=1e-6)


@pytest.mark.parametrize("loss", ["binary_crossentropy", "BinaryCrossentropy", {"name": "BinaryCrossentropy"}])
def test_one_output_for_two_classes(loss):
    found = loss_of(TWO, 1, [[0.25], [0.75]], np.array([0, 1]), loss=loss)
    np.testing.assert_allclose(found, -np.log([0.75, 0.75]), rtol=1e-5)


def test_one_output_for_two_classes_has_a_loss_of_its_own():
    found = loss_of(TWO, 1, [[0.25], [0.75]], np.array([0, 1]))
    np.testing.assert_allclose(found, -np.log([0.75, 0.75]), rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (None, [1.0, 4.0]),
        ("mse", [1.0, 4.0]),
        ("mean_squared_error", [1.0, 4.0]),
        ("MeanAbsoluteError", [1.0, 2.0]),
        ({"name": "Huber", "delta": 1.0}, [0.5, 1.5]),
    ],
)
def test_losses_of_numbers_are_not_averaged_over_rows(loss, expected):
    keys = {} if loss is None else {"loss": loss}
    found = loss_of(NUMBER, 1, [[1.0], [2.0]], np.array([2.0, 0.0], np.float32), **keys)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("loss", "expected"), [(None, [2.5, 2.0]), ("mean_absolute_error", [1.5, 1.0])])
def test_several_numbers_of_a_row_are_averaged(loss, expected):
    keys = {} if loss is None else {"loss": loss}
    found = loss_of(NUMBERS, 2, [[1.0, 2.0], [3.0, 3.0]], np.array([[2.0, 0.0], [3.0, 1.0]], np.float32), **keys)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    outputs, labels = [[1.0, 2.0], [3.0, 3.0]], np.array([[2.0, 0.0], [3.0, 1.0]], np.float32)
    assert metric_of(NUMBERS, 2, outputs, labels, None) == {"mean_absolute_error": pytest.approx(1.25)}


CLASS_NUMBERS = "loss: does not take class numbers as labels; sparse_categorical_crossentropy does"


@pytest.mark.parametrize(
    ("label", "units", "loss", "message"),
    [
        (
            NUMBERS,
            1,
            None,
            "model.build: mlp gives outputs of shape [1] per row, but the labels are numbers of shape [2]",
        ),
        (CLASSES, 7, None, "model.build: mlp has an output of 7 units, but the data set has 3 classes"),
        (CLASSES, 1, None, "model.build: mlp has an output of 1 units, but the data set has 3 classes"),
        (CLASSES, 3, "sparse_crossentropy", "loss: Keras has no 'sparse_crossentropy'; did you mean '"),
        (CLASSES, 3, {"name": "Hubert"}, "loss: Keras has no 'Hubert'; did you mean 'Huber'?"),
        (CLASSES, 3, {"name": "Huber", "dleta": 1}, "loss: Huber: "),
        (CLASSES, 3, {"delta": 1}, "loss: must have a `name`"),
        (
            TWO,
            1,
            "sparse_categorical_crossentropy",
            "loss: sparse_categorical_crossentropy needs a unit for each class",
        ),
        (TWO, 2, {"name": "BinaryCrossentropy"}, "loss: BinaryCrossentropy needs a last layer with one unit"),
        (CLASSES, 3, "categorical_crossentropy", CLASS_NUMBERS),
        (TWO, 2, "mean_squared_error", CLASS_NUMBERS),
        (TWO, 2, "hinge", CLASS_NUMBERS),
        (TWO, 2, {"name": "Huber", "delta": 2.0}, f"{CLASS_NUMBERS} (Incompatible shapes: "),
        (TWO, 2, {"name": "Circle"}, "loss: must give one value per row that depends only on that row"),
        (NUMBER, 1, "CategoricalCrossentropy", "loss: CategoricalCrossentropy needs a unit for each class; for one"),
        (TWO, 1, {"name": "Dice"}, "loss: must give one value per row that depends only on that row"),
    ],
)
def test_losses_that_will_not_do(label, units, loss, message):
    config, data, inputs = parts(label, **({} if loss is None else {"loss": loss}))
    with pytest.raises(ConfigError) as caught:
        build.build_loss(config, data, dense(units), inputs)
    text = str(caught.value)
    assert text == message if message == CLASS_NUMBERS else text.startswith(message)
    assert "\n" not in text
