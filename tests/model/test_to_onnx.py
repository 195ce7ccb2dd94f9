"""A SavedModel as an ONNX file: onnxruntime gives what TensorFlow gives."""

import sys

import keras
import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from sparksplit.dataset import feature_spec
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorPreprocessing, TensorSpec
from sparksplit.dataset.feature_spec import Date, Text
from sparksplit.features.names import serving_names
from sparksplit.model import to_onnx
from sparksplit.model.export import SIGNATURE, export, saved_model
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.training.onnx_file import obstacle
from tests.hdfs_io.outputs import fenced
from tests.model import features as tables
from tests.model.parts import description, model_of


def converted(model, data, folder, monkeypatch):
    """(the SavedModel's default endpoint with what keeps it alive, onnxruntime's session)."""
    monkeypatch.setattr(sys, "argv", ["a test"])
    (folder / "scratch").mkdir()
    with fenced(folder) as run:
        export(model, Inputs(data), run, str(folder / "scratch"))
    to_onnx.convert(saved_model(str(folder)), str(folder / "model.onnx"))
    loaded = tf.saved_model.load(saved_model(str(folder)))
    return loaded, onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])


def test_the_file_applies_the_fitted_preprocessing(tmp_path, monkeypatch):
    fitted = FittedPreprocessing(tensors={"x": TensorPreprocessing(offset=3.0, scale=0.125)})
    data = description(preprocessing=fitted)
    model = model_of(keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax"))
    loaded, session = converted(model, data, tmp_path, monkeypatch)
    x = np.random.default_rng(1).integers(0, 256, (50, 4)).astype("u1")
    ours = loaded.signatures[SIGNATURE](x=tf.constant(x))["outputs"].numpy()
    (theirs,) = session.run(None, {"x": x})
    assert np.abs(ours - theirs).max() < 1e-6
    assert np.abs(ours - model((x - 3.0) * 0.125).numpy()).max() < 1e-6


def alone(feature, dtype):
    """A data set whose only column is `feature`."""
    tensor = TensorSpec(name="t", dtype=dtype, shape=[feature.values])
    label = LabelSpec(dtype="int64", classes=["no", "yes"])
    feature = feature.model_copy(update={"tensor": "t", "place": 0})
    return Description(tensors=[tensor], label=label, preprocessing=FittedPreprocessing(), features=[feature])


EVERY = tables.description()
DTYPES = {tensor.name: tensor.dtype for tensor in EVERY.tensors}


@pytest.mark.parametrize("feature", [f for f in EVERY.features if obstacle(f) is None], ids=lambda f: f.column)
def test_a_column_of_a_table_gives_the_same_in_onnx(feature, tmp_path, monkeypatch):
    """Messy values, missing values among them. Indices go through an embedding, as in the model `tabular`."""
    keras.utils.set_random_seed(1)
    data = alone(feature, DTYPES[feature.tensor])
    loaded, session = converted(small(data), data, tmp_path, monkeypatch)
    (values,) = tables.raw([feature], tables.messy([feature], 200, seed=7))
    (name,) = serving_names([feature]).values()
    ours = loaded.signatures[SIGNATURE](**{name: tf.constant(values)})["outputs"].numpy()
    (theirs,) = session.run(
        None, {name: np.array([text.decode() for text in values], object) if values.dtype == object else values}
    )
    assert np.abs(ours - theirs).max() < 1e-6


def small(data):
    """A model whose outputs stay small."""
    ((name, shape),) = feature_spec.inputs(data.features).items()
    if name == feature_spec.NUMBERS:
        # Some numbers are so great that nothing else would count.
        return model_of(keras.layers.Activation("tanh"), keras.layers.Dense(2, "softmax"), shape=shape)
    given = keras.Input(shape, name=name, dtype="int32")
    flat = keras.layers.Flatten()(keras.layers.Embedding(2000, 3)(given))
    return keras.Model(given, keras.layers.Dense(2, "softmax")(flat))


def test_a_column_that_onnx_cannot_prepare_is_named_with_what_to_do():
    found = {feature.column: obstacle(feature) for feature in EVERY.features}
    cannot = {column for column, why in found.items() if why is not None}
    assert cannot == {
        "hours-per-week",
        "größe",
        "flag",
        "digits",
        "day",
        "moment",
        "us",
        "on.at",
        "date",
        "words",
        "the letters.1",
    }
    assert all("prepare" in why for why in found.values() if why is not None)


REFUSED = [
    pytest.param(feature, marks=[pytest.mark.slow] if isinstance(feature, Date | Text) else [])
    for feature in EVERY.features
    if obstacle(feature) is not None
]


@pytest.mark.parametrize("feature", REFUSED, ids=lambda f: f.column)
def test_a_column_that_is_refused_would_fail(feature, tmp_path, monkeypatch):
    data = alone(feature, DTYPES[feature.tensor])
    with pytest.raises(Exception, match=r"ONNX has no|has no attribute"):
        converted(small(data), data, tmp_path, monkeypatch)
