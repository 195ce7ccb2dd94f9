"""What a process finds out by itself: its packages, a folder, a port."""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
import time
import zipfile

import pyspark
import pytest

from sparksplit.base.version import __version__
from sparksplit.operations import archives
from sparksplit.operations.check import probe


def test_own_facts():
    facts = probe.own_facts("127.0.0.1")
    assert facts["versions"]["tensorflow"].startswith("2.") and facts["versions"]["pyspark"] == pyspark.__version__
    assert facts["available_mebibytes"] > 0


def test_the_version_is_that_of_the_code_wherever_it_was_imported_from(tmp_path):
    """An archive that was packed before a change has the same number, and other code."""
    packed = archives.project_zip()
    (tmp_path / "same.zip").write_bytes(packed)
    with zipfile.ZipFile(io.BytesIO(packed)) as same, zipfile.ZipFile(tmp_path / "older.zip", "w") as older:
        for entry in same.infolist():
            more = b"# as it was\n" if entry.filename == "hdfs_io/fence.py" else b""
            older.writestr(entry, same.read(entry) + more)
    code = "from sparksplit.operations.check.probe import own_version; print(own_version())"
    same, older = (
        subprocess.run(
            [sys.executable, "-P", "-c", code],
            env={**os.environ, "PYTHONPATH": str(tmp_path / name)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for name in ("same.zip", "older.zip")
    )
    assert same == probe.own_version() == probe.own_facts("127.0.0.1")["versions"]["sparksplit"]
    assert re.fullmatch(rf"{re.escape(__version__)} \(code [0-9a-f]{{8}}\)", older) and older != same


def test_a_good_folder_is_left_as_it_was(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_text("")
    assert probe.try_folder(str(tmp_path), str(theirs)) == probe.Tried(None)
    assert [entry.name for entry in tmp_path.iterdir()] == ["theirs"]


def test_what_is_wrong_with_a_folder_is_told(tmp_path):
    assert probe.try_folder(f"{tmp_path}/no") == probe.Tried(f"{tmp_path}/no does not exist; create this folder first")
    assert probe.try_folder(__file__) == probe.Tried(f"{__file__} is not a folder")
    assert "is not the same folder as on the driver" in str(probe.try_folder(str(tmp_path), f"{tmp_path}/theirs").wrong)
    assert "unknown scheme nosuch://" in str(probe.try_folder("nosuch://host/x").wrong)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_told():
    # Also for root, who may write everywhere else.
    assert str(probe.try_folder("/proc/self").wrong).startswith("/proc/self/.sparksplit-check-")


def test_a_port_answers_with_the_time_and_is_gone_afterwards():
    with probe.port("127.0.0.1") as address:
        assert abs(probe.reach(address)) < 1
        assert abs(probe.reach(address)) < 1
    with pytest.raises(ConnectionRefusedError):
        probe.reach(address)


def test_a_port_that_drops_packets_is_given_up(monkeypatch):
    monkeypatch.setattr(probe, "REACH_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as silent:
        begin = time.monotonic()
        with pytest.raises(OSError, match="timed out"):
            probe.reach(silent.getsockname())
        assert time.monotonic() - begin < 60
