"""What the exported model gives."""

import keras
import tensorflow as tf

from hdfs_io.preprocessing import TensorSpec
from sparksplit.model import export
from sparksplit.model.inputs import Inputs
from tests.hdfs_io.outputs import fenced
from tests.model.parts import SCALED, description, model_of


def test_the_exported_model_gives_numbers_in_the_labels_units(tmp_path):
    tensors = [*description().tensors, TensorSpec(name="weight", dtype="float32", shape=[])]
    inputs = Inputs(description(SCALED, tensors))
    model = model_of(keras.layers.Dense(1, kernel_initializer="ones"))
    (tmp_path / "scratch").mkdir()
    with fenced(tmp_path) as run:
        export.export(model, inputs, run, str(tmp_path / "scratch"))
    signature = tf.saved_model.load(export.saved_model(str(tmp_path))).signatures[export.SIGNATURE]
    assert list(signature.structured_input_signature[1]) == ["x"]
    x = tf.constant([[1, 2, 3, 4]], tf.uint8)
    assert signature(x=x)["outputs"].numpy().tolist() == [[10 / 0.25 + 1000]]
