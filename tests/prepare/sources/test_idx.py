"""IDX folders."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import BadRow, ParsedRows, Source, Task, idx, open_source
from tests.prepare.idx_files import CODES, digits, write_folder
from tests.prepare.idx_files import idx as idx_bytes


def source(folder: Path, **keys: Any) -> Source:
    return open_source(parse(InputConfig, {"format": "idx", "path": f"{folder}", **keys}))


def read(opened: Source, part: str = "train") -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    items = [item for task in opened.tasks() if task.part == part for item in opened.read(task)]
    assert all(isinstance(item, ParsedRows) for item in items)
    rows: list[Any] = items
    return np.concatenate([item.tensors[0] for item in rows]), np.concatenate([item.label for item in rows])


@pytest.mark.parametrize("compressed", [False, True])
def test_plain_and_compressed_files_hold_the_same_rows(
    tmp_path: Path, compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = digits(100), digits(7, seed=1)
    monkeypatch.setattr(idx, "RANGE_BYTES", 500)
    monkeypatch.setattr(idx, "BATCH_BYTES", 150)
    opened = source(write_folder(tmp_path / "set", train, test, compressed))
    assert opened.has_test and opened.label_kind == "integer"
    assert (opened.tensors[0].dtype, opened.tensors[0].shape) == ("uint8", [4, 3])
    assert len([task for task in opened.tasks() if task.part == "train"]) == (1 if compressed else 3)
    for part, (images, labels) in (("train", train), ("test", test)):
        found, found_labels = read(opened, part)
        np.testing.assert_array_equal(found, images)
        np.testing.assert_array_equal(found_labels, labels)
        assert found_labels.dtype == np.int64


@pytest.mark.parametrize("dtype", CODES)
def test_every_type_is_read_as_little_endian(tmp_path: Path, dtype: str) -> None:
    images = np.arange(24).reshape(4, 2, 3).astype(dtype)
    opened = source(write_folder(tmp_path, (images, np.arange(4, dtype=np.uint8))), shape=[6])
    found, _ = read(opened)
    np.testing.assert_array_equal(found, images.reshape(4, 6))
    assert found.dtype == np.dtype(dtype).newbyteorder("<")


def test_labels_may_be_absent_or_numbers(tmp_path: Path) -> None:
    images, labels = digits(5)
    folder = write_folder(tmp_path, (images, labels))
    numbers = source(folder, label_type="number")
    assert read(numbers)[1].dtype == np.float64
    (folder / "train-labels-idx1-ubyte").unlink()
    opened = source(folder, label=None)
    assert opened.label_kind is None
    item = next(iter(opened.read(opened.tasks()[0])))
    assert isinstance(item, ParsedRows) and item.label is None


def items_of(opened: Source) -> tuple[list[Any], list[BadRow]]:
    """The labels of the good rows, and the bad rows."""
    items = [item for task in opened.tasks() for item in opened.read(task)]
    good = [label for item in items if isinstance(item, ParsedRows) for label in np.asarray(item.label).tolist()]
    return good, [item for item in items if isinstance(item, BadRow)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_labels_of_a_float_type_are_numbers_to_predict(tmp_path: Path, dtype: str) -> None:
    labels = np.array([0.25, np.nan, 1.5, -np.inf, 2], dtype)
    folder = write_folder(tmp_path, (digits(5)[0], labels))
    opened = source(folder)
    assert opened.label_kind == "number"
    good, bad = items_of(opened)
    assert good == [0.25, 1.5, 2.0]
    assert [f"{row}" for row in bad] == [
        f"{folder}/train-labels-idx1-ubyte: row 2: the label nan is not a finite number",
        f"{folder}/train-labels-idx1-ubyte: row 4: the label -inf is not a finite number",
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_classes_of_a_float_type_must_be_whole_numbers(
    tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idx, "BATCH_BYTES", 24)
    monkeypatch.setattr(idx, "RANGE_BYTES", 48)
    labels = np.array([3.0, 0.75, 1.5, np.nan, -2.0, 2.0**63, np.inf], dtype)
    opened = source(write_folder(tmp_path, (digits(7)[0], labels)), label_type="integer")
    assert opened.label_kind == "integer"
    good, bad = items_of(opened)
    assert good == [3, -2]
    assert [(row.row, row.reason) for row in bad] == [
        (2, "the label 0.75 is not a whole number (int64); input.label_type: number accepts it"),
        (3, "the label 1.5 is not a whole number (int64); input.label_type: number accepts it"),
        (4, "the label nan is not a whole number (int64)"),
        (6, f"the label {labels[5]} is not a whole number (int64); input.label_type: number accepts it"),
        (7, "the label inf is not a whole number (int64)"),
    ]
    assert {row.kind for row in bad} == {"a label is not a whole number (int64)"} and not any(row.fatal for row in bad)


def test_features_that_are_not_finite_make_bad_rows(tmp_path: Path) -> None:
    images = np.array([[[1], [np.nan]], [[np.inf], [2]], [[0], [1]], [[-np.inf], [np.nan]]], np.float32)
    folder = write_folder(tmp_path, (images, np.arange(4, dtype=np.uint8)))
    good, bad = items_of(source(folder))
    assert good == [2]
    assert f"{bad[0]}" == f"{folder}/train-images-idx3-ubyte: row 1: value 2 of 2 is nan, not a finite number"
    assert [(row.row, row.reason[:17]) for row in bad[1:]] == [(2, "value 1 of 2 is i"), (4, "value 1 of 2 is -")]
    unlabelled = [item for task in source(folder, label=None).tasks() for item in source(folder, label=None).read(task)]
    assert [len(item.tensors[0]) for item in unlabelled if isinstance(item, ParsedRows)] == [1]
    assert source(folder, max_bad_rows=3).label_kind == "integer"


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    images, labels = digits(3)
    opened = source(write_folder(tmp_path, (images[:0], labels[:0]), (images, labels)))
    assert [task.part for task in opened.tasks()] == ["test"]


NAMES = {"images": "train-images-idx3-ubyte", "labels": "train-labels-idx1-ubyte"}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("which", "change", "message"),
    [
        ("images", lambda content: content[:-1], "is truncated: it has 75 bytes, but its header announces 76"),
        ("images", lambda content: content + b"x", "has 1 bytes more than its header announces"),
        ("images", lambda content: content[:9], "is truncated: it ends within the header"),
        ("labels", lambda content: b"", "is truncated: it ends within the header"),
        (
            "labels",
            lambda content: b"\x89PNG\r\n\x1a\n" + content,
            "is not an IDX file: it begins with the bytes 89 50",
        ),
        ("images", lambda content: idx_bytes(digits(4)[0]), "4 images, but 5 labels in"),
        ("images", lambda content: idx_bytes(digits(5)[1]), "has one dimension"),
        ("labels", lambda content: idx_bytes(digits(5)[0]), "has 3 dimensions; labels have one"),
    ],
)
def test_files_that_are_not_right_are_refused(
    tmp_path: Path, compressed: bool, which: str, change: Any, message: str
) -> None:
    folder = write_folder(tmp_path, digits(5), compressed=compressed)
    file = folder / (NAMES[which] + (".gz" if compressed else ""))
    content = gzip.decompress(file.read_bytes()) if compressed else file.read_bytes()
    content = change(content)
    file.write_bytes(gzip.compress(content, mtime=0) if compressed else content)
    with pytest.raises(InputError, match=message) as caught:
        source(folder)
    assert str(caught.value).startswith(str(file))


def test_a_truncated_gzip_file_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, digits(50), compressed=True)
    file = folder / "train-images-idx3-ubyte.gz"
    content = file.read_bytes()
    file.write_bytes(content[:-100])
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte\.gz: is truncated: the gzip stream has no end"):
        source(folder)
    file.write_bytes(content[:6])
    with pytest.raises(InputError, match=r"\.gz: is truncated: the gzip stream has no end"):
        source(folder)


@pytest.mark.parametrize("place", [-6, 200])
def test_damage_within_a_gzip_file_is_found_when_it_is_read(tmp_path: Path, place: int) -> None:
    folder = write_folder(tmp_path, digits(50), compressed=True)
    file = folder / "train-images-idx3-ubyte.gz"
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(content)
    opened = source(folder)
    last = list(opened.read(opened.tasks()[0]))[-1]
    assert isinstance(last, BadRow) and last.fatal
    assert str(last).startswith(f"{file}: ")


def test_a_file_that_shrinks_after_the_check_is_found(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, digits(50))
    opened = source(folder)
    file = folder / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:100])
    last = list(opened.read(Task("train", f"{file}", f"{folder}/train-labels-idx1-ubyte", 0, 50)))[-1]
    assert isinstance(last, BadRow) and "is truncated" in str(last)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder not found"):
        source(tmp_path / "none")
    with pytest.raises(InputError, match="has no train-images-idx3-ubyte"):
        source(tmp_path)
    folder = write_folder(tmp_path / "set", digits(5), digits(5))
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(InputError, match=r"has t10k-images-idx3-ubyte, but no t10k-labels-idx1-ubyte and no"):
        source(folder)


def test_train_and_test_must_be_alike(tmp_path: Path) -> None:
    images, labels = digits(5)
    folder = write_folder(tmp_path, (images, labels), (images.reshape(5, 3, 4), labels))
    with pytest.raises(InputError, match=r"rows are uint8 \[3, 4\], but those of"):
        source(folder)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"shape": [5]}, r"shape: does not fit rows of \[4, 3\]"),
        ({"dtype": "float32"}, "dtype: must be uint8, as in the IDX files"),
        ({"test": "x"}, "test: is for csv"),
        ({"keep": [1]}, "keep: is for csv"),
        ({"label_type": "text"}, "label_type: must be integer or number"),
        ({"missing": "mean", "dtype": "float32"}, "missing: is for csv"),
    ],
)
def test_configuration_that_does_not_fit(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    folder = write_folder(tmp_path, digits(5))
    with pytest.raises(ConfigError, match=message):
        source(folder, **keys)
