"""Runs with the user's own model: an object of the session, a function, or a `.keras` file."""

from pathlib import Path

import keras
import pytest

import sparksplit
from sparksplit.base.errors import ConfigError
from sparksplit.commands import train
from tests.training.runs import without_end

KEYS = {"nodes": 2, "strategy": "batch", "epochs": 2, "batch_size": 32}
BUILDER = """
import keras

def build(data):
    keras.utils.set_random_seed(7)
    inputs = keras.layers.Input((8, 8))
    x = keras.layers.Flatten()(inputs)
    x = keras.layers.Dense(8, "relu")(x) + keras.layers.Dense(8)(x)
    return keras.Model(inputs, keras.layers.Dense(10, "softmax")(x))
"""
LOSS, METRICS = "sparse_categorical_crossentropy", ["accuracy", "sparse_top_k_categorical_accuracy"]
NAMES: dict = {}
exec(BUILDER, NAMES)


class Halved(keras.layers.Layer):
    def call(self, x):
        return x / 2


def compiled():
    model = NAMES["build"](None)
    model.compile(keras.optimizers.Adam(0.01, clipnorm=1.0), LOSS, metrics=METRICS)
    return model


@pytest.fixture(scope="module")
def of_object(zygote, digits, tmp_path_factory):
    from tests.forked import nodes_of

    with nodes_of(zygote):
        folder = tmp_path_factory.mktemp("object") / "run"
        checkpoints = {"checkpoint": {"every": "epoch"}}
        return sparksplit.train(str(digits), str(folder), model=compiled(), **KEYS, **checkpoints)


@pytest.mark.slow
def test_a_compiled_model_trains_as_a_builder_file_with_its_weights(forked, digits, of_object, tmp_path):
    (tmp_path / "mine.py").write_text(BUILDER)
    optimizer = {"name": "adam", "learning_rate": 0.01, "clipnorm": 1.0}
    same = {"model": f"{tmp_path}/mine.py:build", "optimizer": optimizer, "loss": LOSS, "metrics": METRICS}
    other = sparksplit.train(str(digits), f"{tmp_path}/run", **same, **KEYS)
    assert other.record.weights == of_object.record.weights
    assert other.test == of_object.test and list(other.test) == ["loss", *METRICS]
    assert of_object.record.config["model"]["build"].startswith("keras.Model:functional@")
    assert of_object.record.own_model in of_object.record.config["model"]["build"]
    assert other.record.own_model is None


@pytest.mark.slow
def test_the_same_model_finds_its_run_and_another_does_not(forked, digits, of_object, capsys):
    again = {**KEYS, "checkpoint": {"every": "epoch"}}
    assert sparksplit.train(str(digits), of_object.path, model=compiled(), **again).record == of_object.record
    assert "is up to date" in capsys.readouterr().err
    model = compiled()
    model.set_weights([weights + 1 for weights in model.get_weights()])
    with pytest.raises(sparksplit.UsageError, match=r"model\.build"):
        sparksplit.train(str(digits), of_object.path, model=model, **again)


@pytest.mark.slow
def test_a_later_call_goes_on_with_the_model(forked, digits, of_object, tmp_path, capsys):
    without_end(Path(of_object.path), tmp_path / "cut", 1)
    run = sparksplit.train(str(digits), f"{tmp_path}/cut", model=compiled(), **KEYS, checkpoint={"every": "epoch"})
    assert "going on from" in capsys.readouterr().err
    assert run.record.weights == of_object.record.weights


@pytest.mark.slow
def test_a_file_on_the_command_line_trains_as_the_object(forked, digits, of_object, tmp_path):
    compiled().save(tmp_path / "m.keras")
    keys = {"data": digits, "output": f"{tmp_path}/run", "model.build": f"{tmp_path}/m.keras", **KEYS}
    assert train.main([part for key, value in keys.items() for part in ("--set", f"{key}={value}")]) == 0
    run = sparksplit.TrainedRun.open(f"{tmp_path}/run")
    assert run.record.weights == of_object.record.weights
    assert run.record.own_model == of_object.record.own_model


@pytest.mark.slow
def test_a_run_of_a_function_gives_its_model_back(forked, digits, tmp_path):
    width = 5

    def build(data, factor=1):
        layers = keras.layers.Flatten(), Halved(), keras.layers.Dense(factor * width)
        return keras.Sequential([keras.layers.Input(data.input_shape), *layers, keras.layers.Dense(data.outputs)])

    keys = {"loss": {"name": "SparseCategoricalCrossentropy", "from_logits": True}, **KEYS, "nodes": {"virtual": 2}}
    model = {"build": build, "params": {"factor": 2}}
    run = sparksplit.train(str(digits), f"{tmp_path}/run", model=model, **keys)
    assert run.record.config["model"]["params"] == {"factor": 2}
    assert run.model().layers[-2].units == 10


@pytest.mark.slow
def test_a_comparison_of_an_own_model(forked, digits, tmp_path):
    keys = {"strategies": ["batch"], "nodes": [2], "seeds": 1, "epochs": 1}
    found = sparksplit.compare(str(digits), f"{tmp_path}/compared", model=compiled(), **keys)
    (run,) = found.results["runs"]
    assert run["config"]["model"]["build"].startswith("keras.Model:functional@")
    assert found.results["config"]["optimizer"]["name"] == "Adam"


@pytest.mark.slow
def test_the_pages_example(forked, digits, tmp_path, monkeypatch):
    page = (Path(__file__).parent.parent.parent / "docs" / "own-model.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    assert len(example.strip().splitlines()) == 3
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "digits").symlink_to(digits)
    monkeypatch.chdir(tmp_path)
    names = {"keras": keras, "sparksplit": sparksplit}
    exec(compile(example, "own-model.md", "exec"), names)
    assert names["run"].record.config["optimizer"]["name"] == "Adam" and names["run"].record.nodes == 2


def test_weights_come_from_one_place(digits, tmp_path):
    with pytest.raises(ConfigError, match=r"^init: keras.Model:.* has weights already; leave out one of the two$"):
        sparksplit.train(str(digits), f"{tmp_path}/run", model=compiled(), init="runs/other")


def test_what_is_no_model_is_refused(digits, tmp_path):
    with pytest.raises(ConfigError, match=r"^model: must be a keras.Model, a function that returns one, .* \(is int\)"):
        sparksplit.train(str(digits), f"{tmp_path}/run", model=3)
    assert not (tmp_path / "run").exists()
