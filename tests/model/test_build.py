"""Model, optimizer, loss and metrics by Keras's names, and what goes into the model.

One file, so that TensorFlow is imported once.
"""

import inspect
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hdfs_io.features.spec import Category, Number, Text
from hdfs_io.preprocessing import Description, FittedPreprocessing, LabelSpec, TensorPreprocessing, TensorSpec
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.model import build, export, keras_names
from sparksplit.model.inputs import Inputs
from sparksplit.training.config import TrainConfig
from sparksplit.training.node import publishing
from tests.training.records import epoch

CLASSES = LabelSpec(dtype="int64", classes=["a", "b", "c"])
TWO = LabelSpec(dtype="int64", classes=["no", "yes"])
NUMBER = LabelSpec(dtype="float32", kind="number")
NUMBERS = LabelSpec(dtype="float32", kind="number", shape=[2])


def description(label=CLASSES, tensors=None, preprocessing=None):
    return Description(
        tensors=tensors or [TensorSpec(name="x", dtype="uint8", shape=[4])],
        label=label,
        preprocessing=preprocessing or FittedPreprocessing(),
    )


def parts(label=CLASSES, **keys):
    """(config, what a builder is told, inputs) of a configuration with these keys."""
    config = parse(TrainConfig, {"data": "d", "output": "o", **keys})
    described = description(label)
    return config, build.data_description(described, 10), Inputs(described)


def model_of(*layers, shape=(4,)):
    return keras.Sequential([keras.layers.Input(shape), *layers])


def dense(units, activation=None):
    return model_of(keras.layers.Dense(units, activation))


# What a builder is told.


def test_a_builder_is_told_of_tensors_as_they_are_stored():
    told = build.data_description(description(tensors=[TensorSpec(name="x", dtype="uint8", shape=[4, 4])]), 10)
    assert (told.inputs, told.categories, told.classes, told.rows) == ({"x": (4, 4)}, {}, ("a", "b", "c"), 10)


def test_a_builder_is_told_of_features_as_the_model_gets_them():
    place = {"type": "string", "tensor": "indices", "place": 0}
    features = [
        Number(column="age", type="int", tensor="x", place=0, indicator=True),
        Category(column="city", vocabulary=["Bonn", "Ulm"], **place),
        Text(column="title", values=5, vocabulary=["a", "the", "of"], **place),
    ]
    stored = [TensorSpec(name="x", dtype="uint8", shape=[1]), TensorSpec(name="indices", dtype="uint8", shape=[6])]
    told = build.data_description(description(tensors=stored).model_copy(update={"features": features}), 10)
    assert told.inputs == {"numbers": (2,), "city": (), "title": (5,)}
    assert told.categories == {"city": 4, "title": 5}


# Inputs.

# Far from the subnormal numbers, products included: TensorFlow takes those for 0, numpy does not.
numbers = st.integers(-(2**20), 2**20).map(lambda number: number / 1024)


@settings(deadline=None, max_examples=30)
@given(
    arrays.arrays(np.float32, (3, 2), elements=st.one_of(numbers, st.just(np.nan))),
    st.one_of(numbers, st.lists(numbers, min_size=2, max_size=2)),
    st.one_of(numbers, st.lists(numbers, min_size=2, max_size=2)),
    st.one_of(st.none(), numbers, st.lists(numbers, min_size=2, max_size=2)),
)
def test_the_graph_applies_the_very_preprocessing_of_hdfs_io(values, offset, scale, impute):
    fitted = FittedPreprocessing(tensors={"x": TensorPreprocessing(offset=offset, scale=scale, impute=impute)})
    inputs = Inputs(description(None, [TensorSpec(name="x", dtype="float32", shape=[2])], fitted))
    decoded, label = inputs.decode([tf.constant(values)])
    assert label is None
    np.testing.assert_array_equal(decoded.numpy(), fitted.apply("x", values))


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64", "float16", "float64"]
)
def test_every_stored_dtype_reaches_the_model(dtype):
    inputs = Inputs(description(None, [TensorSpec(name="x", dtype=dtype, shape=[2])]))
    decoded, _ = inputs.decode([tf.constant(np.array([[1, 2]], dtype))])
    assert (decoded.dtype.name, decoded.numpy().tolist()) == ("float32", [[1, 2]])


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", "float64"])
def test_the_graph_keeps_numbers_apart_that_are_far_from_0(dtype):
    """The minutes of a day, as seconds since 1970; where 64 bits hold them, as nanoseconds too."""
    seconds = 1_700_006_400 + 60 * np.arange(1440)
    for values in (seconds, seconds * 10**9) if dtype.endswith("64") else (seconds,):
        stored = values.astype(dtype)[:, None]
        scale = 1 / (float(values[-1]) - float(values[0]))
        fitted = FittedPreprocessing(tensors={"x": TensorPreprocessing(offset=float(values[0]), scale=scale)})
        inputs = Inputs(description(None, [TensorSpec(name="x", dtype=dtype, shape=[1])], fitted))
        decoded = tf.function(lambda column, inputs=inputs: inputs.decode([column])[0])(tf.constant(stored)).numpy()
        np.testing.assert_array_equal(decoded, fitted.apply("x", stored))
        assert len(np.unique(decoded)) == 1440


