"""The weights that a run begins with, as the driver checks and counts them."""

import json
import shutil
import zipfile

import numpy as np
import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import InputError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training.initial import Initial
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.messages import Payload
from sparksplit.training.train_config import TrainConfig
from tests.hdfs_io.outputs import begun


@pytest.fixture
def data(tmp_path):
    x = np.arange(60, dtype=np.uint8).reshape(30, 2)
    return from_arrays(f"{tmp_path}/data", {"train": (x, x[:, 0] % 2)}, lanes=4, classes=2)


def make_run(folder, data, weights=b"weights"):
    folder.mkdir()
    with zipfile.ZipFile(folder / "model.keras", "w") as archive:
        archive.writestr("model.weights.h5", weights)
    data.description.write(str(folder))
    (folder / "run.json").touch()
    (folder / "_SUCCESS").touch()
    return folder


def inputs_of(data, **keys):
    config = parse(TrainConfig, {"data": data.path, "output": "o", **keys})
    return RunInputs.of(config, open_data(config))


def test_the_weights_count_as_another_configuration_and_their_place_does_not(data, tmp_path):
    run = make_run(tmp_path / "run", data)
    shutil.copytree(run, tmp_path / "copy")
    other = make_run(tmp_path / "other", data, b"other weights")
    plain, one = inputs_of(data), inputs_of(data, init=f"{run}")
    assert one.hash() == inputs_of(data, init=f"{tmp_path}/copy").hash()
    assert one.hash() == inputs_of(data, init=f"{run}/model.keras").hash()
    assert len({plain.hash(), one.hash(), inputs_of(data, init=f"{other}").hash()}) == 3
    assert plain.initial is None and "init" not in plain.paths
    assert one.paths["init"] == f"{run}"


def test_nodes_get_the_file_and_its_digest(data, tmp_path):
    inputs = inputs_of(data, init=f"{make_run(tmp_path / 'run', data)}")
    plain = inputs_of(data)
    with begun(tmp_path / "o") as run:
        payload = Payload.of(inputs.config, inputs.data, run, {}, "a", 1, inputs.initial)
        without = Payload.of(plain.config, plain.data, run, {}, "a", 1)
    assert payload.train_config().init == f"{tmp_path}/run/model.keras"
    assert payload.init == inputs.initial.digest
    assert without.init is None


@pytest.mark.parametrize("name", ["_SUCCESS", "run.json"])
def test_an_incomplete_run_is_refused(data, tmp_path, name):
    (make_run(tmp_path / "run", data) / name).unlink()
    with pytest.raises(InputError, match=f"run: not a complete run of train: no {name} file"):
        inputs_of(data, init=f"{tmp_path}/run")
    with pytest.raises(InputError, match="gone: does not exist"):
        inputs_of(data, init=f"{tmp_path}/gone")


@pytest.mark.parametrize(
    ("command", "ending"), [("train", "; it is unfinished: repeat its train command to finish it"), ("compare", "")]
)
def test_an_unfinished_run_is_to_be_finished_first(data, tmp_path, command, ending):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "_CONFIG").write_text(json.dumps({"command": command}))
    with pytest.raises(InputError, match=f"no run.json file{ending}$"):
        inputs_of(data, init=f"{tmp_path}/run")


def test_other_fitted_numbers_are_worth_a_word(data, tmp_path):
    found = Initial.of(parse(TrainConfig, {"data": "d", "output": "o", "init": f"{make_run(tmp_path / 'run', data)}"}))
    assert found.warning(data.description) is None
    x = np.arange(60, dtype=np.float32).reshape(30, 2)
    other = from_arrays(f"{tmp_path}/other", {"train": (x, x[:, 0] > 9)}, lanes=4, scaling="standard")
    assert "was trained on data with other fitted numbers" in found.warning(other.description)
    alone = Initial.of(parse(TrainConfig, {"data": "d", "output": "o", "init": f"{tmp_path}/run/model.keras"}))
    assert alone.warning(other.description) is None


def test_booleans_that_are_spelled_in_another_way_stand_for_the_same(data):
    def of(classes):
        label = data.description.label.model_copy(update={"classes": classes})
        return data.description.model_copy(update={"label": label})

    found = Initial("model.keras", "", of(["0", "1"]))
    assert found.warning(of(["false", "true"])) is None
    assert "other labels" in found.warning(of(["no", "yes"]))


@pytest.mark.parametrize("change", [{"classes": ["1", "0"]}, {"offset": 2.0}, {"scale": 0.5}])
def test_outputs_that_stand_for_something_else_are_worth_a_word(data, tmp_path, change):
    """As many classes as before have a last layer of the same shape, which begins with the weights of other classes."""
    found = Initial.of(parse(TrainConfig, {"data": "d", "output": "o", "init": f"{make_run(tmp_path / 'run', data)}"}))
    other = data.description.model_copy(update={"label": data.description.label.model_copy(update=change)})
    assert "was trained on data with other labels" in found.warning(other)
