"""What several tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparksplit.base.shipped import shipped
from sparksplit.commands import preprocess as command
from sparksplit.inference import predict as predict_module
from sparksplit.prepare import preprocess


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where `preprocess` or `predict` would start Spark."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    for module in (preprocess, predict_module):
        monkeypatch.setattr(module, "session_with_executors", refuse)


@pytest.fixture(scope="session")
def mnist(spark: SparkSession, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real MNIST, prepared from its IDX files by the shipped configuration."""
    folder = tmp_path_factory.mktemp("mnist") / "prepared"
    arguments = ["--config", shipped("conf/preprocess-mnist.yaml"), "--set", f"input.path={data / 'mnist'}"]
    assert command.main([*arguments, "--set", f"output={folder}"]) == 0
    return folder
