"""Objects of Keras in a call, as keys."""

import keras
import numpy as np
import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.model.compiled import Compiled
from sparksplit.model.custom_objects import compile_config
from sparksplit.model.keras_keys import as_keys

ADAM = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.1, 100), clipnorm=1.5)
HUBER = keras.losses.Huber(delta=2.0)
DECAY = {"name": "CosineDecay", "initial_learning_rate": 0.1, "decay_steps": 100, "alpha": 0.0, "warmup_steps": 0}


def own(labels, outputs):
    return outputs


class Mine(keras.losses.Loss):
    def call(self, labels, outputs):
        return outputs


def test_an_object_has_the_keys_of_a_model_that_is_compiled_with_it():
    metrics = ["mae", keras.metrics.MeanSquaredError(), keras.metrics.mean_absolute_percentage_error]
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(ADAM, HUBER, metrics=metrics)
    compiled = Compiled.of(compile_config(model))
    found = as_keys({"optimizer": ADAM, "loss": HUBER, "metrics": metrics, "epochs": 3})
    assert found == {
        **{"optimizer": compiled.optimizer, "loss": {"name": "Huber", "delta": 2.0}, "reduction": compiled.reduction},
        **{"metrics": compiled.metrics, "epochs": 3},
    }
    assert found["optimizer"]["learning_rate"] == DECAY and found["optimizer"]["clipnorm"] == 1.5


def test_a_function_of_keras_has_its_name():
    assert as_keys({"loss": keras.losses.mean_squared_error}) == {"loss": "mean_squared_error"}


def test_plain_values_stay_as_they_are():
    plain = {"optimizer": {"name": "sgd", "learning_rate": 0.1}, "loss": None, "metrics": ["mae"], "model": own}
    assert as_keys(plain) == plain
    for rate in (np.float32(0.5), np.int64(1)):
        assert as_keys({"optimizer.learning_rate": rate}) == {"optimizer": {"learning_rate": rate}}


def test_a_dotted_key_changes_an_object():
    found = as_keys({"optimizer": keras.optimizers.Adam(), "optimizer.learning_rate": ADAM._learning_rate})
    assert found["optimizer"]["name"] == "Adam" and found["optimizer"]["learning_rate"] == DECAY
    rate = {"name": "sgd", "learning_rate": ADAM._learning_rate}
    assert as_keys({"optimizer": rate}) == {"optimizer": {"name": "sgd", "learning_rate": DECAY}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss": own}, r"loss: must be a name, a mapping or an object of Keras \(is own\)"),
        ({"loss": Mine()}, r"loss: must be a name, .* \(is Mine\); .* compile a keras.Model with it"),
        ({"metrics": [own]}, r"metrics: must be a name or an object of Keras"),
        ({"optimizer": keras.optimizers.Adam}, r"optimizer: must be a name, .* \(is Adam\)"),
        ({"optimizer": {"learning_rate": own}}, r"optimizer.learning_rate: must be a number, a mapping or"),
        ({"metrics": [keras.metrics.BinaryAccuracy(threshold=0.7)]}, r"metrics: BinaryAccuracy\(threshold=0.7\)"),
        ({"loss": keras.losses.Huber(reduction="sum")}, r"loss: Huber with reduction 'sum' is not supported"),
        (
            {"loss": HUBER, "reduction": "mean_with_sample_weight"},
            "reduction: is mean_with_sample_weight, but the loss has sum_over_batch_size",
        ),
    ],
)
def test_an_object_without_a_key(values, message):
    with pytest.raises(ConfigError, match=message):
        as_keys(values)


def test_a_section_that_is_a_text_has_no_keys():
    for given in ({"optimizer": "adam", "optimizer.momentum": 0.5}, {"optimizer.momentum": 0.5, "optimizer": "adam"}):
        with pytest.raises(ConfigError, match=r"optimizer: is 'adam', but optimizer\.momentum is given too; give"):
            as_keys(given)
    assert as_keys({"optimizer": None, "optimizer.momentum": np.float32(0.5)}) == {"optimizer": {"momentum": 0.5}}
