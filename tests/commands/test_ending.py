"""The exit status that a shell or a scheduler sees."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

AWAY = """
import sys, time
from hdfs_io import hdfs, hdfs_client, lease
from sparksplit.base.config import Config
from sparksplit.base.errors import RunError
from sparksplit.commands.command import Command
from sparksplit.commands.ending import end

hdfs_client.PATIENCE, hdfs_client._PAUSE, lease.EXPIRE_SECONDS, lease.RENEW_SECONDS = 1.0, 0.05, 0.5, 0.1

class Away:
    def __getattr__(self, name):
        def call(*arguments, **more):
            raise RuntimeError('IOError("Connection refused (os error 111)")')
        return call

hdfs.client = hdfs_client.client = lambda authority: Away()

def run(config, options):
    held = lease.Lease("hdfs://nn:8020/user/a/run", "train")
    held._start()
    time.sleep(0.3)
    try:
        raise RunError("hdfs://nn:8020/user/a/run: HDFS has failed for 120 s")
    finally:
        held.release()

class Keys(Config):
    pass

status = Command("train", "", Keys, run).main([])
print("status", status)
end(status)
"""
"""A command that holds its lease when the NameNode goes away."""


def test_the_exit_status_is_the_commands_though_hdfs_is_away_at_its_end() -> None:
    """The lease's thread still waits for HDFS when the command gives up."""
    said = subprocess.run(
        [sys.executable, "-c", AWAY], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (said.returncode, said.stdout) == (1, "status 1\n"), said.stderr
    assert "HDFS has failed for 120 s" in said.stderr and "Fatal" not in said.stderr


UPLOADS = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from sparksplit.commands.ending import end
from sparksplit.training.tracking import tracker

tracker._SILENT = 0.1

def upload():
    with ThreadPoolExecutor() as pool:  # as MLflow's stores do
        pool.submit(time.sleep, 50).result()

tracker.Sender("").send_last(upload, 0.2, "later")
end(3)
"""
"""A command whose upload to MLflow never ends."""


def test_the_command_ends_though_an_upload_to_mlflow_does_not() -> None:
    said = subprocess.run(
        [sys.executable, "-c", UPLOADS], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )
    assert said.returncode == 3 and "MLflow: not done after 0 s; later" in said.stderr


STOPPED = """
import os, signal
import pytest
from hdfs_io import ending, filesystem, hdfs_client, lease
from hdfs_io.publish import Output
from sparksplit.base.config import Config
from sparksplit.commands.command import Command
from sparksplit.commands.ending import end
from tests.hdfs_io.name_node import AWAY, NameNode, use

namenode = NameNode("/runs")
use(namenode, pytest.MonkeyPatch())
hdfs_client.PATIENCE = hdfs_client.FIRST_CONTACT = lease.EXPIRE_SECONDS = 3600.0
ending.SECONDS = 0.3

def run(config, options):
    output = Output("hdfs://nn:8020/runs/deep/out", "hash", "preprocess")
    with output.claimed(), output.staging() as folder:
        filesystem.write_bytes(f"{folder}/part", b"x")
        namenode.away = AWAY
        os.kill(os.getpid(), signal.SIGTERM)

class Keys(Config):
    pass

end(Command("preprocess", "", Keys, run).main([]))
"""
"""A command that a scheduler stops while the NameNode is away. Each of its calls alone would try for an hour."""


def test_a_command_that_is_stopped_while_hdfs_is_away_ends_soon() -> None:
    said = subprocess.run(
        [sys.executable, "-c", STOPPED], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert said.returncode == 143, said.stderr
    assert said.stderr.endswith("sparksplit preprocess: stopped by SIGTERM\n")


def test_without_such_a_thread_the_end_is_pythons_own() -> None:
    """In a process of its own: a worker of these tests may have had such a thread before, and would be gone."""
    program = "import atexit; from sparksplit.commands.ending import end; atexit.register(print, 'orderly'); end(3)"
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (3, "orderly\n"), said.stderr


def test_every_program_ends_with_the_commands_status() -> None:
    """Of the files for spark-submit, and of the `sparksplit` command."""
    for file in (ROOT / "jobs").glob("*.py"):
        assert re.search(r"^    end\(main\(\)\)$", file.read_text(), re.MULTILINE), file
    assert 'sparksplit = "sparksplit.commands.cli:program"' in (ROOT / "pyproject.toml").read_text()
