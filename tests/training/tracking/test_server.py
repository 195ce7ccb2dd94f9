"""A run in a real MLflow server: away at first, there at the end; its model registered, and found by its address."""

import os

import mlflow
import pytest

from sparksplit.inference.mlflow_models import run_folder
from sparksplit.training.run_record import RunRecord
from tests.caches import Unavailable
from tests.ports import free_ports
from tests.training.records import epoch
from tests.training.tracking.server import mlflow_python, serving
from tests.training.tracking.test_tracker import BEGUN, HASH, runs, steps, tracker


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")  # mlflow.pyfunc's own
@pytest.mark.outside
@pytest.mark.timeout(1500)
def test_a_server_that_starts_late_has_everything_and_its_registry_gives_the_model(finished, tmp_path, monkeypatch):
    try:
        mlflow_python()
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    (port,) = free_ports("127.0.0.1", 1)
    mlflow.set_tracking_uri(None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    one = tracker()
    one.began(HASH, BEGUN)
    one.epoch(epoch(1))
    with serving(tmp_path / "server", port):
        one.finished(str(finished), RunRecord.read(str(finished)))
        (run,) = runs()
        assert run.info.status == "FINISHED" and steps(run) == [1, 2, 3]
        version = mlflow.register_model(f"runs:/{run.info.run_id}/model", "digits").version
        for uri in (f"models:/digits/{version}", f"runs:/{run.info.run_id}/model"):
            with run_folder(uri, str(tmp_path / "predictions")) as folder:
                assert folder == str(finished)
