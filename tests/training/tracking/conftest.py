"""A finished run and an MLflow store for tests of what is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model.parts import description
from tests.training.records import epoch, run_record


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    for name in ("MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """The folder of a run of three rounds. Its SavedModel is an empty file."""
    folder = tmp_path / "run"
    (folder / "saved_model" / "1").mkdir(parents=True)
    (folder / "saved_model" / "1" / "saved_model.pb").touch()
    (folder / "run.json").write_text(json.dumps(run_record().to_json()))
    lines = [json.dumps(epoch(number).to_json()) for number in (1, 2, 3)]
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    description().write(str(folder))
    (folder / "_SUCCESS").touch()
    return folder


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """MLflow's store in a folder, which the environment names."""
    import mlflow

    uri = (tmp_path / "store").as_uri()
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    mlflow.set_tracking_uri(None)
    yield uri
    while mlflow.active_run() is not None:
        mlflow.end_run()
