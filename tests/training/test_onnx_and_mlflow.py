"""`mlflow` and `export` of whole runs, in a store in a folder."""

import mlflow
import numpy as np
import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.training import onnx_file
from sparksplit.training.progress_record import read_history
from tests.training.runs import run
from tests.training.tracking.conftest import quiet, store

__all__ = ["quiet", "store"]
pytestmark = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")  # mlflow.pyfunc's own


@pytest.mark.slow
def test_a_run_is_in_mlflow_and_gets_its_onnx_file_later_without_training(digits, tmp_path, forked, store):
    output = tmp_path / "run"
    first = run(digits, output, nodes=2, epochs=2, mlflow=True)
    (tracked,) = mlflow.search_runs(output_format="list")
    assert tracked.info.status == "FINISHED"
    found = mlflow.MlflowClient().get_metric_history(tracked.info.run_id, "validation_loss")
    history = read_history(str(output))
    assert [(each.step, each.value) for each in found] == [(one.epoch, one.validation["loss"]) for one in history]
    assert not (output / onnx_file.FILE).exists()
    assert run(digits, output, nodes=2, epochs=2, export="onnx") == first
    import onnxruntime
    import tensorflow as tf

    images = np.random.default_rng(1).integers(0, 17, (40, 8, 8)).astype("u1")
    session = onnxruntime.InferenceSession(output / onnx_file.FILE, providers=["CPUExecutionProvider"])
    (name,) = [each.name for each in session.get_inputs()]
    (theirs,) = session.run(None, {name: images})
    loaded = tf.saved_model.load(str(output / "saved_model" / "1"))
    ours = loaded.signatures["serving_default"](**{name: tf.constant(images)})["outputs"].numpy()
    assert np.abs(ours - theirs).max() < 1e-6
    assert mlflow.pyfunc.load_model(f"runs:/{tracked.info.run_id}/model").predict({name: images})["outputs"] == (
        ours.tolist()
    )


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
