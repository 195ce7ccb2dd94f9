"""Paths and small files."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfs_io import filesystem
from sparksplit.errors import InputError


def test_paths_and_file_uris_are_the_same_file(tmp_path: Path) -> None:
    path = f"{tmp_path}/folder with space/a.json"
    filesystem.write_json(path, {"ä": [1, 2]})
    assert filesystem.read_json(path) == filesystem.read_json(Path(path).as_uri()) == {"ä": [1, 2]}
    assert filesystem.exists(path) and filesystem.is_file(path) and filesystem.is_folder(f"{tmp_path}")
    assert filesystem.listing(filesystem.parent(path)) == {"a.json": filesystem.size(path)}
    assert filesystem.absolute(Path(path).as_uri()) == path


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert filesystem.absolute("a/b") == f"{tmp_path}/a/b"
    assert filesystem.parent("a/b/") == f"{tmp_path}/a"
    assert filesystem.name("a/b/") == "b"
    assert filesystem.join("/", "a") == "/a"


def test_writing_replaces_whole_files_and_leaves_no_temporary_ones(tmp_path: Path) -> None:
    path = f"{tmp_path}/a"
    filesystem.write_bytes(path, b"old")
    filesystem.write_bytes(path, b"new")
    assert filesystem.read_bytes(path) == b"new"
    assert list(filesystem.listing(f"{tmp_path}")) == ["a"]
    filesystem.remove(path)
    filesystem.remove(path)
    assert not filesystem.exists(path)


@pytest.mark.parametrize(
    ("path", "message"),
    [("ftp://host/x", "the scheme ftp:// is not known"), ("", "an empty path"), ("{tmp}/none", "does not exist")],
)
def test_errors_name_the_path(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        filesystem.read_bytes(path.format(tmp=tmp_path))


def test_unreadable_and_damaged_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match=r"a\.json: is not valid JSON"):
        filesystem.read_json(f"{tmp_path}/a.json")
    with pytest.raises(InputError, match="is a folder"):
        filesystem.size(f"{tmp_path}")
    with pytest.raises(InputError, match=r"a\.json: cannot be made"):
        filesystem.write_bytes(f"{tmp_path}/a.json/b", b"")


def test_sparks_own_readers_get_a_uri_for_a_local_path(tmp_path):
    assert filesystem.uri(f"{tmp_path}/a b") == f"file://{tmp_path}/a%20b"
    assert filesystem.uri(f"file://{tmp_path}/a") == f"file://{tmp_path}/a"
