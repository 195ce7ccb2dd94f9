"""Data sets, configurations and models for tests of what Keras's names stand for."""

import keras
import tensorflow as tf

from sparksplit.base.config import parse
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.model import build
from sparksplit.model.description import data_description
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.training.train_config import TrainConfig

CLASSES = LabelSpec(dtype="int64", classes=["a", "b", "c"])
TWO = LabelSpec(dtype="int64", classes=["no", "yes"])
NUMBER = LabelSpec(dtype="float32", kind="number")
NUMBERS = LabelSpec(dtype="float32", kind="number", shape=[2])
SCALED = NUMBER.model_copy(update={"offset": 1000.0, "scale": 0.25})
SEVERAL = NUMBER.model_copy(update={"shape": [2], "offset": [1000.0, -8.0], "scale": [0.25, 2.0]})


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
    return config, data_description(described, 10), Inputs(described)


def model_of(*layers, shape=(4,)):
    return keras.Sequential([keras.layers.Input(shape), *layers])


def dense(units, activation=None):
    return model_of(keras.layers.Dense(units, activation))


def loss_of(label, units, outputs, labels, **keys):
    """The losses of given outputs."""
    config, data, inputs = parts(label, **keys)
    loss = build.build_loss(config, data, dense(units), inputs)
    return loss(tf.constant(labels), tf.constant(outputs, tf.float32)).numpy()


def metric_of(label, units, outputs, labels, names, **keys):
    config, data, inputs = parts(label, **({} if names is None else {"metrics": names}), **keys)
    metrics = build.build_metrics(config, data, dense(units), inputs)
    for metric in metrics.values():
        # In two unequal parts: a mean over rows, not over calls.
        for part in (slice(0, 1), slice(1, None)):
            metric.update_state(tf.constant(labels[part]), tf.constant(outputs[part], tf.float32))
    return {name: float(metric.result()) for name, metric in metrics.items()}
