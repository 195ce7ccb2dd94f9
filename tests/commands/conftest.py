"""What several tests of commands share."""

from __future__ import annotations

import pytest

from hdfs_io import preprocess


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where Spark would be started."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(preprocess, "spark_session", refuse)
