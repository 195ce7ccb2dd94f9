"""Which files a path names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hdfs_io.listing import expand, find, folder_values, with_outer
from sparksplit.base.errors import InputError


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def names(folder: Path, *paths: str) -> list[str]:
    return [file.removeprefix(f"{folder}/") for file, _ in find([f"{folder}/{path}" for path in paths]).files]


def test_folders_with_sub_folders_without_what_is_hidden_or_empty(tmp_path: Path) -> None:
    make(tmp_path, "b", "a/c", "a/d/e", "_SUCCESS", ".x", "_temporary/0/f", "a/.crc", "g._COPYING_")
    (tmp_path / "empty").touch()
    assert names(tmp_path, "") == ["a/c", "a/d/e", "b"] and find([f"{tmp_path}"]).columns == ()
    assert names(tmp_path, "a/c", "b", "b") == ["a/c", "b"]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*", ["1.csv", "2.csv", "f"]),
        ("?.csv", ["1.csv", "2.csv"]),
        ("[^1].csv", ["2.csv"]),
        ("{1,2}.{csv,tsv}", ["1.csv", "2.csv"]),
        ("f/*/x", ["f/a/x", "f/b/x"]),
        ("f/{a,c}", ["f/a"]),
        ("_*", ["_hidden"]),
        ("g*", []),
        ("*/*/*/*", []),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, matches: list[str]) -> None:
    make(tmp_path, "1.csv", "2.csv", "f/a/x", "f/b/x", "_hidden", "g._COPYING_")
    assert expand(f"{tmp_path}/{pattern}") == [f"{tmp_path}/{match}" for match in matches]


def test_what_is_there_under_that_name_is_no_pattern(tmp_path: Path) -> None:
    make(tmp_path, "a[1]/x", "a1/y")
    assert names(tmp_path, "a[1]") == ["a[1]/x"]
    assert find([f"{tmp_path}/a[1]"]).roots == [f"file://{tmp_path}/a\\[1\\]"]
    assert names(tmp_path, "a\\[?\\]") == ["a[1]/x"]


def test_partition_columns_are_no_sub_folders_and_go_with_nothing_else(tmp_path: Path) -> None:
    make(tmp_path, "t/y=1/_m=2/a", "t/y=2/_m=1/b")
    assert names(tmp_path, "t") == ["t/y=1/_m=2/a", "t/y=2/_m=1/b"] and find([f"{tmp_path}/t"]).columns == ("y", "_m")
    for other in ("t/c", "t/y=3/c", "t/y=3/z=1/c", "t/more/_m=1/c"):
        make(tmp_path, other)
        with pytest.raises(InputError, match="have different partition columns in their folder names"):
            find([f"{tmp_path}/t"])
        (tmp_path / other).unlink()
    make(tmp_path, "u/y=1/a", "v")
    for other in ("u", "v"):
        with pytest.raises(InputError, match=f"^{tmp_path}/t and {tmp_path}/{other} have different partition columns"):
            find([f"{tmp_path}/t", f"{tmp_path}/{other}"])


def test_a_folders_value_is_its_text_and_its_encoded_bytes_are_utf_8(tmp_path: Path) -> None:
    make(tmp_path, *(f"zip={name}/k%20=b/f" for name in ("00501", "501", "K%C3%B6ln", "a+b", "1=2", "%zz", "")))
    make(tmp_path, "zip=__HIVE_DEFAULT_PARTITION__/k%20=c/f")
    found = find([f"{tmp_path}"])
    assert found.columns == ("zip", "k ")
    assert folder_values(found) == {"zip": {"00501", "501", "Köln", "a+b", "1=2", "%zz"}, "k ": {"b", "c"}}
    assert folder_values(find([f"{tmp_path}/zip=501"])) == {"k ": {"b"}}
    make(tmp_path, "zip=K%F6ln/k%20=b/f")
    with pytest.raises(InputError, match=r"bytes in 'zip=K%F6ln' are not UTF-8; rename the folder$"):
        folder_values(find([f"{tmp_path}"]))


def test_folders_in_a_path_give_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    make(tmp_path, "other=9/t/day=1/hour=%20/zip=501/a", "other=9/t/day=2/hour=3/zip=0501/b")
    day = f"{tmp_path}/other=9/t/day=1"
    for path in (f"{day}/hour=%20", f"{day}/hour=%20/zip=501", f"{day}/hour=%20/zip=501/a"):
        inner = find([path])
        assert with_outer(inner, []) == with_outer(inner, ["t", "other", "x"]) == inner
        found = with_outer(inner, ["day", "zip", "other"])
        assert found.columns == ("day", "", "zip") and folder_values(found) == {"day": {"1"}, "zip": {"501"}}
    assert with_outer(find([f"{tmp_path}/other=9/t/*/*"]), ["hour", "day"]).columns == ("day", "hour", "zip")
    make(tmp_path, "other=9/t/more/zip=1/c")
    with pytest.raises(InputError, match="have different partition columns in their folder names"):
        with_outer(find([f"{tmp_path}/other=9/t/{name}" for name in ("day=1/*", "more")]), ["hour"])


@pytest.mark.parametrize(
    "paths", [("d", "d/a"), ("d/a", "d"), ("d", "d/*"), ("d", "d/e"), ("d/*", "d/*/b"), ("", "d/a")]
)
def test_a_file_that_is_named_twice_is_refused(tmp_path: Path, paths: tuple[str, ...]) -> None:
    make(tmp_path, "d/a", "d/e/b", "c")
    one, other = (re.escape(str(tmp_path / path.partition("*")[0]).rstrip("/")) for path in paths)
    with pytest.raises(InputError, match=rf"^{tmp_path}/d/\S+: is listed twice, by {one}\S* and by {other}"):
        find([f"{tmp_path}/{path}" for path in paths])
    assert names(tmp_path, "d", "c", "d/", "d") == ["d/a", "d/e/b", "c"]
    (tmp_path / "d/empty").mkdir()
    assert names(tmp_path, "d", "d/empty") == ["d/a", "d/e/b"]


@pytest.mark.parametrize(
    ("path", "message"),
    [("none", "does not exist"), ("none*", "no file or folder matches"), ("folder", "the folder holds no rows")],
)
def test_nothing_to_read(tmp_path: Path, path: str, message: str) -> None:
    make(tmp_path, "folder/_SUCCESS")
    with pytest.raises(InputError) as caught:
        find([f"{tmp_path}/{path}"])
    assert str(caught.value).startswith(f"{tmp_path}/{path}: ") and message in str(caught.value)
