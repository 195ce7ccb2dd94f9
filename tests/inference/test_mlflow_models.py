"""Models in MLflow as the run folders that `predict` reads."""

import shutil

import mlflow
import pytest

from sparksplit.base.errors import InputError
from sparksplit.inference.mlflow_models import is_uri, run_folder
from sparksplit.training.run_record import RunRecord
from sparksplit.training.tracking.tracker import Tracker
from tests.training.tracking.conftest import finished, quiet, store

__all__ = ["finished", "quiet", "store"]
pytestmark = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")  # mlflow.pyfunc's own


@pytest.fixture
def logged(store, finished):
    """The address of the finished run's model."""
    Tracker(str(finished), None).finished(str(finished), RunRecord.read(str(finished)))
    (run,) = mlflow.search_runs(output_format="list")
    return f"runs:/{run.info.run_id}/model"


def test_what_counts_as_an_address():
    assert is_uri("models:/digits/1") and is_uri("runs:/0a/model")
    assert not is_uri("hdfs:///runs/1") and not is_uri("models/1")


def test_the_run_s_own_folder_is_used_while_it_is_there(logged, finished, tmp_path):
    with run_folder(logged, str(tmp_path / "predictions")) as folder:
        assert folder == str(finished)


def test_a_copy_beside_the_output_is_used_otherwise_and_removed(logged, finished, tmp_path, capsys):
    shutil.move(finished, tmp_path / "elsewhere")
    with run_folder(logged, str(tmp_path / "new" / "predictions")) as folder:
        assert folder.startswith(str(tmp_path / "new" / ".predictions.model-"))
        assert RunRecord.read(folder).run_id == RunRecord.read(str(tmp_path / "elsewhere")).run_id
    assert not (tmp_path / "new").exists()
    assert "a copy is used" in capsys.readouterr().err


def test_another_run_in_the_folder_is_not_taken_for_it(logged, finished, tmp_path):
    record = (finished / "run.json").read_text()
    (finished / "run.json").write_text(record.replace("1795335896", "1795335897"))
    with run_folder(logged, str(tmp_path / "predictions")) as folder:
        assert folder != str(finished)


@pytest.mark.parametrize("uri", ["runs:/0123456789abcdef0123456789abcdef/model", "models:/nothing/1"])
def test_an_address_without_a_model_is_an_error_that_names_it(uri, store, tmp_path):
    with pytest.raises(InputError, match=f"^{uri}: "), run_folder(uri, str(tmp_path / "predictions")):
        pass
