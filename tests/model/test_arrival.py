"""A model of the session that would reach the nodes changed is refused on the driver."""

import keras
import numpy as np
import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.model import build, metric_kinds, own_metrics
from sparksplit.model.own_model import OwnModelError, found, given
from tests.model.test_own_model import config_of, doubled, model_of, on_a_node, parts

SPARSE = "sparse_categorical_crossentropy"


def sparse(labels, outputs):
    return keras.losses.sparse_categorical_crossentropy(labels, outputs)


class OwnLoss(keras.losses.Loss):
    def __init__(self, a=1.0, **named):
        super().__init__(**named)
        self.a = a

    def call(self, labels, outputs):
        return self.a * sparse(labels, outputs)


class WholeLoss(OwnLoss):
    def get_config(self):
        return {**super().get_config(), "a": self.a}


class OwnOptimizer(keras.optimizers.SGD):
    pass


class OwnRate(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate

    def get_config(self):
        return {"rate": self.rate}


class OwnMetric(keras.metrics.SparseCategoricalAccuracy):
    pass


class Ones(keras.initializers.Initializer):
    def __call__(self, shape, dtype=None):
        return keras.ops.ones(shape, dtype)


class Stepped(keras.Model):
    def __init__(self, **named):
        super().__init__(**named)
        self.inner = keras.layers.Dense(3)

    def call(self, x):
        return self.inner(x)


class OwnStep(Stepped):
    def train_step(self, data):
        raise AssertionError


class Forgetful(keras.layers.Layer):
    def call(self, x):
        return x * getattr(self, "by", 1.0)


def refused(model, message):
    with pytest.raises(OwnModelError, match=message):
        given(model)


def test_a_training_step_of_its_own():
    refused(OwnStep(), r"has its own train_step, which the nodes would not call; use loss=")


def test_a_functions_model_with_a_training_step_of_its_own(tmp_path):
    own = given(lambda data: OwnStep())
    with pytest.raises(ConfigError, match=r"^model.build: .* has its own train_step, which the nodes would not call"):
        on_a_node(own, tmp_path)


def test_a_frozen_layer_that_would_thaw():
    model = Stepped()
    model(np.ones((1, 4), "float32"))
    assert given(model).kind == "keras.Model"
    model.inner.trainable = False
    refused(model, r"^\S*kernel of \w+ has trainable=False, but trainable=True after the model is loaded again")
    model = model_of(keras.layers.Dense(4))
    model.layers[0].kernel.trainable = False
    refused(model, r"^\S*kernel of \w+ has trainable=False, but trainable=True")
    model = model_of(keras.layers.Dense(4, trainable=False))
    assert given(model).identity != given(model_of(keras.layers.Dense(4))).identity


def test_an_attribute_that_is_not_sent():
    layer = Forgetful()
    layer.by = 3.0
    refused(model_of(layer), r"gives other outputs after it is loaded again; its layers need a get_config")


def test_a_lambda_whose_names_do_not_travel():
    refused(model_of(keras.layers.Lambda(lambda x: doubled(x) + 1)), r"again.*name 'doubled' is not defined")


def test_two_functions_of_one_name():
    def made(by):
        def act(x):
            return x * by

        return act

    dense = keras.layers.Dense
    refused(model_of(dense(4, made(2.0)), dense(4, made(5.0))), r"^the model has two different .* called 'act'; give")
    assert given(model_of(dense(4, made(2.0)), dense(4, made(2.0)))).names == {"act"}
    with keras.saving.CustomObjectScope({"act": made(5.0)}):  # an older function of the same name
        keras.saving.get_custom_objects()["act"] = made(7.0)
        try:
            own = given(model_of(dense(4, made(2.0))))
        finally:
            del keras.saving.get_custom_objects()["act"]
    assert own.names == {"act"}


def test_unregistered_classes_arrive(tmp_path):
    layer = keras.layers.Dense(4, kernel_initializer=Ones())
    own = given(model_of(layer, optimizer=OwnOptimizer(OwnRate(0.25)), loss=WholeLoss(3.0), metrics=[OwnMetric()]))
    assert {"Ones", "OwnOptimizer", "OwnRate", "WholeLoss", "OwnMetric"} <= own.names
    config = config_of(own)
    assert config.loss == {"name": "WholeLoss", "a": 3.0} and config.metrics == ["OwnMetric"]
    model = on_a_node(own, tmp_path, config)
    _, data, inputs = parts()
    assert build.build_optimizer(config)._learning_rate.rate == 0.25
    assert build.build_loss(config, data, model, inputs) and build.build_metrics(config, data, model, inputs)


def test_arguments_that_get_config_leaves_out():
    refused(model_of(optimizer="sgd", loss=OwnLoss(3.0)), r"^loss: OwnLoss has a=3.0, but 1.0 after it is made again")
    own = given(model_of(optimizer="sgd", loss=[keras.losses.Huber(delta=2.0)]))
    assert own.compiled.loss == {"name": "Huber", "delta": 2.0}


@pytest.mark.parametrize("name", ["sgd", "rmsprop", "adafactor"])
def test_a_model_that_has_been_fitted(name):
    model = model_of(optimizer=name, loss=SPARSE, metrics=["accuracy", OwnMetric()])
    model.fit(np.ones((2, 4)), np.zeros(2), verbose=0)
    assert given(model).compiled.metrics == ["accuracy", "OwnMetric"]


def test_variables_without_weight_decay():
    optimizer = keras.optimizers.AdamW()
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    refused(model_of(optimizer=optimizer, loss=SPARSE), r"^optimizer.exclude_from_weight_decay is not supported")


def test_arguments_of_loss_scaling():
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=8.0)
    refused(model_of(optimizer=scaled, loss=SPARSE), r"LossScaleOptimizer has initial_scale=8.0, but 32768")


def test_an_own_metric_with_a_name_of_ours():
    def accuracy(labels, outputs):
        return keras.ops.zeros_like(labels)

    refused(model_of(optimizer="sgd", loss=SPARSE, metrics=[accuracy]), r"^metric 'accuracy' is your own, ")


def test_the_names_of_our_metrics():
    assert {*own_metrics._OURS, "accuracy"} == {*metric_kinds.REPLACED}


def test_one_call_does_not_take_away_anothers_model():
    model = model_of()
    first, second = given(model), given(model)
    name = first.name
    assert second is first
    del second
    assert found(name) is first
