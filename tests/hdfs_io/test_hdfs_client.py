"""What HDFS's own errors mean, from the words that hdfs-native gives them."""

from __future__ import annotations

import io
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from pyarrow import fs

from hdfs_io import hdfs, hdfs_client
from hdfs_io.errors import file_error, using
from hdfs_io.hdfs_client import _Passing, translated
from sparksplit.base.errors import InputError, Passing, RunError
from tests.disks import small_disk

HOST = socket.gethostname()


def rpc(name: str, line: str) -> RuntimeError:
    return RuntimeError(f'RPCError("{name}", "{line}\\n\\tat org.apache.hadoop.x(Y.java:1)")')


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.hadoop.security.AccessControlException", InputError),
        ("org.apache.hadoop.fs.ParentNotDirectoryException", InputError),
        ("org.apache.hadoop.fs.InvalidPathException", InputError),
        ("org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException", InputError),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", Passing),
        ("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", Passing),
        ("java.io.IOException", Passing),
        ("java.lang.OutOfMemoryError", Passing),
    ],
)
def test_what_the_name_node_refuses_is_the_users_only_where_it_names_the_path(name: str, kind: type[Exception]) -> None:
    found = file_error("hdfs://a/x", "cannot be written", translated(rpc(name, r"its \"own\" words")))
    assert type(found) is kind
    assert str(found) == 'hdfs://a/x: cannot be written: its "own" words'


@pytest.mark.parametrize("name", ["org.apache.hadoop.hdfs.server.namenode.SafeModeException", "a.StandbyException"])
def test_a_name_node_that_is_busy_is_asked_again(name: str) -> None:
    assert isinstance(translated(rpc(name, "wait")), _Passing)
    assert isinstance(translated(RuntimeError('DataTransferError("gone")')), _Passing)


class NameNode:
    """Files by path, and what goes wrong with a rename: before it is done, or after that."""

    def __init__(self, files: dict[str, str], before: list[Exception], after: list[Exception]) -> None:
        self.files, self.before, self.after = files, before, after

    def rename(self, old: str, new: str, overwrite: bool) -> None:
        if self.before:
            raise self.before.pop()
        if old not in self.files:
            raise FileNotFoundError(old)
        if new in self.files and not overwrite:
            raise EXISTED
        self.files[new] = self.files.pop(old)
        if self.after:
            raise self.after.pop()

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def get_file_info(self, path: str) -> SimpleNamespace:
        if path not in self.files:
            raise FileNotFoundError(path)
        return SimpleNamespace(isdir=False, length=1, modification_time=0)


LOST, REFUSED = RuntimeError('IOError("reset")'), rpc("a.DSQuotaExceededException", "full")
EXISTED = rpc("org.apache.hadoop.fs.FileAlreadyExistsException", "rename destination /new already exists")


@pytest.mark.parametrize(
    ("there", "before", "after", "made"),
    [
        ({}, [], [], True),
        ({}, [LOST], [], True),
        ({}, [], [LOST], True),
        ({}, [], [FileNotFoundError("/old")], True),  # hdfs-native has asked twice
        ({"/new": "other's"}, [], [], False),
        ({"/new": "other's"}, [LOST], [], False),
        ({"/new": "other's"}, [REFUSED], [], False),
        ({}, [EXISTED], [], False),  # and has been removed since
        ({}, [REFUSED], [], None),
    ],
)
def test_a_new_file_is_ones_own_whatever_answer_was_lost(there, before, after, made, monkeypatch):
    """And what was to become it is gone in any case."""
    namenode = NameNode({"/old": "mine", **there}, list(before), list(after))
    monkeypatch.setattr(hdfs, "client", lambda authority: namenode)
    monkeypatch.setattr("hdfs_io.hdfs_client._PAUSE", 0.001)
    files = cast("fs.PyFileSystem", hdfs.file_system("host:1")).handler
    if made is None:
        with pytest.raises(OSError, match="full"):
            files.move_new("/old", "/new")
    else:
        assert files.move_new("/old", "/new") is made
    assert namenode.files == ({"/new": "mine"} if made else there)


