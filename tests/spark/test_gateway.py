"""How Spark's JVM gets its settings."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark import java_gateway

from sparksplit.spark import gateway
from sparksplit.spark.settings import properties


@pytest.mark.parametrize("fails", [False, True])
def test_settings_are_in_a_file_of_this_user_until_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    seen: list[object] = []

    def launch_gateway() -> str:
        arguments = os.environ["PYSPARK_SUBMIT_ARGS"]
        option, file, *others = shlex.split(arguments)
        seen.extend([option, others, oct(Path(file).stat().st_mode), properties.read(Path(file).read_text())])
        assert "spice" not in arguments
        if fails:
            raise ConnectionError
        return "started"

    monkeypatch.setattr(java_gateway, "launch_gateway", launch_gateway)
    before = "--jars a.jar --conf spark.hadoop.key=spice pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", before)
    wanted = {"spark.hadoop.key": "spice", "spark.app.name": "a name=\u00e9"}
    old = os.umask(0)
    try:
        if fails:
            with pytest.raises(ConnectionError):
                gateway.launch({**wanted, "hive.key": "not Spark's"}, tmp_path)
        else:
            assert gateway.launch({**wanted, "hive.key": "not Spark's"}, tmp_path) == "started"
    finally:
        os.umask(old)
    assert seen == ["--properties-file", ["--jars", "a.jar", "pyspark-shell"], "0o100600", wanted]
    assert list(tmp_path.iterdir()) == []
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == before


def test_what_pyspark_waits_with_is_in_the_sessions_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that is killed while its JVM starts leaves it there, where the next command removes it."""
    beside, own = tmp_path / "beside", tmp_path / "own"
    beside.mkdir()
    own.mkdir()
    seen: list[list[str]] = []

    def started(command: list[str], **options: Any) -> None:
        seen.append([str(Path(options["env"]["_PYSPARK_DRIVER_CONN_INFO_PATH"]).parent.parent)])
        seen.append([path.name for path in beside.iterdir()])
        raise ConnectionError

    monkeypatch.setattr(tempfile, "tempdir", str(beside))
    monkeypatch.setattr(java_gateway, "Popen", started)
    with pytest.raises(ConnectionError):
        gateway.launch({"spark.app.name": "a name"}, own)
    assert seen == [[str(own)], []]
    assert list(own.iterdir()) == [] and vars(java_gateway)["tempfile"] is tempfile
