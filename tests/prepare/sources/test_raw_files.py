"""The raw files themselves: which are read, and whether they are still those that something was made of."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import InputError
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.source import input_files
from sparksplit.prepare.sources import raw_digest
from tests.prepare.idx_files import digits, write_folder

HOUR = 3_600_000_000_000


def digest(path: Path | str | list[str], **keys: Any) -> str | None:
    named = path if isinstance(path, list) else f"{path}"
    return raw_digest(parse(InputConfig, {"format": "csv", "path": named, **keys}))


def touch(path: Path, later: int = HOUR) -> None:
    facts = path.stat()
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + later))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "raw"
    place.mkdir()
    for name in ("a.csv", "b.csv"):
        (place / name).write_text("1,2\n")
    return place


def test_a_folder_in_the_folder_is_refused_by_name(folder: Path) -> None:
    for hidden in (".ipynb_checkpoints", "_temporary"):
        (folder / hidden).mkdir()
        (folder / hidden / "c.csv").write_text("1,2\n")
    (folder / "_SUCCESS").touch()
    assert [path for path, _ in input_files(f"{folder}")] == [f"{folder}/a.csv", f"{folder}/b.csv"]
    (folder / "2024").mkdir()
    for read in (lambda: input_files(f"{folder}"), lambda: digest(folder, format="text")):
        with pytest.raises(InputError) as caught:
            read()
        assert str(caught.value) == (
            f"{folder}/2024: is a folder, but only files directly in the input folder are read. "
            "Give the folder that holds the files, or move this folder away"
        )


def test_what_lies_in_sub_folders_counts_where_spark_reads(folder: Path) -> None:
    whole = digest(folder)
    (folder / "2024" / "_temporary").mkdir(parents=True)
    (folder / "2024" / "_temporary" / "d.csv").write_text("1,2\n")
    assert digest(folder) == whole
    (folder / "2024" / "c.csv").write_text("1,2\n")
    inner = digest(folder)
    assert inner not in (None, whole)
    touch(folder / "2024" / "c.csv")
    assert digest(folder) != inner
    named = [f"{folder}/*.csv", f"{folder}/2024"]
    assert digest(named) == digest(named) not in (None, inner)
    assert digest(f"{folder}/*.txt") is None


def append(path: Path) -> None:
    before = path.stat()
    path.write_text(path.read_text() + "3,4\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "appended to, its time set back": lambda folder: append(folder / "a.csv"),
    "replaced by one as long": lambda folder: touch(folder / "a.csv"),
    "one more": lambda folder: (folder / "c.csv").write_text("1,2\n"),
    "one fewer": lambda folder: (folder / "b.csv").unlink(),
    "renamed": lambda folder: (folder / "b.csv").rename(folder / "c.csv"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("keys", [{}, {"format": "text"}, {"test": True}])
def test_what_happens_to_a_raw_file_is_seen(folder: Path, change: str, keys: dict[str, Any], tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("1,2\n")
    paths = {"path": other, "test": f"{folder}"} if "test" in keys else {"path": folder, **keys}
    before = digest(**paths)
    assert before is not None and digest(**paths) == before
    CHANGES[change](folder)
    assert digest(**paths) not in (None, before)


def test_what_is_not_read_does_not_count(folder: Path, tmp_path: Path) -> None:
    before = digest(folder)
    (folder / "_SUCCESS").write_text("x")
    (folder / ".a.csv.crc").write_text("x")
    (folder / "empty.csv").touch()
    assert digest(folder) == before
    folder.rename(tmp_path / "moved")
    assert digest(tmp_path / "moved") == before


def test_the_files_of_an_idx_folder(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "mnist", digits(3), digits(2))
    whole, images = (digest(folder, format="idx", **keys) for keys in ({}, {"label": None}))
    (folder / "read.me").write_text("x")
    (folder / "more").mkdir()
    assert digest(folder, format="idx") == whole != images
    touch(folder / "train-labels-idx1-ubyte")
    assert digest(folder, format="idx") != whole
    assert digest(folder, format="idx", label=None) == images
    touch(folder / "t10k-images-idx3-ubyte")
    assert digest(folder, format="idx", label=None) != images


def test_input_that_is_gone_has_no_digest(folder: Path, tmp_path: Path) -> None:
    assert digest(tmp_path / "none") is None
    assert digest(folder, test=f"{tmp_path}/none") is None
    assert digest(tmp_path / "none", format="idx") is None
