"""Paths and small files."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from hdfs_io import filesystem
from sparksplit.base.errors import InputError, RunError
from tests.disks import small_disk
from tests.hdfs_io.filesystem_suite import FileSystemSuite


class TestLocal(FileSystemSuite):
    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path)


def test_paths_and_file_uris_are_the_same_file(tmp_path: Path) -> None:
    path = f"{tmp_path}/folder with space/a.json"
    filesystem.write_json(path, {"ä": [1, 2]})
    assert filesystem.read_json(path) == filesystem.read_json(Path(path).as_uri()) == {"ä": [1, 2]}
    assert filesystem.exists(path) and filesystem.is_file(path) and filesystem.is_folder(f"{tmp_path}")
    assert filesystem.listing(filesystem.parent(path)) == {"a.json": filesystem.size(path)}
    assert filesystem.absolute(Path(path).as_uri()) == path


@pytest.mark.parametrize(
    "uri",
    [
        "file:///a%20b/c",
        "file:/a b/c",
        "file://localhost/a b/c",
        "FILE:////a b//x/../c/",
        "//a b/c",
        "/a b/./c/",
    ],
)
def test_local_paths_mean_the_same_however_they_are_written(uri: str) -> None:
    assert filesystem.absolute(uri) == filesystem.absolute(f"{uri}/x/..") == "/a b/c"


def test_a_colon_alone_makes_no_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a:b", "a:", "12:/b", "./file:/b", ":/b"):
        assert filesystem.absolute(name) == f"{tmp_path}/{name.removeprefix('./')}"


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert filesystem.absolute("a/b") == f"{tmp_path}/a/b"
    assert filesystem.parent("a/b/") == f"{tmp_path}/a"
    assert filesystem.name("a/b/") == "b"
    assert filesystem.join("/", "a") == "/a"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("ftp://host/x", "unknown scheme ftp://"),
        ("s3a:/x", "unknown scheme s3a://"),
        (
            "file://host/x",
            r"^file://host/x: names the host host, but file:// reads only this machine's files\. Write file:///PATH$",
        ),
        ("", "the path is empty"),
        ("{tmp}/none", "does not exist"),
    ],
)
def test_errors_name_the_path(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        filesystem.read_bytes(path.format(tmp=tmp_path))


def test_a_full_disk_is_not_the_users_mistake_and_leaves_no_part(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        filesystem.write_bytes(f"{disk}/a", b"old")
        with pytest.raises(RunError, match=rf"^{disk}/a: cannot be written: No space left on device$"):
            filesystem.write_bytes(f"{disk}/a", bytes(200_000))
        assert filesystem.listing(f"{disk}") == {"a": 3}
        assert filesystem.read_bytes(f"{disk}/a") == b"old"


def test_a_new_file_on_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        with pytest.raises(RunError, match=rf"^{disk}/a: cannot be written: No space left on device$"):
            filesystem.create_bytes(f"{disk}/a", bytes(200_000))
        assert filesystem.listing(f"{disk}") == {}


def test_a_new_file_is_never_seen_empty(tmp_path: Path) -> None:
    """Not even by someone who looks at the very moment at which it appears."""
    path, seen = f"{tmp_path}/a", set()
    with ThreadPoolExecutor(1) as pool:
        for _ in range(300):
            made = pool.submit(filesystem.create_bytes, path, b"x" * 1000)
            while not os.path.exists(path):  # noqa: PTH110
                pass
            seen.add(len(Path(path).read_bytes()))
            assert made.result()
            os.unlink(path)  # noqa: PTH108
    assert seen == {1000}


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_new_file_needs_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    def link(*_: str) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", link)
    assert filesystem.create_bytes(f"{tmp_path}/a", b"x")
    assert not filesystem.create_bytes(f"{tmp_path}/a", b"y")
    assert filesystem.read_bytes(f"{tmp_path}/a") == b"x" and filesystem.listing(f"{tmp_path}") == {"a": 1}


def test_a_new_file_whose_answer_was_lost_is_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS asks again, and is told that it is there."""
    link = os.link

    def twice(old: str, new: str) -> None:
        link(old, new)
        link(old, new)

    monkeypatch.setattr(os, "link", twice)
    assert filesystem.create_bytes(f"{tmp_path}/a", b"x")
    assert not filesystem.create_bytes(f"{tmp_path}/a", b"y")
    assert filesystem.listing(f"{tmp_path}") == {"a": 1}


