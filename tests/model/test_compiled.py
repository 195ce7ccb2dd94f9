"""What a model was compiled with, as keys."""

import keras
import pytest

from sparksplit.model.compiled import _METRIC_DEFAULTS, Compiled, NotAKeyError, optimizer_keys, same
from sparksplit.model.custom_objects import compile_config

ADAM = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-07, "amsgrad": False}


def compiled(*values, **named):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    model.compile(*values, **named)
    return Compiled.of(compile_config(model))


def own_loss(labels, outputs):
    return outputs


@keras.saving.register_keras_serializable("package")
def own_distance(labels, outputs):
    return outputs


def test_a_model_that_is_not_compiled_says_nothing():
    assert Compiled.of(None) == Compiled()


@pytest.mark.parametrize(
    ("optimizer", "keys"),
    [
        ("adam", {"name": "Adam", "learning_rate": 0.001, **ADAM}),
        (keras.optimizers.Adam(0.1, clipnorm=1.5), {"name": "Adam", "learning_rate": 0.1, "clipnorm": 1.5, **ADAM}),
        (
            keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 100), momentum=0.9, use_ema=True),
            {
                "name": "SGD",
                "learning_rate": {
                    **{"name": "CosineDecay", "initial_learning_rate": 0.1, "decay_steps": 100},
                    **{"alpha": 0.0, "warmup_steps": 0},
                },
                **{"momentum": 0.9, "nesterov": False, "use_ema": True, "ema_momentum": 0.99},
            },
        ),
        (
            keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5)),
            {"name": "SGD", "learning_rate": 0.5, "momentum": 0.0, "nesterov": False},
        ),
    ],
)
def test_optimizers(optimizer, keys):
    assert compiled(optimizer, "mse").optimizer == keys


@pytest.mark.parametrize(
    ("loss", "key"),
    [
        ("mse", "mse"),
        (keras.losses.mean_squared_error, "mean_squared_error"),
        (keras.losses.Huber(delta=2.0), {"name": "Huber", "delta": 2.0}),
        (own_loss, "own_loss"),
        (["mse"], "mse"),
    ],
)
def test_losses(loss, key):
    assert compiled("sgd", loss).loss == key


@pytest.mark.parametrize(
    ("metrics", "key"),
    [
        (["acc", "mae"], ["accuracy", "mae"]),
        ([["accuracy"]], ["accuracy"]),
        ([keras.metrics.MeanSquaredError(name="error"), own_loss], ["mean_squared_error", "own_loss"]),
        ([], None),
    ],
)
def test_metrics(metrics, key):
    assert compiled("sgd", "mse", metrics=metrics, weighted_metrics=[]).metrics == key


def test_metrics_are_shown_as_in_keras():
    metrics = [["acc", keras.metrics.MeanSquaredError(name="error"), own_loss, keras.metrics.AUC(name="auc")]]
    assert compiled("sgd", "mse", metrics=metrics).shown == ["acc", "error", "own_loss", "auc"]


def test_a_registered_metric_is_shown_without_its_package():
    made = compiled("sgd", "mse", metrics=[own_distance])
    assert (made.metrics, made.shown) == (["package>own_distance"], ["own_distance"])


def test_every_metric_without_arguments_has_a_key():
    for kind in {each for each in vars(keras.metrics).values() if isinstance(each, type)}:
        try:
            metric = kind()
        except TypeError:  # needs arguments
            continue
        (key,) = compiled("sgd", "mse", metrics=[metric]).metrics
        assert type(keras.metrics.get(key)) in (kind, type(keras.metrics.get(kind.__name__)))


@pytest.mark.parametrize(
    ("metric", "key"),
    [
        (keras.metrics.AUC(), "auc"),
        (keras.metrics.TopKCategoricalAccuracy(), "top_k_categorical_accuracy"),
        (keras.metrics.BinaryAccuracy(threshold=0.5), "binary_accuracy"),
    ],
)
def test_metrics_with_their_default_arguments(metric, key):
    assert compiled("sgd", "mse", metrics=[metric]).metrics == [key]
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse", metrics=[metric])
    assert Compiled.of(model.get_compile_config()).metrics == [key]  # as in a file


def test_the_metrics_defaults_are_keras_own():
    for name, arguments in _METRIC_DEFAULTS.items():
        config = getattr(keras.metrics, name)().get_config().items()
        assert {key: one for key, one in config if key not in ("name", "dtype") and one is not None} == arguments


def test_row_weights_count_as_in_keras_fit():
    found = compiled("sgd", "mse", weighted_metrics=["mae"])
    assert (found.metrics, found.metric_weights, found.reduction) == (["mae"], True, "sum_over_batch_size")
    loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    found = compiled("sgd", loss, metrics=["mae"])
    assert (found.metric_weights, found.reduction) == (False, "mean_with_sample_weight")
    assert compiled("sgd").reduction is None and compiled("sgd", "mse").metric_weights is None


@pytest.mark.parametrize(
    ("given", "key", "message"),
    [
        ({"loss": keras.losses.Huber(reduction="sum")}, "loss", "Huber with reduction 'sum' is not supported"),
        ({"loss": keras.losses.Huber(reduction=None)}, "loss", "Huber with reduction None is not supported"),
        ({"loss": lambda labels, outputs: outputs}, "loss", "^is a lambda, .*; write a function with def$"),
        ({"loss": "mse", "metrics": ["mae"], "weighted_metrics": ["mse"]}, "metrics", "with one of them$"),
        ({"loss": "mse", "metrics": ["acc", "accuracy"]}, "metrics", "has two metrics called accuracy;"),
        ({"metrics": [keras.metrics.F1Score(threshold=0.5)]}, "metrics", r"F1Score\(threshold=0.5\): metrics with"),
        ({"loss": ["mse", "mae"]}, "loss", "compiled with 2 losses; exactly one"),
        ({"loss": "mse", "loss_weights": [2.0]}, "loss", "loss_weights of a compiled model are not supported"),
        ({"metrics": [keras.metrics.TopKCategoricalAccuracy(k=3)]}, "metrics", r"\(k=3\): metrics with arguments"),
    ],
)
def test_what_has_no_key_is_refused(given, key, message):
    with pytest.raises(NotAKeyError, match=message) as caught:
        compiled("sgd", **given)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("given", "other", "equal"),
    [
        ("sparse_categorical_crossentropy", {"name": "SparseCategoricalCrossentropy", "from_logits": False}, True),
        ("sparse_categorical_crossentropy", {"name": "SparseCategoricalCrossentropy", "from_logits": True}, False),
        (0.1, 0.1, True),
        (0.1, 0.2, False),
        (["accuracy"], ["Accuracy"], True),
        (["mae", "mse"], ["mse", "mae"], False),
    ],
)
def test_the_same_under_another_spelling(given, other, equal):
    assert same(given, other) == equal


def test_an_optimizers_name_alone():
    assert optimizer_keys("adam") == {"name": "adam"}
