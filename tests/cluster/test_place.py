"""Where a node's log is, by what its processes know."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparksplit.cluster.place import own_place, place

PAGE = "http://host:8081/logPage/?appId=app-1&executorId=3&logType=stderr"


@pytest.mark.parametrize(
    ("container", "application"),
    [
        ("container_1700000000000_0007_01_000004", "application_1700000000000_0007"),
        ("container_e17_1700000000000_0007_01_000004", "application_1700000000000_0007"),
    ],
)
def test_on_yarn_it_is_the_command_that_shows_it(tmp_path: Path, container: str, application: str) -> None:
    (tmp_path / "stderr").touch()
    found = place("3", tmp_path, {"CONTAINER_ID": container, "SPARK_LOG_URL_STDERR": PAGE})
    assert found == f"executor 3, yarn logs -applicationId {application} -containerId {container}"


def test_elsewhere_it_is_the_file_or_else_its_page(tmp_path: Path) -> None:
    variables = {"CONTAINER_ID": "somebody else's", "SPARK_LOG_URL_STDERR": PAGE}
    assert place("3", tmp_path, variables) == f"executor 3, {PAGE}"
    (tmp_path / "stderr").touch()
    assert place("3", tmp_path, variables) == f"executor 3, {tmp_path}/stderr"
    assert place("3", tmp_path / "other", {}) == "executor 3"
    assert place("3", tmp_path, {"SPARKSPLIT_SESSION": "a folder that is gone soon"}) == "executor 3"
    assert place(None, tmp_path, variables) == ""


def test_the_executor_is_found_at_any_depth_and_none_where_there_is_none() -> None:
    assert own_place() == ""
    show = "from sparksplit.cluster.place import own_place; print(own_place())"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {show!r}])"
    executor = [sys.executable, "-c", child, "--driver-url", "x", "--executor-id", "12", "--cores", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    printed = subprocess.run(executor, capture_output=True, text=True, env=environment, check=True, timeout=60).stdout
    assert printed.strip() == "executor 12"