def test_what_another_has_just_removed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = fs.FileInfo(f"{tmp_path}/a", fs.FileType.File)
    late = SimpleNamespace(get_file_info=lambda path: known, delete_file=fs.LocalFileSystem().delete_file)
    monkeypatch.setattr(filesystem, "resolve", lambda path: (late, path))
    filesystem.remove(f"{tmp_path}/a")


def test_what_a_path_must_not_hold_is_the_users_mistake() -> None:
    with pytest.raises(InputError, match=r"^'/a\\x00b': cannot be read: "):
        filesystem.read_bytes("/a\0b")
    with pytest.raises(InputError, match=r"^/a+: cannot be read: File name too long$"):
        filesystem.read_bytes("/" + "a" * 300)


def test_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match=r"a\.json: is not valid JSON"):
        filesystem.read_json(f"{tmp_path}/a.json")


CORE = "<configuration><property><name>fs.defaultFS</name><value>{}</value></property></configuration>"


@pytest.fixture
def conf_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HADOOP_CONF_DIR", f"{tmp_path}")
    (tmp_path / "core-site.xml").write_text(CORE.format("hdfs://cluster"))
    (tmp_path / "hdfs-site.xml").write_text(
        "<configuration><property><name>dfs.ha.namenodes.cluster</name><value>a,b</value></property></configuration>"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("uri", "known"),
    [
        ("hdfs:///", "hdfs://cluster/"),
        ("hdfs:/a/b", "hdfs://cluster/a/b"),
        ("hdfs:///a//b/../c d%20/", "hdfs://cluster/a/c d%20"),
        ("HDFS://cluster/x", "hdfs://cluster/x"),
        ("hdfs://host:9000", "hdfs://host:9000/"),
        ("hdfs://host:9000///", "hdfs://host:9000/"),
        ("hdfs://host/../x", "hdfs://host:8020/x"),
    ],
)
def test_hdfs_uris_mean_the_same_everywhere(conf_dir: Path, uri: str, known: str) -> None:
    assert filesystem.absolute(uri) == known == filesystem.absolute(known)
    assert filesystem.join(filesystem.parent(filesystem.join(uri, "x")), "y") == filesystem.join(known, "y")


def test_the_default_file_system_needs_a_configuration(conf_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (conf_dir / "core-site.xml").write_text(CORE.format("file:///"))
    with pytest.raises(InputError, match=r"^hdfs:///x: .*/core-site.xml: fs.defaultFS is file:///, not hdfs://"):
        filesystem.exists("hdfs:///x")
    (conf_dir / "core-site.xml").write_text("<configuration>")
    with pytest.raises(InputError, match=r"core-site.xml: cannot be read: no element found"):
        filesystem.exists("hdfs:///x")
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match=r"^hdfs:///x: HADOOP_CONF_DIR is not set. Set it to"):
        filesystem.exists("hdfs:///x")


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/a b/c", "file:///a b/c"),
        ("file:///a%20b/c", "file:///a b/c"),
        ("hdfs://h:1/a//b", "hdfs://h:1/a/b"),
        ("/a[1]{b}*?", r"file:///a\[1\]\{b\}\*\?"),
    ],
)
def test_paths_for_spark(path: str, uri: str) -> None:
    assert filesystem.for_spark(path) == uri


def test_a_device_that_fails_and_is_read_only_then_is_no_mistake_of_the_users(tmp_path, monkeypatch):
    class Failing(fs.LocalFileSystem):  # type: ignore[misc]
        def move(self, src: str, dest: str) -> None:
            raise OSError(errno.EIO, "Input/output error")

        def delete_file(self, path: str) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(filesystem, "resolve", lambda path: (Failing(), path))
    with pytest.raises(RunError, match=r"/file: cannot be written: Input/output error$"):
        filesystem.write_bytes(str(tmp_path / "file"), b"x")


def test_a_pipe_is_listed_and_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert filesystem.listing(f"{tmp_path}") == {"pipe": 0}
    assert filesystem.tree(f"{tmp_path}") == {}
    with pytest.raises(InputError, match="pipe: is neither a file nor a folder"):
        filesystem.facts(f"{tmp_path}/pipe")
