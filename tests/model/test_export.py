"""What the exported model gives."""

import keras
import pytest
import tensorflow as tf

from sparksplit.dataset.description import TensorSpec
from sparksplit.model import export
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.graphs.labels import scaled, unscaled
from tests.hdfs_io.outputs import fenced
from tests.model.parts import SCALED, description, model_of


@pytest.mark.parametrize("whole", [False, True])
def test_the_exported_model_gives_numbers_in_the_labels_units_and_digits(tmp_path, whole):
    tensors = [*description().tensors, TensorSpec(name="weight", dtype="float32", shape=[])]
    offset = 20241231235959.0 if whole else 1000.0
    label = SCALED.model_copy(update={"dtype": "float64" if whole else "float32", "offset": offset})
    inputs = Inputs(description(label, tensors))
    model = model_of(keras.layers.Dense(1, kernel_initializer="ones"))
    (tmp_path / "scratch").mkdir()
    with fenced(tmp_path) as run:
        export.export(model, inputs, run, str(tmp_path / "scratch"))
    signature = tf.saved_model.load(export.saved_model(str(tmp_path))).signatures[export.SIGNATURE]
    assert list(signature.structured_input_signature[1]) == ["x"]
    x = tf.constant([[1, 2, 3, 4]], tf.uint8)
    assert signature(x=x)["outputs"].numpy().tolist() == [[10 / 0.25 + offset]]
    given = scaled(tf.constant([offset + 8], label.dtype), label)
    assert (given.dtype, given.numpy().tolist()) == (tf.float32, [2.0])
    # What is not scaled still goes to the loss in the model's float type.
    plain = label.model_copy(update={"offset": 0.0, "scale": 1.0})
    assert (
        scaled(tf.constant([8], label.dtype), plain).dtype == unscaled(tf.constant([8.0]), SCALED).dtype == tf.float32
    )
    assert unscaled(tf.constant([8.0]), plain).dtype.name == label.dtype
