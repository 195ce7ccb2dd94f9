"""Models and optimizers by name, and what is wrong with them."""

import inspect
import sys

import keras
import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.model import build, keras_names
from tests.model.parts import CLASSES, parts


def built(tmp_path, body, label=CLASSES, **params):
    source = f"import keras\ndef build(data, **params):\n    {body}\n"
    config, data, inputs = parts(label, model={"build": "m.py:build", "params": params})
    return build.build_model(config, source, data, inputs)


SMALL = "keras.Sequential([keras.layers.Input(data.input_shape), keras.layers.Dense(data.outputs)])"


def test_a_users_model_is_built_on_the_datas_shapes(tmp_path):
    assert built(tmp_path, f"return {SMALL}").output_shape == (None, 3)


def test_parameters_reach_the_builder(tmp_path):
    body = "return keras.Sequential([keras.layers.Input(data.input_shape), keras.layers.Dense(params['units'])])"
    assert built(tmp_path, body, units=7).output_shape == (None, 7)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 3", "model.build: m.py:build returned int, not a Keras model"),
        ("return params['units']", "model.params: m.py:build failed: KeyError: 'units'"),
        ("model = 3", "model.build: m.py:build returned NoneType, not a Keras model; does it end with `return model`?"),
        (
            "return keras.Sequential([keras.layers.Input((5,)), keras.layers.Dense(3)])",
            "model.build: m.py:build does not take rows of x: [4]: ",
        ),
        (
            "x = keras.layers.Input((4,)); return keras.Model(x, [x, x])",
            "model.build: m.py:build has 2 outputs; exactly one is supported",
        ),
        ("return keras.layers.Dense(3)", "model.build: m.py:build returned Dense, not a Keras model"),
    ],
)
def test_models_that_will_not_do(tmp_path, body, message):
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, body)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("shape", "wanted"), [("5,", "value 5"), ("2, 5", "(None, 2, 5)")])
def test_a_wrong_input_shape_is_said_with_both_shapes_and_what_to_do(tmp_path, shape, wanted):
    """Keras puts a header, codes of a terminal and the values of the rows around the reason."""
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, f"return keras.Sequential([keras.layers.Input(({shape})), keras.layers.Dense(3)])")
    text = str(caught.value)
    assert "[4]: Exception" not in text and "\x1b" not in text and "0. 0." not in text
    assert wanted in text and "(2, 4)" in text
    assert text.endswith("; begin with keras.layers.Input(data.input_shape)")


def test_a_mistake_in_the_models_own_code_is_no_wrong_shape(tmp_path):
    body = "M = type('M', (keras.Model,), {'call': lambda self, x: self.dens(x)}); return M()"
    with pytest.raises(ConfigError, match=r"x: \[4\]: '?M'? object has no attribute 'dens'"):
        built(tmp_path, body)


@pytest.mark.parametrize("name", ["sgd", "SGD", "adam", "Adam", "rmsprop", "adadelta", "ADAMW", "lion"])
def test_optimizers_by_keras_names_in_any_case(name):
    config, _, _ = parts(optimizer={"name": name, "learning_rate": 0.25})
    optimizer = build.build_optimizer(config)
    assert type(optimizer).__name__.lower() == name.lower()
    assert float(optimizer.learning_rate) == 0.25


def test_an_optimizers_own_arguments():
    config, _, _ = parts(optimizer={"name": "sgd", "momentum": 0.9, "nesterov": True, "clipnorm": 1.0})
    optimizer = build.build_optimizer(config)
    assert (optimizer.momentum, optimizer.nesterov, optimizer.clipnorm) == (0.9, True, 1.0)


@pytest.mark.parametrize("name", ["CosineDecay", "cosine_decay", "cosinedecay"])
def test_a_schedule(name):
    rate = {"name": name, "initial_learning_rate": 0.5, "decay_steps": 10}
    config, _, _ = parts(optimizer={"name": "sgd", "learning_rate": rate})
    schedule = build.build_optimizer(config)._learning_rate
    assert isinstance(schedule, keras.optimizers.schedules.CosineDecay)
    assert float(schedule(0)) == 0.5 and float(schedule(10)) == pytest.approx(0)


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        ({"name": "sdg"}, "optimizer.name: Keras has no 'sdg'; did you mean 'SGD'?"),
        ({"name": "optimizer"}, "optimizer.name: Keras has no 'optimizer'"),
        ({"name": "sgd", "momentun": 0.9}, "optimizer: SGD: "),
        ({"name": "sgd", "momentum": 7}, "optimizer: SGD: "),
        (
            {"name": "sgd", "learning_rate": {"name": "CosineDacay"}},
            "optimizer.learning_rate: Keras has no 'CosineDacay'; did you mean 'CosineDecay'?",
        ),
        ({"name": "sgd", "learning_rate": {"name": "CosineDecay"}}, "optimizer.learning_rate: CosineDecay: "),
        ({"name": "sgd", "learning_rate": {"decay_steps": 3}}, "optimizer.learning_rate: must have a `name`"),
    ],
)
def test_optimizers_that_keras_does_not_know(optimizer, message):
    config, _, _ = parts(optimizer=optimizer)
    with pytest.raises(ConfigError) as caught:
        build.build_optimizer(config)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_what_is_read_from_keras_source_is_what_it_says():
    modules = {
        "keras.optimizers": (keras.optimizers, keras.optimizers.Optimizer),
        "keras.optimizers.schedules": (
            keras.optimizers.schedules,
            keras.optimizers.schedules.LearningRateSchedule,
        ),
        "keras.losses": (keras.losses, keras.losses.Loss),
    }
    judged = 0
    for name, (module, base) in modules.items():
        public = {
            key
            for key, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, base) and value is not base
        }
        found = keras_names.classes(name)
        assert public <= set(found)
        for each in public:
            signature = keras_names.signature_of(found[each], each)
            if signature is None:
                continue
            judged += 1
            parameters = dict(inspect.signature(getattr(module, each)).parameters)
            takes_more = parameters.pop("kwargs", None) is not None
            assert set(parameters) <= signature.known if takes_more else set(parameters) == signature.known
            assert signature.needed == {key for key, part in parameters.items() if part.default is part.empty}
            if takes_more:
                with pytest.raises((ValueError, TypeError)):
                    getattr(module, each)(surely_unknown=1)
    assert judged > 40
    for kind, part in (("losses", keras.losses), ("metrics", keras.metrics)):
        assert keras_names.strings(kind) == set(vars(sys.modules[f"keras.src.{kind}"])["ALL_OBJECTS_DICT"])
        assert part.get("mse") is not None


CASES = [(name or "Adam", argument, limits) for (name, argument), limits in keras_names._NUMBERS.items()]


@pytest.mark.parametrize(("name", "argument", "limits"), CASES)
def test_keras_refuses_the_numbers_that_are_refused_before(name, argument, limits):
    """And takes the bounds themselves; what is refused too much or too little here is in no other test."""
    made, more = getattr(keras.optimizers, name), {"use_ema": True} if argument == "ema_momentum" else {}
    for bound, outside in ((limits.least, -0.01), (limits.most, 0.01), (limits.above, 0.0)):
        if bound is not None:
            if outside:
                made(**{argument: float(bound)}, **more)
            assert limits.problem(bound + outside)
            with pytest.raises(ValueError, match=argument):
                made(**{argument: bound + outside}, **more)


def test_keras_refuses_a_whole_number_for_momentum():
    for name, argument in keras_names._FLOATS:
        with pytest.raises(ValueError, match="must be a float"):
            getattr(keras.optimizers, name)(**{argument: 1})
