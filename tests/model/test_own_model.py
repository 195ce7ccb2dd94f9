"""The user's own model: what is sent, what is refused, and what a node makes of it."""

import importlib
import re
import sys
import zipfile
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from hdfs_io import filesystem
from sparksplit.api.results import TrainedRun
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError, RunError
from sparksplit.model import build, keras_names, needs, own_model
from sparksplit.model.own_model import OwnModelError, code_of, found, given, is_object, opened, received
from sparksplit.training.own_models import with_compiled
from sparksplit.training.train_config import TrainConfig
from tests.model.parts import parts


@keras.saving.register_keras_serializable("mine")
class Scaled(keras.layers.Layer):
    def __init__(self, by=2.0, **named):
        super().__init__(**named)
        self.by = by

    def call(self, x):
        return x * self.by

    def get_config(self):
        return {**super().get_config(), "by": self.by}


class Unregistered(Scaled):
    pass


def doubled(x):
    return 2 * x


def own_loss(labels, outputs):
    return keras.losses.sparse_categorical_crossentropy(labels, outputs)


def model_of(*layers, units=3, **compiled):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.layers.Input((4,)), *layers, keras.layers.Dense(units, "softmax")])
    if compiled:
        model.compile(**compiled)
    return model


def config_of(own, **keys):
    config, _ = with_compiled(parse(TrainConfig, {"data": "d", "output": "o", "model": {"build": own.name}, **keys}))
    return config


def on_a_node(own, scratch, config=None):
    _, data, inputs = parts()
    return build.build_model(config or config_of(own), own.sent(None), data, inputs, str(scratch))


def test_a_model_arrives_with_its_weights(tmp_path):
    model = model_of(Scaled(3.0), Unregistered(), keras.layers.Dense(4, doubled), keras.layers.Lambda(lambda x: x + 1))
    arrived = on_a_node(given(model), tmp_path)
    rows = np.random.default_rng(0).random((5, 4))
    assert np.array_equal(model(rows), arrived(rows))


def test_a_model_that_is_not_built_yet_is_built_on_the_nodes(tmp_path):
    own = given(keras.Sequential([keras.layers.Dense(3)]))
    assert [each.shape for each in on_a_node(own, tmp_path).get_weights()] == [(4, 3), (3,)]


def test_own_losses_and_metrics_arrive(tmp_path):
    own = given(model_of(optimizer="adam", loss=own_loss, metrics=["acc", own_loss]))
    config = config_of(own)
    assert (config.loss, config.metrics) == ("own_loss", ["accuracy", "own_loss"])
    keras_names.check(config, {}, own.names)
    _, data, inputs = parts()
    model = on_a_node(own, tmp_path, config)
    losses = build.build_loss(config, data, model, inputs)(tf.constant([0, 1]), tf.constant([[0.5, 0.3, 0.2]] * 2))
    np.testing.assert_allclose(losses, -np.log([0.5, 0.3]), rtol=1e-6)
    metrics = build.build_metrics(config, data, model, inputs)
    assert list(metrics) == ["accuracy", "own_loss"]
    assert type(build.build_optimizer(config)) is keras.optimizers.Adam


def test_a_function_arrives_with_what_it_uses(tmp_path):
    def made(data, units=WIDTH):
        return model_of(Unregistered(), keras.layers.Dense(units), units=data.outputs)

    own = given(made)
    assert re.fullmatch("function:made@[0-9a-f]{16}", own.name) and is_object(own.name)
    config = config_of(own)
    assert on_a_node(own, tmp_path, config).layers[-2].units == WIDTH
    _, data, _ = parts()
    needs.check(config, None, data, own)
    wrong = config_of(own, model={"build": own.name, "params": {"unit": 3}})
    with pytest.raises(ConfigError, match=r"^model.params.unit: .* has no such argument; did you mean 'units'"):
        needs.check(wrong, None, data, own)


WIDTH = 6


def test_a_function_must_take_the_data():
    own = given(lambda data: None)
    needs.check(config_of(own), None, parts()[1], own)  # a lambda's source is no statement of its own

    def made(*, width=3):
        return None

    with pytest.raises(OwnModelError, match=r"^made must take the description of the data .*: def made\(data\)$"):
        given(made)
    with pytest.raises(OwnModelError, match=r"^<lambda> must take .*: lambda data: \.\.\.$"):
        given(lambda: None)


def test_params_are_for_functions():
    own = given(model_of())
    config = config_of(own, model={"build": own.name, "params": {"width": 3}})
    with pytest.raises(ConfigError, match=r"^model.params: keras.Model:sequential@\w+ is a model, which takes no"):
        needs.check(config, None, parts()[1], own)


def test_the_same_model_is_called_the_same_in_any_session():
    assert given(model_of(Scaled())).name == given(model_of(Scaled())).name != given(model_of(Scaled(3.0))).name


