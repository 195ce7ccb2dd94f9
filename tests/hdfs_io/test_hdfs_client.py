"""What HDFS's own errors mean, from the words that hdfs-native gives them."""

from __future__ import annotations

import pytest

from hdfs_io.hdfs_client import _Passing, translated
from sparksplit.errors import InputError, RunError, file_error


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
