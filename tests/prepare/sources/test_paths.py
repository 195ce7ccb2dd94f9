"""What the driver sees of paths before it starts Spark."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from sparksplit.base.errors import InputError
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import check_paths


@pytest.mark.parametrize("name", ["b.csv.xz", "b.zip", "b.tar.gz"])
def test_archives_are_no_text(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x"))
    check_paths(InputConfig(format="csv", path=f"{tmp_path}"))
    (tmp_path / name).write_bytes(b"x")
    check_paths(InputConfig(format="images", path=f"{tmp_path}"))
    for format_ in ("csv", "hive-text"):
        with pytest.raises(InputError, match=f"/{name}: Spark cannot read this kind of archive; unpack it"):
            check_paths(InputConfig(format=format_, path=f"{tmp_path}"))


@pytest.mark.parametrize(
    ("keys", "one", "other"),
    [
        ({"path": "", "test": "test"}, "path", "test"),
        ({"path": ["train", "*st"], "validation": "test"}, "path", "validation"),
        ({"path": "train", "validation": "{test,more}", "test": ["test"]}, "validation", "test"),
    ],
)
@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_a_file_is_in_one_split_only(tmp_path: Path, keys: dict[str, Any], one: str, other: str, format_: str) -> None:
    for name in ("train", "test", "more"):
        (tmp_path / name).write_text("a,b\n1,2\n")
    placed = {
        key: [f"{tmp_path}/{path}" for path in ([given] if isinstance(given, str) else given)]
        for key, given in keys.items()
    }
    with pytest.raises(InputError) as caught:
        check_paths(InputConfig(format=format_, **placed))
    todo = f"give input.{one} a pattern or a list of files that leaves this file out"
    if one != "path":
        todo = "leave out one of the two keys, or give them different files"
    message = f"{tmp_path}/test: is in input.{one} and in input.{other}, so its rows would be in two splits; {todo}"
    assert str(caught.value) == message
    check_paths(InputConfig(format=format_, **{**placed, one: f"{tmp_path}/mor*"}))


@pytest.mark.parametrize("format_", ["csv", "parquet", "tfrecord"])
@pytest.mark.parametrize(
    ("path", "hidden"),
    [("_b", "_b"), (["a", ".c"], ".c"), ("{e,_b}", "_b"), ("f._COPYING_", "f._COPYING_"), ("_*", "_b")],
)
def test_a_file_whose_name_spark_leaves_out_is_refused(
    tmp_path: Path, format_: str, path: str | list[str], hidden: str
) -> None:
    (tmp_path / "_folder").mkdir()
    for name in ("a", "_b", ".c", "_folder/d", "_day=1", "e", "f._COPYING_"):
        (tmp_path / name).write_text("a,b\n1,2\n")
    places = [f"{tmp_path}/{one}" for one in ([path] if isinstance(path, str) else path)]
    with pytest.raises(InputError) as caught:
        check_paths(InputConfig(format=format_, path=f"{tmp_path}/a", test=places[-1]))
    assert str(caught.value) == (
        f"{tmp_path}/{hidden}: Spark's readers leave out a file with this name: it begins with _ or ., or ends with "
        "._COPYING_; rename it"
    )
    check_paths(InputConfig(format=format_, path=f"{tmp_path}/_folder", test=[f"{tmp_path}/{{a,e,_day=*}}"]))
