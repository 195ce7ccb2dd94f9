"""What HDFS's own errors mean, from the words that hdfs-native gives them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from hdfs_io import hdfs
from hdfs_io.hdfs_client import _Passing, translated
from sparksplit.base.errors import InputError, RunError, file_error, using
from tests.disks import small_disk


def rpc(name: str, line: str) -> RuntimeError:
    return RuntimeError(f'RPCError("{name}", "{line}\\n\\tat org.apache.hadoop.x(Y.java:1)")')


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.hadoop.security.AccessControlException", InputError),
        ("org.apache.hadoop.fs.ParentNotDirectoryException", InputError),
        ("org.apache.hadoop.fs.InvalidPathException", InputError),
        ("org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException", InputError),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", RunError),
        ("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", RunError),
        ("java.io.IOException", RunError),
        ("java.lang.OutOfMemoryError", RunError),
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


def test_a_full_disk_of_this_host_is_not_taken_for_hdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are collected on the local disk before they are sent; what did not fit is never sent."""
    sent: list[object] = []
    monkeypatch.setattr(hdfs, "SPOOL_BYTES", 1)
    with small_disk(tmp_path / "disk") as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        full = (
            rf"^hdfs://a/x: cannot be written: No space left on device in {disk} of this host, where it is collected$"
        )
        with (
            pytest.raises(RunError, match=full),
            using("hdfs://a/x", "cannot be written"),
            pa.PythonFile(hdfs._Writer(sent.append), mode="w") as file,
        ):
            file.write(bytes(200_000))
    assert sent == []
