"""Every argument of every Keras optimizer that a configuration may give: what it does in a step is what it does in
Keras's `fit`."""

from contextlib import contextmanager
from functools import cache

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.collectives import Alone
from sparksplit.model import build, keras_names
from sparksplit.model.optimizers import averages, calls
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.strategies.syncs import StepSync
from sparksplit.training.node.compiled import averages as on_node
from sparksplit.training.node.compiled.step import Step
from tests.model.parts import parts
from tests.training.node.steps import FEATURES, chunk_of, inputs_of, rows, squared_error

EMA = {"use_ema": True, "ema_momentum": 0.7}
BASE = [
    {"clipnorm": 0.1},
    {"clipvalue": 0.05},
    {"global_clipnorm": 0.1},
    {"weight_decay": 0.2},
    {"loss_scale_factor": 64.0},
    EMA,
    {**EMA, "ema_overwrite_frequency": 3},
]
"""What all of them have."""
OWN = {
    "Adadelta": {"rho": 0.8, "epsilon": 1e-3},
    "Adafactor": {
        "beta_2_decay": -0.5, "epsilon_1": 1e-6, "epsilon_2": 1e-2, "clip_threshold": 0.5, "relative_step": False,
    },
    "Adagrad": {"initial_accumulator_value": 0.5, "epsilon": 1e-3},
    "Adam": {"beta_1": 0.7, "beta_2": 0.8, "epsilon": 1e-3, "amsgrad": True},
    "AdamW": {"beta_1": 0.7, "beta_2": 0.8, "epsilon": 1e-3, "amsgrad": True},
    "Adamax": {"beta_1": 0.7, "beta_2": 0.8, "epsilon": 1e-3},
    "Ftrl": {
        "learning_rate_power": -0.4, "initial_accumulator_value": 0.2, "l1_regularization_strength": 0.01,
        "l2_regularization_strength": 0.02, "l2_shrinkage_regularization_strength": 0.03, "beta": 0.1,
    },
    "Lamb": {"beta_1": 0.7, "beta_2": 0.8, "epsilon": 1e-3},
    "Lion": {"beta_1": 0.7, "beta_2": 0.8},
    "Muon": {
        "adam_beta_1": 0.7, "adam_beta_2": 0.8, "adam_weight_decay": 0.1, "adam_lr_ratio": 0.5, "epsilon": 1e-3,
        "exclude_layers": ["dense_1"], "exclude_embeddings": False, "muon_a": 3.0, "muon_b": -4.0, "muon_c": 2.0,
        "momentum": 0.8, "ns_steps": 3, "nesterov": False, "rms_rate": 0.3,
    },
    "Nadam": {"beta_1": 0.7, "beta_2": 0.8, "epsilon": 1e-3},
    "RMSprop": {"rho": 0.8, "momentum": 0.5, "epsilon": 1e-3, "centered": True},
    "SGD": {"momentum": 0.8, "nesterov": True},
    "ScheduleFreeAdamW": {"beta_1": 0.7, "beta_2": 0.8, "epsilon": 1e-3, "warmup_steps": 3},
}  # fmt: skip
"""What each has beside, none as it is by default."""
RATE = {"name": "ExponentialDecay", "initial_learning_rate": 0.05, "decay_steps": 2, "decay_rate": 0.5}
BATCHES, BATCH = 5, 8


@contextmanager
def eagerly():
    """What is computed is the same, and no graph is made of it."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def model_of():
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(3, "tanh", name="dense_0"), keras.layers.Dense(1, name="dense_1")]
    return keras.Sequential([keras.layers.Input((FEATURES,)), *layers])


def trained(arguments):
    """The weights that a run's updates end with."""
    model, (x, y), config = model_of(), rows(BATCHES * BATCH, 1), parts(optimizer=arguments)[0]
    optimizer = build.build_optimizer(config)
    with eagerly():
        step = Step(model, optimizer, squared_error, {}, inputs_of(), StepSync(Alone(), SyncConfig()), Alone())
        step.train(chunk_of(x, y, np.arange(0, len(x) + 1, BATCH)))
    assert calls(optimizer) == BATCHES
    with on_node.in_place(model, optimizer):
        return model.get_weights()


@cache
def by_default(name):
    return trained({"name": name, "learning_rate": 0.05})


def fitted(arguments):
    """The weights that Keras's `fit` leaves, with an optimizer that is made without this project's code."""
    own = {key: value for key, value in arguments.items() if key != "name"}
    if isinstance(rate := own["learning_rate"], dict):
        schedule = {key: value for key, value in rate.items() if key != "name"}
        own["learning_rate"] = getattr(keras.optimizers.schedules, rate["name"])(**schedule)
    model, (x, y) = model_of(), rows(BATCHES * BATCH, 1)
    optimizer = getattr(keras.optimizers, arguments["name"])(**own)
    model.compile(optimizer, "mse", run_eagerly=True, auto_scale_loss=False)
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.mark.parametrize(
    "arguments",
    [
        *({"name": name, **own} for name, own in OWN.items()),
        *({"name": "Adam", **more} for more in BASE),
        {"name": "SGD", "learning_rate": RATE, "momentum": 0.8},
    ],
    ids=lambda arguments: "-".join([arguments["name"], *list(arguments)[1:]])[:60],
)
def test_an_argument_does_what_it_does_in_fit(arguments):
    arguments = {"learning_rate": 0.05, **arguments}
    ours = trained(arguments)
    for found, wanted in zip(ours, fitted(arguments), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    plain = by_default(arguments["name"])
    # The loss is scaled, and gradients are scaled back.
    assert "loss_scale_factor" in arguments or max(np.abs(a - b).max() for a, b in zip(ours, plain, strict=True)) > 1e-4


def test_every_argument_of_every_optimizer_is_tried_here_or_refused():
    known = keras_names.classes("keras.optimizers")
    tried = {argument for more in BASE for argument in more} | {"learning_rate", *keras_names.REFUSED_ARGUMENTS}
    assert set(OWN) == set(known) - set(keras_names.REFUSED)
    for name, own in OWN.items():
        signature = keras_names.signature_of(known[name], name)
        assert signature.known - {"name"} == tried | set(own), name


def test_averages_are_found_within_a_scaled_loss():
    model = model_of()
    scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, use_ema=True))
    scaled.build(model.trainable_variables)
    assert [variable for variable, _ in averages(scaled, model.trainable_variables)] == model.trainable_variables
    scaled.apply([tf.ones(variable.shape) for variable in model.trainable_variables], model.trainable_variables)
    assert calls(scaled) == 1
    assert averages(keras.optimizers.SGD(0.1), model.trainable_variables) == []


def test_averages_are_the_weights_until_an_update_is_made():
    """Or a node that leaves out its first updates, which overflow, would bring zeros into the mean over nodes."""
    model, (x, y) = model_of(), rows(BATCH, 1)
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, use_ema=True))
    begun = model.get_weights()
    with eagerly():
        step = Step(model, optimizer, squared_error, {}, inputs_of(), StepSync(Alone(), SyncConfig()), Alone())
        step.train(chunk_of(x, y * np.float32(1e36), [0, BATCH]))
    assert calls(optimizer) == 0
    with step.averaged():
        assert all(map(np.array_equal, model.get_weights(), begun))
