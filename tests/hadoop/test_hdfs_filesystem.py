"""hdfs_io.filesystem on a real HDFS: what every file system must do, and what only HDFS can do wrong."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hdfs_io import filesystem, hdfs, hdfs_client
from hdfs_io.lease import Lease
from sparksplit.base.errors import InputError, OutputInUse, RunError, SparksplitError
from tests.hadoop.cluster import HadoopCluster
from tests.hdfs_io.filesystem_suite import FileSystemSuite

_CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def folder(hadoop: HadoopCluster) -> Iterator[str]:
    """A new folder on HDFS."""
    path = f"{hadoop.uri}/tests/{uuid.uuid4().hex}"
    filesystem.make_folder(path)
    yield path
    filesystem.remove(path)


class TestHdfs(FileSystemSuite):
    @pytest.fixture
    def root(self, folder: str) -> str:
        return folder

    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A forked process reads again after two seconds, not after twenty."""
        monkeypatch.setitem(hdfs_client._SETTINGS, "dfs.client.socket-timeout", "2000")
        monkeypatch.setattr(hdfs_client, "_clients", {})


def test_the_default_file_system(hadoop: HadoopCluster, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf_dir))
    path = folder.removeprefix(hadoop.uri)
    filesystem.write_bytes(f"hdfs://{path}/a", b"x")
    assert filesystem.listing(folder) == {"a": 1}
    assert filesystem.absolute(f"hdfs://{path}/a") == f"{folder}/a"


def test_a_name_service_whose_first_namenode_is_dead(
    hadoop: HadoopCluster, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "dfs.nameservices": "pair",
        "dfs.ha.namenodes.pair": "a,b",
        "dfs.namenode.rpc-address.pair.a": f"127.0.0.1:{_closed_port()}",
        "dfs.namenode.rpc-address.pair.b": hadoop.uri.removeprefix("hdfs://"),
    }
    properties = [f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items()]
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    path = folder.replace(hadoop.uri, "hdfs://pair")
    filesystem.write_bytes(f"{path}/a", b"x")
    assert filesystem.listing(path) == {"a": 1} == filesystem.listing(folder)


def test_addresses_that_are_wrong_are_known_at_once(hadoop: HadoopCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_client, "FIRST_CONTACT", 3.0)
    monkeypatch.setitem(hdfs_client._SETTINGS, "dfs.client.failover.sleep.max.millis", "100")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        # Who refuses or is silent may be back soon; an address that nothing has is the user's mistake. Without a name
        # server nobody can say which of the two a name is.
        cases = {
            f"127.0.0.1:{_closed_port()}": ("Connection refused", RunError),
            "no-such-service": (r"\(and HADOOP_CONF_DIR names no such name service\)", SparksplitError),
            f"127.0.0.1:{silent.getsockname()[1]}": ("no answer within 3 s", RunError),
            "127.0.0.1:port": ("InvalidPort", InputError),
        }
        for authority, (message, kind) in cases.items():
            began = time.monotonic()
            with pytest.raises(kind, match=f"^hdfs://{authority}/x: cannot be read: .*{message}") as raised:
                filesystem.exists(f"hdfs://{authority}/x")
            assert time.monotonic() - began < 60
            assert "\n" not in str(raised.value)


