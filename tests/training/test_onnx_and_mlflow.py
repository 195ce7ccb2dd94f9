"""`mlflow` and `export` of whole runs, in a store in a folder."""

import re
import shutil
from pathlib import Path

import mlflow
import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

import sparksplit
from sparksplit.base.errors import ConfigError
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.training import onnx_file
from sparksplit.training.progress_record import read_history
from tests.training.runs import run
from tests.training.tracking.conftest import quiet, store

__all__ = ["quiet", "store"]
pytestmark = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")  # mlflow.pyfunc's own


DOCS = Path(__file__).parent.parent.parent / "docs"


def program(page):
    """The first program of a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)[0]


def saved(output, images):
    """What the SavedModel in `output` gives."""
    loaded = tf.saved_model.load(str(output / "saved_model" / "1"))
    return loaded.signatures["serving_default"](x=tf.constant(images))["outputs"].numpy()


@pytest.fixture
def images():
    """Raw rows like the digits."""
    return np.random.default_rng(1).integers(0, 17, (40, 8, 8)).astype("u1")


@pytest.mark.slow
def test_a_run_on_a_cluster_is_in_mlflow_and_has_an_onnx_file(spark, digits, tmp_path, store, images):
    output = tmp_path / "run"
    keys = {"nodes": 2, "epochs": 2, "export": "onnx"}
    first = run(digits, output, mlflow=True, **keys)
    (tracked,) = mlflow.search_runs(output_format="list")
    assert tracked.info.status == "FINISHED"
    history = read_history(str(output))
    assert [one.epoch for one in history] == [1, 2]
    for split in ("train", "validation"):
        for metric in ("loss", "accuracy"):
            found = mlflow.MlflowClient().get_metric_history(tracked.info.run_id, f"{split}_{metric}")
            assert [(each.step, each.value) for each in found] == [
                (one.epoch, getattr(one, split)[metric]) for one in history
            ]
    tags = {key.removeprefix("sparksplit."): value for key, value in tracked.data.tags.items()}
    assert (tags["strategy"], tags["nodes"], tags["ledger.exact"], tags["complete"]) == ("batch", "2", "true", "true")
    assert (tags["run_id"], tags["application_id"]) == (first["run_id"], spark.sparkContext.applicationId)
    assert tracked.data.metrics["test_accuracy"] == first["metrics"]["test"]["accuracy"]
    assert (tracked.data.params["nodes"], tracked.data.params["epochs"]) == ("2", "2")

    session = onnxruntime.InferenceSession(output / onnx_file.FILE, providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"x": images})
    ours = saved(output, images)
    assert np.abs(ours - theirs).max() < 1e-6
    loaded = mlflow.pyfunc.load_model(f"runs:/{tracked.info.run_id}/model")
    np.testing.assert_array_equal(loaded.predict({"x": images})["outputs"], ours)

    (output / onnx_file.FILE).unlink()  # as if the key had not been there
    assert run(digits, output, **keys) == first
    assert (output / onnx_file.FILE).is_file()


@pytest.mark.slow
def test_the_programs_of_the_pages_run(fed, digits, tmp_path, store, images, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(digits, "data")
    training, last = program("mlflow.md").rsplit("\n", 2)[:2]
    names = {}
    exec(compile(training, "docs/mlflow.md", "exec"), names)
    (tracked,) = mlflow.search_runs(output_format="list")
    mlflow.register_model(f"runs:/{tracked.info.run_id}/model", "digits")
    shutil.move("run", "trained")  # the model itself is used
    exec(compile(last, "docs/mlflow.md", "exec"), names)
    found = sparksplit.Predictions.open("predictions").pandas()
    assert len(found) == 347 and sorted(path.name for path in tmp_path.iterdir() if "model-" in path.name) == []

    names = {"rows": images}
    shutil.move("trained", "run")
    exec(compile(program("onnx.md"), "docs/onnx.md", "exec"), names)  # the run is there already, and gets the file
    assert np.abs(names["outputs"][0] - saved(tmp_path / "run", images)).max() < 1e-6


@pytest.mark.parametrize(("missing", "key"), [("tf2onnx", "export"), ("mlflow", "mlflow")])
def test_an_extra_that_is_not_installed_is_an_error_before_anything_starts(missing, key, digits, tmp_path, monkeypatch):
    from sparksplit.training.tracking import tracker

    for module in (onnx_file, tracker):
        real = module.find_spec
        monkeypatch.setattr(module, "find_spec", lambda name, real=real: None if name == missing else real(name))
    with pytest.raises(
        ConfigError, match=rf"{key}: .*pip install 'sparksplit\[{'onnx' if key == 'export' else key}\]'"
    ):
        run(digits, tmp_path / "run", **{key: "onnx" if key == "export" else True})
    assert not (tmp_path / "run").exists() and PreparedDataSet.open(str(digits))
