"""Misspelt names of Keras's, told without Keras; that it says the same itself is in test_build.py."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.model import keras_names
from sparksplit.training.train_config import TrainConfig


def config(**keys: Any) -> TrainConfig:
    return parse(TrainConfig, {"data": "d", "output": "o", **keys})


COSINE = {"name": "CosineDecay", "initial_learning_rate": 0.1, "decay_steps": 10}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"optimizer": {"learning_rat": 1}},
            "optimizer.learning_rat: SGD has no such argument; did you mean 'learning_ra",
        ),
        (
            {"optimizer": {"name": "adam", "beta1": 1}},
            "optimizer.beta1: Adam has no such argument; did you mean 'beta_1'?",
        ),
        (
            {"optimizer": {"name": "sgd", "zzz": 1}},
            "optimizer.zzz: SGD has no such argument; it has clipnorm, clipvalue, ",
        ),
        ({"optimizer": {"name": "adamm"}}, "optimizer.name: Keras has no 'adamm'; did you mean 'Adam'?"),
        (
            {"optimizer": {"learning_rate": {**COSINE, "name": "CosinDecay"}}},
            "optimizer.learning_rate.name: Keras has no 'CosinDecay'; did you mean 'CosineDecay'?",
        ),
        (
            {"optimizer": {"learning_rate": {**COSINE, "decay_step": 1}}},
            "optimizer.learning_rate.decay_step: CosineDecay has no such argument; ",
        ),
        (
            {"optimizer": {"learning_rate": {"name": "cosine_decay", "initial_learning_rate": 1}}},
            "optimizer.learning_rate: CosineDecay needs decay_steps",
        ),
        ({"optimizer": {"momentum": 2}}, "optimizer.momentum: must be at most 1 (is 2)"),
        ({"optimizer": {"momentum": -0.5}}, "optimizer.momentum: must be at least 0 (is -0.5)"),
        ({"optimizer": {"momentum": 1}}, "optimizer.momentum: must be written with a decimal point, as 1.0 (is 1)"),
        ({"optimizer": {"name": "lion", "beta_1": 0}}, "optimizer.beta_1: must be above 0 (is 0)"),
        (
            {"optimizer": {"name": "adam", "use_ema": True, "ema_momentum": 1.5}},
            "optimizer.ema_momentum: must be at most 1 (is 1.5)",
        ),
        ({"optimizer": {"nesterov": 0.5}}, "optimizer.nesterov: must be true or false (is 0.5)"),
        ({"loss": {"name": "huber", "delta": 9}, "optimizer": {"use_ema": 1}}, "optimizer.use_ema: must be true or f"),
        ({"loss": "mean_square_error"}, "loss: Keras has no 'mean_square_error'; did you mean 'mean_squared_error'?"),
        ({"loss": {"name": "Hubert"}}, "loss.name: Keras has no 'Hubert'; did you mean 'Huber'?"),
        (
            {"loss": {"name": "mse"}},
            "loss.name: 'mse' is a short name, which takes no arguments; give the name of Keras's class",
        ),
        ({"loss": {"name": "huber", "dleta": 1}}, "loss.dleta: Huber has no such argument; did you mean 'delta'?"),
        ({"optimizer": {"name": "sgd", "decay": 0.1}}, "optimizer.decay: SGD has no such argument"),
        ({"optimizer": {"name": "sgd", "ema_momentum": 0.9}}, "optimizer.ema_momentum: needs use_ema: true"),
        (
            {"optimizer": {"name": "adam", "gradient_accumulation_steps": 4}},
            "optimizer.gradient_accumulation_steps: is not supported (is 4): the last mini-batches of a run could "
            "change no weight. Multiply the size of a mini-batch by it instead, and give the number as `accumulate`",
        ),
        (
            {"optimizer": {"name": "multi_optimizer"}},
            "optimizer.name: cannot be MultiOptimizer: it contains several optimizers, and `optimizer` describes one",
        ),
        ({"optimizer": {"name": "LossScaleOptimizer"}}, "optimizer.name: cannot be LossScaleOptimizer: dtype: mixed"),
        ({"metrics": ["accuracy", "presicion"]}, "metrics.1: Keras has no 'presicion'; did you mean 'precision'?"),
    ],
)
def test_a_misspelt_name_is_told_with_its_key_and_the_nearest(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        keras_names.check(config(**keys), {})
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"optimizer": {"name": "SGD", "momentum": 0.9, "nesterov": True, "clipnorm": 1}, "loss": "mse"},
        {"optimizer": {"name": "adamw", "weight_decay": 0.1, "learning_rate": COSINE}, "metrics": ["accuracy", "AUC"]},
        {"optimizer": {"name": "sgd", "use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 5}},
        {"loss": {"name": "sparse_categorical_crossentropy", "from_logits": True}},
        {"loss": {"arguments": "without a name"}},
        {"optimizer": {"name": "mine>Sgdd", "anything": 1}},
    ],
)
def test_what_keras_knows_passes(keys: dict[str, Any]) -> None:
    keras_names.check(config(**keys), {})


def test_what_a_users_own_code_may_register_is_left_to_the_nodes() -> None:
    keys = {"optimizer": {"name": "Sgdd"}, "model": {"build": "mine.py:build"}}
    keras_names.check(config(**keys), {"model.build": "keras.saving.get_custom_objects()['Sgdd'] = Sgdd"})
    keras_names.check(config(optimizer={"name": "Sgdd"}, model={"build": "mine.package:build"}), {})
    with pytest.raises(ConfigError, match="has no 'Sgdd'"):
        keras_names.check(config(**keys), {"model.build": "def build(data): ..."})


def test_a_keras_that_is_written_otherwise_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras_names, "_statements", lambda module: iter(()))
    for cached in (keras_names.classes, keras_names.strings, keras_names.signature_of):
        cached.cache_clear()
    try:
        keys = {"optimizer": {"name": "x", "y": 1, "learning_rate": {"name": "z"}}, "loss": "a", "metrics": ["b"]}
        keras_names.check(config(**keys), {})
    finally:
        for cached in (keras_names.classes, keras_names.strings, keras_names.signature_of):
            cached.cache_clear()


def test_neither_keras_nor_tensorflow_is_imported() -> None:
    code = (
        "import sys; from sparksplit.model import keras_names as names;"
        "from sparksplit.training.train_config import TrainConfig as T;"
        "from sparksplit.base.config import parse;"
        "names.check(parse(T, dict(data='d', output='o', loss='mse', metrics=['AUC'])), {});"
        "print({'keras', 'tensorflow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
