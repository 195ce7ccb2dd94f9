"""What a Keras model is, in any session."""

import copy

import h5py
import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest

from sparksplit.model.custom_objects import saved
from sparksplit.model.model_identity import (
    called,
    digest_of_weights,
    has_code,
    identity_of,
    is_automatic,
    normalised,
    outputs,
    policies,
)
from sparksplit.model.own_model import _compiled, _config, _weights


def parts_of(model):
    content = saved(model)
    config = _config(content, "m")
    return config, _weights(content, "m"), _compiled(config.get("compile_config"))


def branched(width=5, name=None):
    keras.utils.set_random_seed(3)
    given = keras.layers.Input((4,))
    left, right = (keras.layers.Dense(width, "relu")(given) for _ in range(2))
    x = keras.layers.Softmax()(keras.layers.Dropout(0.3)(left + right))
    return keras.Model(given, keras.layers.Dense(3, "softmax")(x), name=name)


def test_automatic_names_are_no_part_of_a_model():
    one = parts_of(branched())
    for _ in range(3):
        keras.layers.Dense(1), keras.layers.Softmax(), keras.layers.Input((1,))
    other = parts_of(branched())
    assert one[0] != other[0]
    assert identity_of(*one) == identity_of(*other)


@pytest.mark.parametrize("changed", [lambda: branched(6), lambda: branched(name="mine")])
def test_another_model_is_another(changed):
    assert identity_of(*parts_of(branched())) != identity_of(*parts_of(changed()))


def test_one_other_weight_is_another_model():
    model = branched()
    before = identity_of(*parts_of(model))
    weights = model.get_weights()
    weights[1][2] = np.nextafter(weights[1][2], 1)
    model.set_weights(weights)
    assert identity_of(*parts_of(model)) != before


@pytest.mark.parametrize("changed", [{"optimizer": "sgd"}, {"loss": "mae"}, {"metrics": ["mse"]}])
def test_compiled_values_are_part_of_a_model(changed):
    identities = []
    for compiled in ({}, {}, changed):
        model = branched()
        model.compile(
            **{"optimizer": "adam", "loss": "mse", "metrics": [keras.metrics.MeanAbsoluteError()], **compiled}
        )
        identities.append(identity_of(*parts_of(model)))
    assert identities[0] == identities[1] != identities[2]


def test_the_optimizer_is_no_part_of_the_weights():
    model = branched()
    _, before, _ = parts_of(model)
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    _, after, _ = parts_of(model)
    assert before != after and digest_of_weights(before) == digest_of_weights(after)


@hypothesis.given(st.lists(st.integers(0, 999), min_size=4, max_size=4, unique=True), st.integers(1, 2**40))
def test_any_numbers_of_automatic_names_are_the_same_model(numbers, shared):
    def layer(kind, number, before):
        name = f"{kind.lower()}_{number}" if number else kind.lower()
        history = [{"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": [before, 0, 0]}}]}]
        policy = {"class_name": "DTypePolicy", "config": {"name": "float32"}, "shared_object_id": shared}
        config = {"name": name, "activation": "softmax", "dtype": policy}
        return {"class_name": kind, "name": name, "config": config, "inbound_nodes": history if before else []}

    def model(some, id_):
        layers, before = [], None
        for kind, number in zip(("Dense", "Softmax", "Dense", "Dense"), some, strict=True):
            layers.append(layer(kind, number, before))
            before = layers[-1]["name"]
        inner = {"name": "functional_7", "layers": layers, "output_layers": [before, 0, 0]}
        found = {"class_name": "Functional", "config": inner, "compile_config": {"date": id_}}
        return copy.deepcopy(found)

    assert normalised(model(numbers, 1)) == normalised(model([0, 0, 1, 2], 2))
    inner = normalised(model(numbers, 1))["config"]["layers"]
    assert [each["config"]["activation"] for each in inner] == ["softmax"] * 4  # no layer's name, whatever it says
    assert len({each["name"] for each in inner}) == 4


@pytest.mark.parametrize(
    ("kind", "name", "automatic"),
    [
        ("Dense", "dense", True),
        ("Dense", "dense_12", True),
        ("BatchNormalization", "batch_normalization_1", True),
        ("InputLayer", "input_layer", True),
        ("InputLayer", "numbers", False),
        ("Dense", "dense_out", False),
    ],
)
def test_names_that_keras_gives(kind, name, automatic):
    assert is_automatic(kind, name) == automatic


def test_a_model_is_called_by_its_name_or_its_kind():
    assert called(parts_of(branched(name="mine"))[0]) == "mine"
    assert called(parts_of(branched())[0]) == "functional"


def test_outputs_code_and_float_types():
    given = keras.layers.Input((4,))
    two = keras.Model(given, [keras.layers.Dense(2)(given), keras.layers.Dense(2, dtype="mixed_float16")(given)])
    config, *_ = parts_of(two)
    assert (outputs(config), has_code(config), policies(config)) == (2, False, {"float32", "mixed_float16"})
    coded = keras.Sequential([given, keras.layers.Lambda(lambda x: x + 1)])
    config, *_ = parts_of(coded)
    assert (outputs(config), has_code(config)) == (None, True)
    assert outputs(parts_of(branched())[0]) == 1


def test_arrays_count_by_place_shape_and_value(tmp_path):
    def digest(**arrays):
        with h5py.File(tmp_path / "w.h5", "w") as file:
            for place, array in arrays.items():
                file[place.replace("__", "/")] = array
        return digest_of_weights((tmp_path / "w.h5").read_bytes())

    a = np.arange(6.0)
    found = [digest(x=a), digest(y=a), digest(x=a.reshape(2, 3)), digest(x=a.astype("f4")), digest(x=a, z__v=a)]
    assert len(set(found)) == 5 and digest(x=a, optimizer__v=a) == found[0]