def test_without_permission(folder: str) -> None:
    code = f"from hdfs_io import filesystem; filesystem.write_bytes({folder + '/a'!r}, b'x')"
    environment = os.environ | {"HADOOP_USER_NAME": "stranger", "PYTHONPATH": str(_CHECKOUT)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    last = ran.stderr.strip().splitlines()[-1]
    assert "InputError" in last and "/a: cannot be written: Permission denied: user=stranger, access=WRITE" in last
    assert "is left" not in ran.stderr
    assert filesystem.listing(folder) == {}


def test_what_an_executor_writes_is_the_submitters_and_for_whom_the_site_says(folder: str) -> None:
    opened = hdfs_client.client(folder.removeprefix("hdfs://").partition("/")[0])
    inner = folder.removeprefix("hdfs://")[folder.removeprefix("hdfs://").index("/") :]
    opened.set_permission(inner, 0o777)
    code = f"from hdfs_io import filesystem; filesystem.write_bytes({folder + '/of/a'!r}, b'x')"
    told = {"SPARK_USER": "alice", "SPARKSPLIT_HDFS_UMASK": "027", "PYTHONPATH": str(_CHECKOUT)}
    environment = {key: value for key, value in os.environ.items() if key != "HADOOP_USER_NAME"} | told
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    found = [opened.get_file_info(f"{inner}/{name}") for name in ("of", "of/a")]
    assert [(status.owner, oct(status.permission)) for status in found] == [("alice", "0o750"), ("alice", "0o640")]


def test_of_many_that_begin_at_once_one_comes_through(folder: str) -> None:
    """Where there is no lease, and where there is that of a process that has ended."""
    for number, there in enumerate([False, True] * 4):
        leases = [Lease(f"{folder}/{number}/out", "train") for _ in range(4)]
        if there:
            ended = asdict(replace(leases[0].holder, owner=uuid.uuid4().hex, started=0))
            filesystem.write_bytes(leases[0].file, json.dumps(ended).encode())
        start, through = threading.Barrier(4), []

        def take(one: Lease, start: threading.Barrier = start, through: list[Lease] = through) -> None:
            start.wait()
            with suppress(OutputInUse):
                one.acquire()
                one.keep()
                through.append(one)

        threads = [threading.Thread(target=take, args=[one]) for one in leases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(through) == 1
        assert list(filesystem.listing(f"{folder}/{number}")) == [".out.owner"]
        for one in leases:
            one.release()
        assert filesystem.listing(f"{folder}/{number}") == {}


def test_files_larger_than_a_block_and_than_memory_for_them(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "SPOOL_BYTES", 1_000_000)
    content = os.urandom(20_000_000)
    filesystem.write_bytes(f"{folder}/a", content)
    assert filesystem.read_bytes(f"{folder}/a") == content


def test_a_file_that_is_dropped_is_not_written(folder: str) -> None:
    target, inner = filesystem.resolve(f"{folder}/a")
    stream = target.open_output_stream(inner)
    stream.write(b"x")
    del stream
    assert filesystem.listing(folder) == {}


def test_a_file_does_not_bring_its_removed_folder_back(folder: str) -> None:
    filesystem.make_folder(f"{folder}/staging")
    target, inner = filesystem.resolve(f"{folder}/staging/a")
    stream = target.open_output_stream(inner)
    stream.write(b"x")
    filesystem.remove(f"{folder}/staging")
    with pytest.raises(FileNotFoundError):
        stream.close()
    assert filesystem.listing(folder) == {}


def test_an_attempt_that_stands_still_is_given_up_and_another_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_client, "STALL", 0.2)
    go_on, ended, calls = threading.Event(), threading.Event(), []

    def operation() -> int:
        calls.append(threading.current_thread())
        if len(calls) == 1:
            go_on.wait(10)
            try:
                hdfs_client.beat()
            finally:
                ended.set()
        for _ in range(8):  # longer than STALL in all, but never still
            threading.Event().wait(0.05)
            hdfs_client.beat()
        return len(calls)

    assert hdfs_client.repeat("here", operation) == 2
    go_on.set()
    assert ended.wait(10)
    calls[0].join(10)
    assert not calls[0].is_alive() and len(calls) == 2


def test_reads_and_writes_survive_a_lost_datanode(
    hadoop: HadoopCluster, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_client, "STALL", 8.0)
    content = os.urandom(20_000_000)
    filesystem.write_bytes(f"{folder}/old", content)
    with filesystem.open_input(f"{folder}/old") as file:
        read = file.read(1_000_000)
        hadoop.kill_datanode(0)
        filesystem.write_bytes(f"{folder}/new", content)
        while part := file.read(3_000_000):
            read += part
    assert read == content == filesystem.read_bytes(f"{folder}/new")
    assert filesystem.listing(folder) == {"new": len(content), "old": len(content)}


def test_writes_without_any_datanode_end_with_one_line(
    hadoop: HadoopCluster, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdfs_client, "PATIENCE", 3.0)
    for index in range(2):
        hadoop.kill_datanode(index)
    with pytest.raises(RunError, match=r"/a: HDFS has failed for 3 s: ") as raised:
        filesystem.write_bytes(f"{folder}/a", b"x" * 100_000)
    assert "\n" not in str(raised.value)
    assert filesystem.listing(folder) == {}


def test_a_namenode_that_restarts_is_waited_for(hadoop: HadoopCluster, folder: str) -> None:
    filesystem.write_bytes(f"{folder}/a", b"before")
    hadoop.stop_namenode()
    threading.Thread(target=hadoop.restart_namenode).start()
    assert filesystem.read_bytes(f"{folder}/a") == b"before"
    filesystem.write_bytes(f"{folder}/a", b"after")
    assert filesystem.read_bytes(f"{folder}/a") == b"after"


def _closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
