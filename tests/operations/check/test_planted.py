"""Misconfigurations that are planted in real clusters: `check` finds each of them, names its key, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

# In executors, before anything else: another version of a package, and a clock that is an hour ahead.
OTHER_VERSION = "Metadata-Version: 2.1\nName: pyarrow\nVersion: 1.0\n"
OTHER_CLOCK = "import time\nreal = time.time\ntime.time = lambda: real() + 3600\n"


@pytest.fixture
def found(tmp_path):
    """Exit status and the lines of what `sparksplit check` finds under Spark's `settings`."""

    def check(settings, *arguments):
        (tmp_path / "conf").mkdir()
        text = "".join(f"{key} {value}\n" for key, value in settings.items())
        (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "sparksplit.commands.cli", "check", *arguments],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "SPARK_CONF_DIR": str(tmp_path / "conf"), "COLUMNS": "250"},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        last = max(number for number, line in enumerate(done.stdout.splitlines()) if line[:1] in "└ ")
        return done.returncode, done.stdout.splitlines()[last + 1 :], done.stderr

    return check


def test_what_executors_tell(found, tmp_path):
    """Four at once: Python workers that start anew, another version, a missing folder, a clock that is ahead."""
    planted = tmp_path / "planted"
    (planted / "pyarrow-1.0.dist-info").mkdir(parents=True)
    (planted / "pyarrow-1.0.dist-info" / "METADATA").write_text(OTHER_VERSION)
    (planted / "sitecustomize.py").write_text(OTHER_CLOCK)
    settings = {"spark.python.worker.reuse": "false", "spark.executorEnv.PYTHONPATH": planted}
    status, lines, errors = found(settings, "--nodes", "2", "--path", "/nowhere/at/all")
    assert status == 2, errors
    assert len(lines) == 4, lines
    assert lines[0].startswith("spark.python.worker.reuse: must be true (is false)")
    assert lines[1].startswith("pyarrow: must be ") and "(is 1.0 on " in lines[1]
    assert lines[2].startswith("path: ") and "/nowhere/at/all does not exist; create this folder first" in lines[2]
    assert lines[3].startswith("clock: ") and "s ahead of the driver" in lines[3]
    assert errors.splitlines()[-1] == "sparksplit check: 4 problems, listed above"


def test_wrong_settings(found):
    settings = {
        "spark.master": "local-cluster[2,2,1024]",
        "spark.dynamicAllocation.enabled": "true",
        "spark.speculation": "true",
        "spark.executor.pyspark.memory": "2g",
    }
    status, lines, errors = found(settings, "--nodes", "3")
    assert status == 2, errors
    for start in (
        "spark.dynamicAllocation.enabled: must be false (is true)",
        "spark.speculation: must be false (is true)",
        "spark.executor.pyspark.memory: must not be set (is 2g)",
        "spark.master: local-cluster[2,2,1024] is 2 executors of 2 cores",
        "nodes: 3 nodes need 3 executors, and the settings allow",
    ):
        assert any(line.startswith(start) for line in lines), (start, lines, errors)
