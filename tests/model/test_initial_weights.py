"""Weights of one model's file for another model, layer by layer."""

import keras
import numpy as np
import pytest

from sparksplit.base.errors import InputError
from sparksplit.model.initial_weights import digest_of, take, weights_in


@pytest.fixture(autouse=True)
def names_begin_anew():
    """Keras numbers the names that it gives; each model of these tests is the first one."""
    keras.backend.clear_session()


def network(units=3, extra=False, last="out"):
    keras.backend.clear_session()
    given = keras.Input((4,))
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(units)(given))
    hidden = keras.layers.Dropout(0.5)(hidden)
    if extra:
        hidden = keras.layers.Dense(units, name="extra")(hidden)
    return keras.Model(given, keras.layers.Dense(2, name=last)(hidden))


def saved(tmp_path, model, name="saved"):
    model.save(tmp_path / f"{name}.keras")
    return weights_in(f"{tmp_path}/{name}.keras")


def same(one, other, layer):
    pairs = zip(one.get_layer(layer).weights, other.get_layer(layer).weights, strict=True)
    return [bool(np.array_equal(a, b)) for a, b in pairs]


def test_layers_of_the_same_name_and_shapes_are_taken_and_the_others_left(tmp_path):
    trained, model = network(), network(extra=True)
    trained.get_layer("batch_normalization").moving_mean.assign([1.0, 2.0, 3.0])
    before = model.get_layer("extra").kernel.numpy()
    taken = take(model, saved(tmp_path, trained), str(tmp_path))
    assert (sorted(taken.layers), taken.fresh) == (["batch_normalization", "dense", "out"], ["extra"])
    assert same(trained, model, "dense") == same(trained, model, "out") == [True, True]
    assert model.get_layer("batch_normalization").moving_mean.numpy().tolist() == [1, 2, 3]
    np.testing.assert_array_equal(model.get_layer("extra").kernel, before)
    assert [path.name for path in tmp_path.iterdir()] == ["saved.keras"]


def test_a_resumed_run_only_learns_which_layers_they_were(tmp_path):
    trained, model = network(), network()
    taken = take(model, saved(tmp_path, trained), str(tmp_path), apply=False)
    assert sorted(taken.layers) == ["batch_normalization", "dense", "out"] and taken.fresh == []
    assert same(trained, model, "dense") == [False, True]  # biases are zeros in both


def test_nothing_to_take_is_an_error_and_changes_nothing(tmp_path):
    trained, model = network(units=5), network(last="head")
    before = [array.copy() for array in model.get_weights()]
    message = r"The file has .*dense \[4, 5\] \[5\].*, this model has .*dense \[4, 3\] \[3\]"
    with pytest.raises(ValueError, match=message):
        take(model, saved(tmp_path, trained), str(tmp_path))
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="its weights are not HDF5"):
        take(model, b"no weights", str(tmp_path))


def test_models_within_models_are_taken_apart_and_other_layers_are_whole(tmp_path):
    def built(units):
        keras.backend.clear_session()
        inner = keras.Sequential([keras.Input((4, 2)), keras.layers.LSTM(3), keras.layers.Dense(units)], name="inner")
        given = keras.Input((4, 2))
        return keras.Model(given, keras.layers.Dense(2, name="out")(inner(given)))

    trained, model = built(5), built(6)
    taken = take(model, saved(tmp_path, trained), str(tmp_path))
    assert (taken.layers, sorted(taken.fresh)) == (["lstm"], ["dense", "out"])
    assert same(trained.get_layer("inner"), model.get_layer("inner"), "lstm") == [True] * 3


def test_layers_of_one_name_in_different_models_go_by_their_turn(tmp_path):
    def built():
        keras.backend.clear_session()
        parts = [
            keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="same")], name=name) for name in ("a", "b")
        ]
        given = keras.Input((2,))
        return keras.Model(given, parts[1](parts[0](given)))

    trained, model = built(), built()
    taken = take(model, saved(tmp_path, trained), str(tmp_path))
    assert (taken.layers, taken.fresh) == (["same", "same (2)"], [])
    for one, other in zip(trained.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_model_of_another_float_type_takes_them_too(tmp_path, request):
    weights = saved(tmp_path, trained := network())
    request.getfixturevalue("float64")
    take(model := network(), weights, str(tmp_path))
    kernel = model.get_layer("out").kernel.numpy()
    assert kernel.dtype == np.float64
    np.testing.assert_array_equal(kernel, trained.get_layer("out").kernel.numpy())


def test_the_digest_is_that_of_the_weights(tmp_path):
    model = network()
    one, again = saved(tmp_path, model, "one"), saved(tmp_path, model, "two")
    model.get_layer("out").bias.assign([0.0, 1.0])
    assert digest_of(one) == digest_of(again) != digest_of(saved(tmp_path, model, "three"))


def test_what_is_no_model_file_is_named(tmp_path):
    (tmp_path / "model.keras").write_text("no archive")
    with pytest.raises(InputError, match=r"model\.keras: is not a Keras model file \(\.keras\)"):
        weights_in(f"{tmp_path}/model.keras")
