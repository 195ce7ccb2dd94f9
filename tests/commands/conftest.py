"""What several tests of commands share."""

from __future__ import annotations

import pytest

from sparksplit.inference import run as inference_run
from sparksplit.prepare import preprocess


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where `preprocess` or `predict` would start Spark."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    for module in (preprocess, inference_run):
        monkeypatch.setattr(module, "session_with_executors", refuse)