def test_a_file_that_the_name_node_has_refused_is_not_said_to_be_left(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise rpc("org.apache.hadoop.security.AccessControlException", "Permission denied: user=alice")

    refusing = SimpleNamespace(inner=SimpleNamespace(create=refuse), delete=refuse)
    monkeypatch.setattr(hdfs, "client", lambda authority: refusing)
    files = cast("fs.PyFileSystem", hdfs.file_system("host:1")).handler
    with pytest.raises(PermissionError, match="user=alice"):
        files._send("/runs/x", io.BytesIO(b"x"))
    assert caplog.text == ""


def test_a_file_that_another_replaces_while_it_is_read_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class File(bytes):
        def read_range(self, start: int, count: int) -> bytes:
            if start >= 4 and self.startswith(b"old"):
                raise OSError("its blocks are gone")
            return self[start : start + count]

    monkeypatch.setattr("hdfs_io.hdfs_client._PAUSE", 0.001)
    monkeypatch.setattr(hdfs, "_AHEAD_BYTES", 4)
    files = [File(b"old-old-"), File(b"new-new-new-")]
    reader = hdfs._Reader("hdfs://a/x", lambda: files[0])
    assert reader.read(4) == b"old-"
    files.pop(0)
    with (
        pytest.raises(RunError, match=r"^hdfs://a/x: cannot be read: the file was replaced while it was"),
        using("hdfs://a/x"),
    ):
        reader.read()


def test_a_file_that_is_dropped_is_not_sent_and_leaves_nothing_open() -> None:
    """A ResourceWarning would fail this test."""
    sent: list[object] = []
    writer = hdfs._Writer(sent.append)
    writer.write(b"x")
    del writer
    assert sent == []


def test_a_full_disk_of_this_host_is_not_taken_for_hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are collected on the local disk before they are sent; what did not fit is never sent."""
    sent: list[object] = []
    monkeypatch.setattr(hdfs, "SPOOL_BYTES", 1)
    with small_disk(tmp_path / "disk") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        full = rf"^hdfs://a/x: cannot be written: No space left on device in {disk} on {HOST}, where the file is"
        with (
            pytest.raises(RunError, match=full),
            using("hdfs://a/x", "cannot be written"),
            pa.PythonFile(hdfs._Writer(sent.append), mode="w") as file,
        ):
            file.write(bytes(200_000))
        writer = hdfs._Writer(sent.append)
        # An archive writes its directory all the same, and what that fails with is what is told.
        with pytest.raises(OSError, match="No space left on device"), zipfile.ZipFile(writer, "w") as archive:
            archive.writestr("a", bytes(200_000))
    assert sent == []


def test_a_lost_temporary_folder_of_this_host_is_not_taken_for_a_wrong_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs, "SPOOL_BYTES", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    lost = rf"^hdfs://a/x: cannot be written: No such file or directory in {tmp_path}/gone on {HOST}, where"
    with pytest.raises(Passing, match=lost), using("hdfs://a/x", "cannot be written"):
        hdfs._Writer(print).write(bytes(2))


def test_a_host_without_a_temporary_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "SPOOL_BYTES", 1)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "gone")])
    lost = rf"^hdfs://a/x: cannot be written: No usable temporary directory found in \['{tmp_path}/gone'\] on {HOST}, "
    with pytest.raises(Passing, match=lost), using("hdfs://a/x", "cannot be written"):
        hdfs._Writer(print).write(bytes(2))


def test_a_name_node_that_stands_still_is_told_of_within_an_attempt(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_client, "_LINE_SECONDS", 0.2)
    monkeypatch.setattr(hdfs_client, "_LOOK_SECONDS", 0.05)
    end = time.monotonic() + 60

    def operation() -> str:
        while caplog.text.count("hdfs://a/x: no answer for ") < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return "an answer"

    assert hdfs_client.repeat("hdfs://a/x", operation) == "an answer"
    assert [record.levelname for record in caplog.records[:2]] == ["WARNING", "WARNING"]


STOPPED = """
import os, signal, subprocess, sys
from hdfs_io import hdfs_client
hdfs_client.PATIENCE, hdfs_client.STALL, hdfs_client._PAUSE, hdfs_client._LOOK_SECONDS = 1.5, 1.0, 0.5, 0.1
answer, answered = os.pipe()
way, calls = sys.argv[1], []

def operation():
    calls.append(1)
    if len(calls) == 1:
        stop = f"sleep 0.2; kill -STOP {os.getpid()}; sleep 3; kill -CONT {os.getpid()}; sleep 0.2; echo x >&{answered}"
        subprocess.Popen(["sh", "-c", stop], pass_fds=[answered])
        if way != "in a pause":
            os.read(answer, 1)
    if len(calls) < {"answered late": 1, "cut off": 2, "in a pause": 3}[way]:
        raise RuntimeError('IOError("connection lost")')
    return "an answer"

print(hdfs_client.repeat("hdfs://a/x", operation), "to call", len(calls))
"""


@pytest.mark.parametrize(("way", "calls"), [("answered late", 1), ("cut off", 2), ("in a pause", 3)])
def test_a_process_that_stood_still_for_longer_than_its_patience_tries_again(way: str, calls: int) -> None:
    """HDFS answers, and only the process was stopped: within a call, or between two."""
    said = subprocess.run([sys.executable, "-c", STOPPED, way], capture_output=True, text=True, check=False, timeout=60)
    assert said.stdout == f"an answer to call {calls}\n", said.stderr
