"""What TensorFlow and Keras write where the disk is full: one line with the folder, that passes, and nothing left."""

import subprocess
import sys
from pathlib import Path

import keras
import pytest

from sparksplit.base.errors import Passing
from sparksplit.model import export
from sparksplit.model.graphs.inputs import Inputs
from sparksplit.model.writing import writing
from tests.disks import small_disk
from tests.hdfs_io.outputs import fenced
from tests.model.parts import SCALED, description, model_of


def model():
    """Of 0.2 MB."""
    return model_of(keras.layers.Dense(10000))


@pytest.mark.parametrize("kibibytes", [16, 250, 400])
def test_an_export_that_finds_the_disk_full(tmp_path, kibibytes):
    """While model.keras is written; and the graph, or the weights, of the SavedModel."""
    with small_disk(tmp_path / "scratch", kibibytes) as scratch:
        full = rf"^{scratch}: cannot be written: No space left on device$"
        with fenced(tmp_path / "run") as run, pytest.raises(Passing, match=full):
            export.export(model(), Inputs(description(SCALED)), run, str(scratch))
        assert list(scratch.iterdir()) == []
    assert list((tmp_path / "run").iterdir()) == []


def test_events_that_find_the_disk_full(tmp_path):
    import tensorflow as tf

    with small_disk(tmp_path / "scratch", 8) as scratch:
        full = rf"^{scratch}: cannot be written: No space left on device$"
        with pytest.raises(Passing, match=full), writing(str(scratch)):  # noqa: SIM117
            with tf.summary.create_file_writer(str(scratch / "train")).as_default():
                for step in range(1000):
                    tf.summary.scalar("loss", 0.5, step=step)


def test_a_folder_that_was_cleaned_away_is_the_hosts_failure(tmp_path):
    """What Keras and TensorFlow say of it differs, and their errors too."""
    import tensorflow as tf

    gone = tmp_path / "gone"
    attempts = [
        lambda: model().save(gone / "model.keras"),
        lambda: tf.raw_ops.ReadFile(filename=str(gone / "x")),
        lambda: tf.io.gfile.GFile(str(gone / "x"), "w").write("x"),
        (gone / "export").mkdir,
    ]
    for attempt in attempts:
        with (
            pytest.raises(Passing, match=rf"^{gone}: cannot be written: .*No such file or directory"),
            writing(str(gone)),
        ):
            attempt()


WEIGHTS = """
import os, sys
from sparksplit.base.errors import Passing
from sparksplit.model import initial_weights
from tests.model.test_writing import model

try:
    initial_weights.take(model(), b"", sys.argv[1])
except Passing as error:
    print(error, flush=True)
os._exit(0)
"""
"""In a process of its own, that ends as nodes do: an orderly end of h5py's crashes after that."""


@pytest.mark.slow
def test_weights_to_begin_with_that_find_the_disk_full(tmp_path):
    with small_disk(tmp_path / "scratch", 16) as scratch:
        command = [sys.executable, "-c", WEIGHTS, str(scratch)]
        root = Path(__file__).parents[2]
        said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=root)
        assert said.stdout == f"{scratch}: cannot be written: No space left on device\n", said.stderr
        assert list(scratch.iterdir()) == []


def test_other_errors_stay_what_they_are(tmp_path):
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError), writing(str(tmp_path)):
        tf.reshape(tf.zeros(3), [2])
