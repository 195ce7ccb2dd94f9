import json
import os
import socket
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from sparksplit.base.errors import InputError, Passing
from sparksplit.dataset.description import Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.inference import trained
from sparksplit.inference.trained import TrainedModel, probabilities
from tests.disks import make_read_only, small_disk
from tests.inference.runs import make_complete

FILES = ["preprocessing.json", "run.json", "_SUCCESS", "saved_model/1/saved_model.pb"]


@pytest.fixture
def run(tmp_path):
    """A run's folder with everything that the driver looks at, and no model."""
    label = LabelSpec(dtype="int64", classes=["0", "1"])
    description = Description(
        tensors=[TensorSpec(name="x", dtype="uint8", shape=[2])], label=label, preprocessing=FittedPreprocessing()
    )
    description.write(str(tmp_path))
    (tmp_path / "saved_model" / "1").mkdir(parents=True)
    (tmp_path / "saved_model" / "1" / "saved_model.pb").touch()
    make_complete(tmp_path)
    return tmp_path


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_the_model_never_gets_a_single_row(rows):
    """Its outputs would have other last digits than in a larger batch."""
    seen = []

    def model(tensors):
        seen.append({name: len(tensor) for name, tensor in tensors.items()})
        return tensors["x"] * 2

    x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    np.testing.assert_array_equal(trained.in_twos(model)({"x": x, "y": x[:, 0]}), x * 2)
    assert seen == [dict.fromkeys("xy", 2 if rows == 1 else rows)]


@pytest.mark.parametrize("file", FILES)
def test_a_run_without_one_of_its_files_is_refused_by_name(run, file):
    (run / file).unlink()
    with pytest.raises(InputError, match=file):
        TrainedModel.open(str(run))


def test_an_unfinished_run_is_to_be_finished_first(run):
    (run / "_SUCCESS").unlink()
    (run / "_CONFIG").write_text('{"command": "train"}')
    with pytest.raises(InputError, match=r"no _SUCCESS file; it is unfinished: repeat its train command to finish it$"):
        TrainedModel.open(str(run))


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="folder not found"):
        TrainedModel.open(str(tmp_path / "nothing"))


@pytest.mark.parametrize("content", ["[]", "{}", '{"run_id": "r"}'])
def test_a_run_json_of_another_kind(run, content):
    (run / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json: is not what train writes"):
        TrainedModel.open(str(run))


def test_the_digest_follows_the_weights_and_neither_place_nor_time(run, tmp_path):
    first = TrainedModel.open(str(run))
    values = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**values, "run_id": "later"}))
    again = TrainedModel.open(str(run))
    (run / "run.json").write_text(json.dumps({**values, "weights": "others"}))
    other = TrainedModel.open(str(run))
    assert first.digest == again.digest != other.digest


@pytest.mark.parametrize(
    ("loss", "logits"),
    [
        (None, False),
        ("sparse_categorical_crossentropy", False),
        ({"name": "SparseCategoricalCrossentropy", "from_logits": True}, True),
        ({"name": "SparseCategoricalCrossentropy"}, False),
    ],
)
def test_logits_are_known_by_the_loss(run, loss, logits):
    make_complete(run, loss=loss)
    assert TrainedModel.open(str(run)).logits is logits


def test_probabilities_stay_as_they_are():
    outputs = np.array([[0.25, 0.75]], np.float32)
    assert probabilities(outputs, 2, logits=False).tolist() == [[0.25, 0.75]]


def test_one_output_for_two_classes_is_the_second_ones():
    assert probabilities(np.array([[0.75]], np.float32), 2, logits=False).tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize("shape", [(3, 1), (3, 4), (3,), (3, 3, 1)])
def test_outputs_that_do_not_fit_the_classes(shape):
    with pytest.raises(ValueError, match="for 3 classes"):
        probabilities(np.zeros(shape, np.float32), 3, logits=False)


logits = st.floats(-1000, 1000, width=32)


@given(st.lists(st.tuples(logits, logits, logits), min_size=1, max_size=5))
def test_logits_become_probabilities_of_the_same_order(rows):
    outputs = np.array(rows, np.float32)
    found = probabilities(outputs, 3, logits=True)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (np.take_along_axis(found, outputs.argmax(axis=1)[:, None], 1)[:, 0] == found.max(axis=1)).all()


@given(logits)
def test_one_logit_is_the_difference_of_two(value):
    one = probabilities(np.array([[value]], np.float32), 2, logits=True)
    two = probabilities(np.array([[0, value]], np.float32), 2, logits=True)
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-15)


def test_outputs_at_each_of_several_places():
    outputs = np.log(np.array([[[1, 3], [1, 1]], [[3, 1], [1, 7]]], np.float32))
    found = probabilities(outputs, 2, logits=True, places=[2])
    np.testing.assert_allclose(found, [[[0.25, 0.75], [0.5, 0.5]], [[0.75, 0.25], [0.125, 0.875]]], rtol=1e-6)
    assert probabilities(np.array([[[0.75], [0.5]]]), 2, logits=False, places=[2]).tolist() == [
        [[0.25, 0.75], [0.5] * 2]
    ]
    with pytest.raises(ValueError, match=r"outputs are \[2\] per row, for 2 classes at each of \[2\]"):
        probabilities(np.zeros((3, 2)), 2, logits=False, places=[2])


KILLED = """
import os, signal, sys
from hdfs_io import filesystem
from pyarrow import fs
from sparksplit.inference import trained
filesystem.resolve = lambda path: (fs.SubTreeFileSystem(path, fs.LocalFileSystem()), "")  # as a remote one
with trained._local(sys.argv[1]) as copy:
    print(sorted(os.listdir(copy)), os.path.dirname(copy))
    if len(sys.argv) > 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_tasks_copy_of_the_model_goes_with_the_next(tmp_path):
    """Spark kills the Python of a cancelled task."""
    source, temporary = tmp_path / "saved", tmp_path / "tmp"
    for folder in (source, temporary):
        folder.mkdir()
    (source / "saved_model.pb").touch()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    for killed in (["killed"], []):
        command = [sys.executable, "-c", KILLED, str(source), *killed]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert "saved_model.pb" in said.stdout, said.stderr
        assert bool(list(temporary.iterdir())) == bool(killed)


def test_a_temporary_folder_that_cannot_hold_the_copy_is_named_with_its_host(run, tmp_path, monkeypatch):
    model = TrainedModel.open(str(run))
    remote = fs.SubTreeFileSystem(str(run), fs.LocalFileSystem())
    monkeypatch.setattr(trained.filesystem, "resolve", lambda path: (remote, "saved_model"))
    monkeypatch.setattr(trained, "_tensorflow", lambda threads: None)
    with small_disk(tmp_path / "disk") as disk:
        make_read_only(disk)
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        with pytest.raises(Passing, match=rf"^{disk} on {socket.gethostname()}: cannot be written: Read-only file sys"):
            trained._load(model, 1)