def test_a_file_is_a_model(tmp_path):
    model = model_of(optimizer="adam", loss="sparse_categorical_crossentropy")
    model.save(tmp_path / "m.keras")
    own = opened(f"{tmp_path}/m.keras")
    assert own.compiled.optimizer["name"] == "Adam" and own.kind == "file"
    assert own.identity == given(model).identity
    rows = np.ones((2, 4))
    assert np.array_equal(on_a_node(own, tmp_path)(rows), model(rows))


def test_a_model_that_is_compiled_again_has_its_new_values_while_the_first_call_lasts(tmp_path):
    model = model_of(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    first = given(model)
    model.compile("sgd", "sparse_categorical_crossentropy")
    second = given(model)
    assert (config_of(first).metrics, config_of(first).optimizer.name) == (["accuracy"], "Adam")
    assert (config_of(second).metrics, config_of(second).optimizer.name) == (None, "SGD")
    file = f"{tmp_path}/m.keras"
    model.save(file)
    opened_first = opened(file)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.save(file)
    assert opened_first.compiled.optimizer["name"] == "SGD" and opened(file).compiled.optimizer["name"] == "Adam"


def test_a_file_in_use_is_read_once(tmp_path, monkeypatch):
    model_of().save(tmp_path / "m.keras")
    own = opened(f"{tmp_path}/m.keras")
    monkeypatch.setattr(own_model, "read", None)
    assert found(f"{tmp_path}/m.keras") is own


def test_code_in_another_users_file_needs_trust(tmp_path, monkeypatch):
    file = f"{tmp_path}/m.keras"
    model_of(keras.layers.Lambda(lambda x: x + 1)).save(file)
    assert on_a_node(opened(file), tmp_path) is not None
    content = filesystem.read_bytes(file)
    monkeypatch.setattr(own_model, "read", lambda path: (content, False))
    with pytest.raises(OwnModelError, match=r"Lambda .* code .* set model.trust: true \(--set model.trust=true\)$"):
        opened(file)
    assert opened(file, trust=True).kind == "file"


def test_code_in_another_users_run_needs_trust(tmp_path, monkeypatch):
    (tmp_path / "own_model").mkdir()
    (tmp_path / "own_model" / "model.zip").write_bytes(given(model_of(Scaled())).content)
    assert code_of(str(tmp_path), trust=False)["mine>Scaled"].__name__ == "Scaled"
    (tmp_path / "own_model" / "model.zip").chmod(0o666)
    with pytest.raises(InputError, match=r"may be another user's; trust=True runs it$"):
        code_of(str(tmp_path), trust=False)
    assert code_of(str(tmp_path), trust=True)
    assert code_of(f"{tmp_path}/none", trust=False) is None


def test_a_node_runs_only_what_its_driver_has_sent(tmp_path):
    class Fence:
        folder = str(tmp_path)

        def write_bytes(self, path, content):
            filesystem.write_bytes(path, content)

    sent = given(model_of(Scaled())).sent(Fence())
    assert received(sent).model
    (file,) = tmp_path.rglob("model.zip")
    file.write_bytes(given(model_of(Scaled(3.0))).content)
    with pytest.raises(RunError, match=r"model.zip: has changed since the run began"):
        received(sent)


@pytest.mark.parametrize("is_builder", [True, False])
def test_a_run_whose_files_others_can_write_runs_no_code(tmp_path, monkeypatch, is_builder):
    run = tmp_path / "run"
    (run / "own_model").mkdir(parents=True)
    text = "import keras\nclass Mine(keras.layers.Layer):\n    call = lambda self, x: x\ndef build(data): pass\n"
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    own = given(model_of(importlib.import_module("mine").Mine()))
    monkeypatch.setitem(sys.modules, "mine", None)  # the next session has no such module
    (run / "own_model" / "model.zip").write_bytes(own.content)
    (run / "model.keras").write_bytes(own.model)
    name = f"{tmp_path}/mine.py:build" if is_builder else own.name
    trained = TrainedRun(str(run), SimpleNamespace(config={"model": {"build": name}}))
    files = [run / "run.json", run / "model.keras", *([tmp_path / "mine.py"] if is_builder else [])]
    (run / "run.json").write_text("{}")
    for file in files:
        file.chmod(0o644)
    assert len(trained.model().layers) == 2
    for file in files:
        file.chmod(0o666)
        with pytest.raises(InputError, match=r"model.keras: needs Python code that may be another user's; trust=True"):
            trained.model()
        assert len(trained.model(trust=True).layers) == 2
        file.chmod(0o644)


def test_a_package_that_is_missing_where_a_run_is_read_is_named(tmp_path, monkeypatch):
    def gone(code):
        raise ModuleNotFoundError("No module named 'mine'")

    (tmp_path / "own_model").mkdir()
    (tmp_path / "own_model" / "model.zip").write_bytes(given(model_of(Scaled())).content)
    monkeypatch.setattr(own_model, "unpickled", gone)
    with pytest.raises(OwnModelError, match=r"^its code cannot be loaded here: ModuleNotFoundError: .*named 'mine'$"):
        code_of(str(tmp_path), trust=True)


@pytest.mark.parametrize(
    ("config", "weights", "message"),
    [
        ("{bad", b"", r"is not a Keras model file \(.keras\)$"),
        ("{}", b"none", "is damaged: its weights cannot be read"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, config, weights, message):
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", weights)
    with pytest.raises(OwnModelError, match=f"m.keras: {message}"):
        opened(f"{tmp_path}/m.keras")


def test_a_compiled_value_that_no_key_takes():
    own = given(model_of(optimizer=keras.optimizers.SGD(0.0), loss="mse"))
    with pytest.raises(ConfigError, match=r"^optimizer.learning_rate: the compiled model has 0.0: "):
        config_of(own)


def test_a_package_that_a_node_lacks_is_named(tmp_path, monkeypatch):
    def gone(code):
        raise ModuleNotFoundError("No module named 'mine'")

    own = given(model_of(Scaled()))
    monkeypatch.setattr(own_model, "unpickled", gone)
    with pytest.raises(ConfigError, match=r"^model.build: its code cannot be loaded on the nodes: .*named 'mine'$"):
        on_a_node(own, tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, r"^must be a keras.Model, a function that returns one, .* \(is int\)$"),
        (keras.layers.Dense, r"\(is type\)$"),
    ],
)
def test_what_is_no_model(value, message):
    with pytest.raises(OwnModelError, match=message):
        given(value)


def test_several_outputs_are_refused():
    x = keras.layers.Input((4,))
    with pytest.raises(OwnModelError, match=r"^functional has 2 outputs; exactly one is supported$"):
        given(keras.Model(x, [keras.layers.Dense(3)(x), keras.layers.Dense(3)(x)]))


def test_a_function_that_holds_an_object_is_refused_by_the_objects_name():
    scaler = threading_lock()

    def made(data):
        return scaler

    with pytest.raises(OwnModelError, match=r"^scaler \(in made\) is a lock, "):
        given(made)


def threading_lock():
    import threading

    return threading.Lock()


def test_a_name_of_another_session_is_explained(tmp_path):
    with pytest.raises(OwnModelError, match=r"is a model of a Python session; give the object itself, as model=$"):
        opened("keras.Model:gone@0123456789abcdef")
    with pytest.raises(OwnModelError, match=r"does not exist"):
        opened(f"{tmp_path}/gone.keras")
    (tmp_path / "text.keras").write_text("no archive")
    with pytest.raises(OwnModelError, match=r"text.keras: is not a Keras model file \(.keras\)$"):
        opened(f"{tmp_path}/text.keras")
    assert opened("mlp") is None and opened("m.py:build") is None


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"optimizer": {"learning_rate": 0.5}}, "optimizer.learning_rate: is 0.5, but the model has 0.001"),
        ({"optimizer": {"name": "sgd"}}, "optimizer.name: is sgd, but the model has Adam"),
        ({"optimizer": {"clipnorm": 1.0}}, "optimizer.clipnorm: is 1.0, but the model has None"),
        ({"loss": "kl_divergence"}, "loss: is kl_divergence, but the model has sparse_categorical_crossentropy"),
        ({"metrics": ["mae"]}, r"metrics: is \['mae'\], but the model has \['accuracy'\]"),
        ({"dtype": "float64"}, "dtype: is float64, but the model has float32"),
    ],
)
def test_a_key_with_another_value_than_the_model_names_both(keys, key):
    own = given(model_of(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"]))
    with pytest.raises(ConfigError, match=f"^{key}; leave out the key, or change the model$"):
        config_of(own, **keys)


def test_a_key_with_the_models_value_is_no_contradiction():
    own = given(model_of(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["acc"]))
    keys = {"optimizer": {"name": "adam", "learning_rate": 0.001}, "loss": "sparse_categorical_crossentropy"}
    assert config_of(own, **keys, metrics=["accuracy"], dtype="float32").optimizer == config_of(own).optimizer
    assert config_of(own).optimizer.learning_rate == 0.001


def test_a_model_that_is_not_compiled_leaves_the_keys():
    own = given(model_of())
    assert config_of(own, loss="kl_divergence").loss == "kl_divergence"
    assert config_of(own).optimizer.name == "sgd"


def test_float_types():
    mixed = model_of(keras.layers.Dense(4, dtype="mixed_bfloat16"))
    assert config_of(given(mixed)).dtype == "mixed_bfloat16"
    both = given(model_of(keras.layers.Dense(4, dtype="float64")))
    with pytest.raises(ConfigError, match=r"has layers of float32, float64; all layers must have one of"):
        config_of(both)