def test_several_tensors_are_a_mapping_and_the_label_comes_last():
    tensors = [TensorSpec(name="a", dtype="uint8", shape=[4]), TensorSpec(name="b", dtype="float32", shape=[2, 2])]
    inputs = Inputs(description(CLASSES, tensors))
    assert [(spec.name, spec.shape.as_list(), spec.dtype.name) for spec in inputs.tensor_signature()] == [
        ("a", [None, 4], "uint8"),
        ("b", [None, 2, 2], "float32"),
    ]
    example, label = inputs.examples(3)
    assert {name: tuple(value.shape) for name, value in example.items()} == {"a": (3, 4), "b": (3, 2, 2)}
    assert (tuple(label.shape), label.dtype.name) == ((3,), "int64")


def test_the_float_type_is_keras_own():
    keras.config.set_floatx("float64")
    try:
        decoded, _ = Inputs(description(None)).decode([tf.constant([[1, 2, 3, 4]], tf.uint8)])
    finally:
        keras.config.set_floatx("float32")
    assert decoded.dtype == tf.float64


# Models.


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


# Optimizers.


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
        ({"name": "sdg"}, "optimizer.name: Keras knows no 'sdg'; did you mean 'SGD'?"),
        ({"name": "optimizer"}, "optimizer.name: Keras knows no 'optimizer'"),
        ({"name": "sgd", "momentun": 0.9}, "optimizer: SGD: "),
        ({"name": "sgd", "momentum": 7}, "optimizer: SGD: "),
        (
            {"name": "sgd", "learning_rate": {"name": "CosineDacay"}},
            "optimizer.learning_rate: Keras knows no 'CosineDacay'; did you mean 'CosineDecay'?",
        ),
        ({"name": "sgd", "learning_rate": {"name": "CosineDecay"}}, "optimizer.learning_rate: CosineDecay: "),
        ({"name": "sgd", "learning_rate": {"decay_steps": 3}}, "optimizer.learning_rate: must have a name"),
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


# Losses.


def loss_of(label, units, outputs, labels, **keys):
    """The losses of given outputs."""
    config, data, inputs = parts(label, **keys)
    loss = build.build_loss(config, data, dense(units), inputs)
    return loss(tf.constant(labels), tf.constant(outputs, tf.float32)).numpy()


PROBABILITIES = [[0.5, 0.25, 0.25], [0.125, 0.375, 0.5]]
CROSSENTROPY = -np.log([0.5, 0.5])


@pytest.mark.parametrize(
    "loss",
    [
        None,
        "sparse_categorical_crossentropy",
        "SparseCategoricalCrossentropy",
        {"name": "sparse_categorical_crossentropy"},
        {"name": "SparseCategoricalCrossentropy", "from_logits": False},
    ],
)
def test_one_crossentropy_per_row(loss):
    keys = {} if loss is None else {"loss": loss}
    found = loss_of(CLASSES, 3, PROBABILITIES, np.array([0, 2]), **keys)
    np.testing.assert_allclose(found, CROSSENTROPY, rtol=1e-6)


