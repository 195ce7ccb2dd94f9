"""Two live drivers on one output in a local folder; on HDFS and under YARN: tests/hadoop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.two_drivers import superseded

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]


def test_a_driver_that_was_taken_for_dead_writes_nothing_more(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    superseded(digits, f"{tmp_path}/runs", tmp_path / "nodes", monkeypatch)
