"""What a model's builder takes, as its source says, before Spark or Keras starts."""

from __future__ import annotations

import sys

import pytest

from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError
from sparksplit.model.builders import models
from sparksplit.model.description import DataDescription
from sparksplit.model.needs import check
from sparksplit.training.train_config import TrainConfig

MIXED = {"numbers": (3,), "town": (), "words": (8,)}
DATA = {
    "flat": DataDescription({"x": (784,)}, ("a", "b"), (), 10),
    "image": DataDescription({"x": (28, 28)}, ("a", "b"), (), 10),
    "colour": DataDescription({"x": (28, 28, 3)}, ("a", "b"), (), 10),
    "mixed": DataDescription(MIXED, ("a", "b"), (), 10, {"town": 5, "words": 100}),
    "category": DataDescription({"town": ()}, ("a", "b"), (), 10, {"town": 5}),
    "words": DataDescription({"words": (8,)}, ("a", "b"), (), 10, {"words": 100}),
}
FIT = {
    "flat": ["lstm", "mlp", "tabular"],
    "image": ["cnn", "lstm", "mlp", "tabular"],
    "colour": ["cnn", "mlp", "tabular"],
    "mixed": ["tabular", "text"],
    "category": ["tabular"],
    "words": ["lstm", "tabular", "text"],
}


def checked(data, source=None, **model):
    check(parse(TrainConfig, {"data": "d", "output": "o", "model": model}), source, DATA[data])


def fits(data, name):
    try:
        checked(data, build=name)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("data", DATA)
def test_which_models_take_which_data(data):
    assert [name for name in models() if fits(data, name)] == FIT[data]


def test_a_misfit_names_what_there_is_and_what_takes_it():
    expected = (
        "model.build: mlp needs one tensor of numbers, but the data set has numbers [3], town [], words [8]; use "
        "model.build: tabular or text"
    )
    with pytest.raises(ConfigError) as caught:
        checked("mixed", build="mlp")
    assert str(caught.value) == expected
    with pytest.raises(ConfigError, match=r"^model.build: text needs a text among its inputs .*: tabular$"):
        checked("category", build="text")


SOURCE = "def build(data, width, deep=2, *, wide=False):\n    pass\ndef f(data, **params):\n    pass\ng = f\n"
CASES = {
    "a typo": ({"widht": 1}, "model.params.widht: m.py:build has no such argument; did you mean 'width'?; IT"),
    "a missing one": ({"deep": 1}, "model.params: m.py:build needs width"),
    "the data's own": ({"width": 1, "data": 2}, "model.params.data: m.py:build has no such argument; IT"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_argument_is_named_with_the_right_ones(name):
    params, expected = CASES[name]
    with pytest.raises(ConfigError) as caught:
        checked("flat", SOURCE, build="m.py:build", params=params)
    assert str(caught.value) == expected.replace("IT", "it has width, deep, wide")


@pytest.mark.parametrize("arguments", ["", "*, width=64"])
def test_a_builder_that_does_not_take_the_data_is_refused(arguments):
    with pytest.raises(
        ConfigError, match=r"^model.build: m.py:model must take the description of the data.*: def model"
    ):
        checked("flat", f"def model({arguments}):\n    pass\n", build="m.py:model")


@pytest.mark.parametrize(
    ("build", "source", "params"),
    [
        ("m.py:build", SOURCE, {"width": 1, "wide": True}),
        ("m.py:f", SOURCE, {"anything": 1}),
        ("m.py:g", SOURCE, {"anything": 1}),  # only Python can know
        ("m.py:build", "@wrapped\n" + SOURCE, {"anything": 1}),
        ("m.py:build", "def build(data, /, a=1):\n    pass\n", {"a": 1}),
        ("m.py:build", "def build(data, a):\n    pass\n\nbuild = partial(build, a=1)\n", {}),
        ("m.py:build", "from other import build\n", {"anything": 1}),
        ("m.py:build", "def build(*given):\n    pass\n", {}),
        ("math:sqrt", None, {"anything": 1}),  # has no source
    ],
)
def test_what_may_be_right_is_left_to_the_nodes(build, source, params):
    checked("flat", source, build=build, params=params)


def test_a_function_in_a_package_is_read_there(tmp_path, monkeypatch):
    (tmp_path / "own_models.py").write_text(f'NEEDS = "image"\n{SOURCE}')
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="own_models:build has no such argument"):
        checked("image", build="own_models:build", params={"x": 1})
    with pytest.raises(ConfigError, match="own_models:build needs images"):
        checked("flat", build="own_models:build", params={"width": 1})
    assert "own_models" not in sys.modules


def test_the_place_in_the_configuration_is_named(tmp_path):
    (tmp_path / "t.yaml").write_text("data: d\noutput: o\nmodel:\n  build: mlp\n  params: {hiden: [3]}\n")
    with pytest.raises(ConfigError, match=r"t.yaml:5: model.params.hiden: mlp has no .*; it has hidden, activation$"):
        check(load(TrainConfig, str(tmp_path / "t.yaml")), None, DATA["flat"])


@pytest.mark.parametrize(
    ("overrides", "ending"),
    [
        (
            ["model.build=m.py:build"],
            "; the file's params are for its own model: --set 'model={build: m.py:build}' replaces the whole section",
        ),
        (["model={build: m.py:build, params: {hidden: 3}}"], "it has width, deep, wide"),
        (["model.build=m.py:build", "model.params.hidden=3"], "it has width, deep, wide"),
    ],
)
def test_params_of_the_file_for_a_model_of_the_command_line(tmp_path, overrides, ending):
    (tmp_path / "t.yaml").write_text("data: d\noutput: o\nmodel:\n  build: mlp\n  params: {hidden: [3]}\n")
    with pytest.raises(ConfigError) as caught:
        check(load(TrainConfig, str(tmp_path / "t.yaml"), overrides), SOURCE, DATA["flat"])
    assert str(caught.value).endswith(ending)