def test_logits():
    loss = {"name": "SparseCategoricalCrossentropy", "from_logits": True}
    found = loss_of(CLASSES, 3, np.log(PROBABILITIES), np.array([0, 2]), loss=loss)
    np.testing.assert_allclose(found, CROSSENTROPY, rtol=1e-6)


@pytest.mark.parametrize("loss", ["binary_crossentropy", "BinaryCrossentropy", {"name": "BinaryCrossentropy"}])
def test_one_output_for_two_classes(loss):
    found = loss_of(TWO, 1, [[0.25], [0.75]], np.array([0, 1]), loss=loss)
    np.testing.assert_allclose(found, -np.log([0.75, 0.75]), rtol=1e-5)


def test_one_output_for_two_classes_has_a_loss_of_its_own():
    found = loss_of(TWO, 1, [[0.25], [0.75]], np.array([0, 1]))
    np.testing.assert_allclose(found, -np.log([0.75, 0.75]), rtol=1e-5)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (None, [1.0, 4.0]),
        ("mse", [1.0, 4.0]),
        ("mean_squared_error", [1.0, 4.0]),
        ("MeanAbsoluteError", [1.0, 2.0]),
        ({"name": "Huber", "delta": 1.0}, [0.5, 1.5]),
    ],
)
def test_losses_of_numbers_are_not_averaged_over_rows(loss, expected):
    keys = {} if loss is None else {"loss": loss}
    found = loss_of(NUMBER, 1, [[1.0], [2.0]], np.array([2.0, 0.0], np.float32), **keys)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("loss", "expected"), [(None, [2.5, 2.0]), ("mean_absolute_error", [1.5, 1.0])])
def test_several_numbers_of_a_row_are_averaged(loss, expected):
    keys = {} if loss is None else {"loss": loss}
    found = loss_of(NUMBERS, 2, [[1.0, 2.0], [3.0, 3.0]], np.array([[2.0, 0.0], [3.0, 1.0]], np.float32), **keys)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    outputs, labels = [[1.0, 2.0], [3.0, 3.0]], np.array([[2.0, 0.0], [3.0, 1.0]], np.float32)
    assert metric_of(NUMBERS, 2, outputs, labels, None) == {"mean_absolute_error": pytest.approx(1.25)}


@pytest.mark.parametrize(
    ("label", "units", "loss", "message"),
    [
        (NUMBERS, 1, None, "model.build: mlp gives [1] a row, where numbers of shape [2] are to be predicted"),
        (CLASSES, 7, None, "model.build: mlp has an output of 7 units, the data set has 3 classes"),
        (CLASSES, 1, None, "model.build: mlp has an output of 1 units, the data set has 3 classes"),
        (CLASSES, 3, "sparse_crossentropy", "loss: Keras knows no 'sparse_crossentropy'; did you mean '"),
        (CLASSES, 3, {"name": "Hubert"}, "loss: Keras knows no 'Hubert'; did you mean 'Huber'?"),
        (CLASSES, 3, {"name": "Huber", "dleta": 1}, "loss: Huber: "),
        (CLASSES, 3, {"delta": 1}, "loss: must have a name"),
        (
            TWO,
            1,
            "sparse_categorical_crossentropy",
            "loss: sparse_categorical_crossentropy needs a unit for each class",
        ),
        (TWO, 2, {"name": "BinaryCrossentropy"}, "loss: BinaryCrossentropy needs one output for two classes"),
        (CLASSES, 3, "categorical_crossentropy", "loss: does not take this model's outputs: "),
    ],
)
def test_losses_that_will_not_do(label, units, loss, message):
    config, data, inputs = parts(label, **({} if loss is None else {"loss": loss}))
    with pytest.raises(ConfigError) as caught:
        build.build_loss(config, data, dense(units), inputs)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


# Metrics.


def metric_of(label, units, outputs, labels, names, **keys):
    config, data, inputs = parts(label, **({} if names is None else {"metrics": names}), **keys)
    metrics = build.build_metrics(config, data, dense(units), inputs)
    for metric in metrics.values():
        # In two unequal parts: a mean over rows, not over calls.
        for part in (slice(0, 1), slice(1, None)):
            metric.update_state(tf.constant(labels[part]), tf.constant(outputs[part], tf.float32))
    return {name: float(metric.result()) for name, metric in metrics.items()}


