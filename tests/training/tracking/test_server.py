"""Runs in a real MLflow server that is away at first, or dies in the middle; a model found by its address."""

import os

import mlflow
import pytest

from sparksplit.inference.mlflow_models import run_folder
from sparksplit.training.run_record import RunRecord
from tests.caches import Unavailable
from tests.ports import free_ports
from tests.training.records import epoch
from tests.training.tracking.server import mlflow_python, serving
from tests.training.tracking.test_tracker import BEGUN, HASH, config, runs, settled, steps, tracker

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType"),  # mlflow.pyfunc's own
    pytest.mark.outside,
    pytest.mark.timeout(1500),
]


@pytest.fixture
def port(monkeypatch):
    """The port for a server, which the environment names."""
    try:
        mlflow_python()
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    (port,) = free_ports("127.0.0.1", 1)
    mlflow.set_tracking_uri(None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    return port


def test_a_server_that_starts_late_has_everything_and_its_registry_gives_the_model(port, finished, tmp_path):
    one = tracker()
    one.began(HASH, BEGUN, config())
    one.epoch(epoch(1))
    with serving(tmp_path / "server", port):
        one.finished(str(finished), RunRecord.read(str(finished)))
        (run,) = runs()
        assert run.info.status == "FINISHED" and steps(run) == [1, 2, 3]
        version = mlflow.register_model(f"runs:/{run.info.run_id}/model", "digits").version
        for uri in (f"models:/digits/{version}", f"runs:/{run.info.run_id}/model"):
            with run_folder(uri, str(tmp_path / "predictions")) as folder:
                assert folder == str(finished)


def test_a_server_that_dies_in_the_middle_gets_the_rest_from_the_same_command_later(port, finished, tmp_path, capsys):
    record = RunRecord.read(str(finished))
    one = tracker()
    with serving(tmp_path / "server", port):
        one.began(HASH, BEGUN, config())
        one.epoch(epoch(1))
        settled(one)
        (run,) = runs()
        assert run.info.status == "RUNNING" and steps(run) == [1]
    one.epoch(epoch(2))
    one.finished(str(finished), record)
    told = [line for line in capsys.readouterr().err.splitlines() if "MLflow:" in line]
    assert "the same train command sends what is missing" in told[-1]
    with serving(tmp_path / "server", port):
        tracker().finished(str(finished), record)
        (finished / "model.onnx").write_bytes(b"onnx")
        for _ in range(2):
            tracker().finished(str(finished), record)
        (run,) = runs()
        assert run.info.status == "FINISHED" and steps(run) == [1, 2, 3]
        assert run.data.metrics["test_loss"] == 1.25
        (model,) = run.outputs.model_outputs
        files = [file.path for file in mlflow.MlflowClient().list_logged_model_artifacts(model.model_id)]
        assert files.count("model.onnx") == 1
