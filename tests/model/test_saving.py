"""Whether a model can be saved and loaded is known before it is trained."""

import random
import re
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.errors import ConfigError, Passing
from sparksplit.base.user_functions import load
from sparksplit.model import build, saving
from tests.model.parts import parts

FILE = """
import keras
import numpy as np
import tensorflow as tf
from keras.layers import Add, Input, Multiply

class Known(keras.layers.Layer):
    def __init__(self, by=2.0, **more):
        super().__init__(**more)
        self.by = by
    def call(self, x):
        return x * self.by

@keras.saving.register_keras_serializable("mine")
class Registered(Known):
    pass

class Whole(keras.Model):
    def __init__(self, dense, **more):
        super().__init__(**more)
        self.dense = dense
    def call(self, x):
        return self.dense(x)

class Drawn(keras.layers.Layer):
    def build(self, shape):
        self.add_weight(shape=(4,), initializer=lambda shape, dtype=None: np.random.normal(size=shape))
    def call(self, x):
        return x * self.weights[0]

class Untold(Known):
    def __init__(self, thing):
        super().__init__(name="untold")

class Loose(keras.layers.Layer):
    def call(self, x):
        return x + TABLE.lookup(tf.cast(x, tf.int64))

TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([1], tf.int64), [2.0]), 0.0)

def looked_up(x):
    return x + TABLE.lookup(tf.cast(x, tf.int64))

def doubled(x):
    return 2 * x

def within():
    class Local(Known):
        pass
    return Local(name="local")

def model(*layers):
    inner = keras.Sequential([keras.layers.Input((4,)), *layers], name="inner")
    return keras.Sequential([keras.layers.Input((4,)), inner, keras.layers.Dense(3)])

def summed():
    given = Input((4,))
    return keras.Model(given, keras.layers.Dense(3)(given * 2 + Add()([given, Multiply()([given, given])])))

class Lost(Known):
    def get_config(self):
        return {"words": open("/nowhere/words.txt").read()}

class Made(Known):
    def get_config(self):
        return {"folder": __import__("os").mkdir("/")}

def build(data, what):
    return eval(what)
"""


def tried(tmp_path, what, scratch="scratch"):
    (tmp_path / "scratch").mkdir(exist_ok=True)
    config, data, inputs = parts(model={"build": "m.py:build", "params": {"what": what}})
    return build.build_model(config, FILE, data, inputs, scratch and str(tmp_path / scratch))


@pytest.mark.parametrize(
    "what",
    [
        "model(keras.layers.BatchNormalization(), keras.layers.Dropout(0.5))",
        "model(Known(3.0), Registered(4.0))",
        "model(Drawn())",
        "summed()",
        "model(keras.layers.Dense(4, doubled), keras.layers.Lambda(doubled))",
    ],
)
def test_what_the_builders_file_supplies_is_saved_and_loaded(tmp_path, what):
    drawn = []
    for scratch in (None, "scratch"):
        random.seed(1)
        np.random.seed(1)
        model = tried(tmp_path, what, scratch)
        drawn.append((random.random(), np.random.random()))
    assert drawn[0] == drawn[1], "what comes after is as without a trial"
    assert list((tmp_path / "scratch").iterdir()) == []
    file = tmp_path / "model.keras"
    model.save(file)
    loaded = saving.load(file, saving.supplied(load("m.py:build", FILE)))
    for ours, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("model(Untold(object()))", "'untold' (Untold) cannot be saved and loaded again, so the trained model"),
        ("model(keras.layers.Lambda(lambda x: x, name='two'))", "'two' (Lambda) cannot be saved and loaded again"),
        ("model(keras.layers.Dense(4, lambda x: x, name='three'))", "'three' (Dense) cannot be saved and loaded again"),
        ("model(within())", "'local' (Local) cannot be saved and loaded again"),
        ("Whole(keras.layers.Dense(3), name='whole')", "'whole' (Whole) cannot be saved and loaded again"),
        ("model(Lost(name='lost'))", "'lost' (Lost) cannot be saved and loaded again"),
        ("model(Made(name='made'))", "'made' (Made) cannot be saved and loaded again"),
        ("model(Loose())", "cannot be exported as a SavedModel: Tried to export a function which references"),
        ("model(keras.layers.Lambda(looked_up))", "cannot be exported as a SavedModel: Tried to export a function"),
        ("model(keras.layers.Dense(4, looked_up))", "cannot be exported as a SavedModel: Tried to export a function"),
    ],
)
def test_what_cannot_be_saved_is_told_before_training(tmp_path, what, problem):
    with pytest.raises(ConfigError, match=re.escape(f"model.build: m.py:build: {problem}")) as caught:
        tried(tmp_path, what)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 700
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("what", "tries"),
    [
        ("model(keras.layers.BatchNormalization(), keras.layers.Dense(4, 'relu', kernel_initializer='he_normal'))", 0),
        ("model(keras.layers.Reshape((2, 2)), keras.layers.Bidirectional(keras.layers.LSTM(4)))", 0),
        ("model(keras.layers.Dense(4, tf.nn.relu), keras.layers.Lambda(tf.math.square))", 0),
        ("model(keras.layers.Activation(doubled))", 1),
        ("model(keras.layers.Reshape((2, 2)), keras.layers.LSTM(4, doubled))", 1),
    ],
)
def test_an_export_is_tried_only_where_a_layer_has_the_users_code(tmp_path, monkeypatch, what, tries):
    """It takes several times as long as the rest."""
    tried_of = []
    monkeypatch.setattr(saving, "_try_export", lambda *_: tried_of.append(what))
    monkeypatch.setattr(saving, "load", lambda *_: None)
    tried(tmp_path, what)
    assert len(tried_of) == tries


class Callable:
    """An activation with numbers of its own, say."""

    def __call__(self, x):
        return x


def test_a_users_code_is_found_behind_partials_and_in_objects():
    layer = keras.layers.Dense(4)
    for own in (partial(partial(tried, 1), 2), Callable()):
        layer.activation = own
        assert saving._has_own_code(layer)
    for library in (partial(tf.nn.leaky_relu, alpha=0.1), keras.activations.relu):
        layer.activation = library
        assert not saving._has_own_code(layer)


def test_a_full_disk_is_no_fault_of_the_models(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("keras.Sequential.save", full)
    with pytest.raises(Passing, match="cannot be written: No space left"):
        tried(tmp_path, "model()")