def test_accuracy_of_classes():
    outputs = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
    labels = np.array([0, 1, 2, 0])
    expected = {"accuracy": 0.75}
    assert metric_of(CLASSES, 3, outputs, labels, None) == expected
    names = ["accuracy", "sparse_categorical_accuracy", "SparseTopKCategoricalAccuracy"]
    assert list(metric_of(CLASSES, 3, outputs, labels, names)) == names


def test_accuracy_of_one_output_for_two_classes():
    outputs, labels = np.array([[0.9], [0.2], [0.6], [0.4]]), np.array([1, 0, 0, 0])
    assert metric_of(TWO, 1, outputs, labels, None) == {"accuracy": 0.75}


def test_accuracy_of_one_logit_for_two_classes():
    outputs, labels = np.array([[0.3], [-2.0], [0.1], [3.0]]), np.array([1, 0, 0, 1])
    loss = {"name": "BinaryCrossentropy", "from_logits": True}
    assert metric_of(TWO, 1, outputs, labels, None, loss=loss) == {"accuracy": 0.75}


def test_errors_of_numbers_are_means_over_rows():
    outputs, labels = np.array([[1.0], [2.0], [3.0]]), np.array([2.0, 0.0, 3.0], np.float32)
    names = ["mean_absolute_error", "MeanSquaredError", "mse"]
    found = metric_of(NUMBER, 1, outputs, labels, names)
    assert list(found) == names
    assert found["mean_absolute_error"] == pytest.approx(1)
    assert found["MeanSquaredError"] == found["mse"] == pytest.approx(5 / 3)
    assert metric_of(NUMBER, 1, outputs, labels, None) == {"mean_absolute_error": pytest.approx(1)}


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("units", [1, 2])
def test_measures_of_two_classes_from_one_output_or_two(units, logits):
    second, labels = np.array([0.9, 0.2, 0.6, 0.4, 0.7]), np.array([1, 0, 0, 1, 1])
    outputs = second[:, None] if units == 1 else np.stack([1 - second, second], axis=1)
    keys = {}
    if logits:
        outputs = np.log(outputs / (1 - outputs)) if units == 1 else np.log(outputs) + 3
        keys["loss"] = {"name": "BinaryCrossentropy" if units == 1 else "SparseCategoricalCrossentropy"}
        keys["loss"]["from_logits"] = True
    found = metric_of(TWO, units, outputs, labels, ["accuracy", "auc", "precision", "recall", "f1"], **keys)
    shares = {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3}
    assert found == pytest.approx({"accuracy": 0.6, "auc": 5 / 6, **shares})


def test_measures_of_more_classes_are_means_over_them():
    labels, found = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1])
    values = metric_of(CLASSES, 3, np.eye(3)[found], labels, ["precision", "recall", "f1"])
    expected = {"precision": (1 + 1 / 3 + 0) / 3, "recall": (1 / 2 + 1 + 0) / 3, "f1": (2 / 3 + 1 / 2 + 0) / 3}
    assert values == pytest.approx(expected)


SCALED = NUMBER.model_copy(update={"offset": 1000.0, "scale": 0.25})
SEVERAL = NUMBER.model_copy(update={"shape": [2], "offset": [1000.0, -8.0], "scale": [0.25, 2.0]})


@pytest.mark.parametrize(
    ("label", "units", "labels", "outputs"),
    [
        (SCALED, 1, [1000.0, 1004.0, 996.0], [[0.0], [2.0], [-1.0]]),
        (SEVERAL, 2, [[1000.0, -8.0], [1004.0, -7.0], [996.0, -6.0]], [[0.0, 0.0], [2.0, 0.0], [-1.0, 4.0]]),
    ],
)
def test_scaled_labels_are_scaled_for_the_loss_and_outputs_back_for_metrics(label, units, labels, outputs):
    labels = np.array(labels, np.float32)
    wanted = (labels - np.array(label.offset)) * np.array(label.scale)
    errors = np.array(outputs).reshape(labels.shape) - wanted
    per_row = (errors**2).reshape(3, -1).mean(axis=1)
    np.testing.assert_allclose(loss_of(label, units, outputs, labels), per_row, rtol=1e-6)
    own = errors / np.array(label.scale)
    spread = ((labels - labels.mean(axis=0)) ** 2).sum(axis=0)
    expected = {
        "mae": np.abs(own).mean(),
        "mean_absolute_error": np.abs(own).mean(),
        "rmse": np.sqrt((own**2).mean()),
        "r2": np.mean(1 - (own**2).sum(axis=0) / spread),
    }
    found = metric_of(label, units, np.array(outputs), labels, list(expected))
    assert found == pytest.approx(expected, rel=1e-6)


def test_r2_of_numbers_far_from_0_and_of_a_constant():
    labels = (1e6 + np.array([0.0, 1.0, 2.0])).astype(np.float32)
    assert metric_of(NUMBER, 1, labels[:, None] + 0.5, labels, ["r2"])["r2"] == pytest.approx(1 - 0.75 / 2)
    same = np.full(3, 1e6, np.float32)
    assert metric_of(NUMBER, 1, same[:, None], same, ["r2"]) == {"r2": 1.0}
    assert metric_of(NUMBER, 1, same[:, None] + 1, same, ["r2"]) == {"r2": 0.0}


@pytest.mark.parametrize(
    ("label", "units", "name", "message"),
    [
        (CLASSES, 3, "auc", "metrics.0: auc needs two classes; the data set has 3"),
        (CLASSES, 3, "r2", "metrics.0: r2 needs labels that are numbers"),
        (NUMBER, 1, "f1", "metrics.0: f1 needs labels that are classes"),
    ],
)
def test_measures_that_do_not_fit_the_labels(label, units, name, message):
    config, data, inputs = parts(label, metrics=[name])
    with pytest.raises(ConfigError) as caught:
        build.build_metrics(config, data, dense(units), inputs)
    assert str(caught.value).startswith(message)


def test_the_exported_model_gives_numbers_in_the_labels_units(tmp_path):
    tensors = [*description().tensors, TensorSpec(name="weight", dtype="float32", shape=[])]
    inputs = Inputs(description(SCALED, tensors))
    model = model_of(keras.layers.Dense(1, kernel_initializer="ones"))
    (tmp_path / "scratch").mkdir()
    export.export(model, inputs, str(tmp_path), str(tmp_path / "scratch"))
    signature = tf.saved_model.load(export.saved_model(str(tmp_path))).signatures[export.SIGNATURE]
    assert list(signature.structured_input_signature[1]) == ["x"]
    x = tf.constant([[1, 2, 3, 4]], tf.uint8)
    assert signature(x=x)["outputs"].numpy().tolist() == [[10 / 0.25 + 1000]]


def test_an_unknown_metric_is_named():
    config, data, inputs = parts(metrics=["accuracy", "accuray"])
    with pytest.raises(ConfigError, match=r"^metrics\.1: Keras knows no 'accuray'; did you mean '"):
        build.build_metrics(config, data, dense(3), inputs)


def test_a_metric_that_the_labels_do_not_fit_is_named():
    config, data, inputs = parts(metrics=["accuracy", "r2_score"])
    with pytest.raises(ConfigError, match=r"^metrics\.1: does not take this model's outputs: .*2D") as caught:
        build.build_metrics(config, data, dense(3), inputs)
    assert "\n" not in str(caught.value)


# TensorBoard.


def test_events_hold_each_epoch_once_however_often_they_are_written(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = [epoch(number, train={"loss": 1 / number}, validation={"loss": 2 / number}) for number in (1, 2)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for known in (history[:1], history):
        publishing.publish_events(str(tmp_path), known, str(scratch))
    for name, factor in (("train", 1), ("validation", 2)):
        events = EventAccumulator(str(tmp_path / "tensorboard" / name))
        events.Reload()
        tensors = events.Tensors("epoch_loss")
        assert [event.step for event in tensors] == [1, 2]
        values = [float(tf.make_ndarray(event.tensor_proto)) for event in tensors]
        assert values == pytest.approx([factor, factor / 2])
