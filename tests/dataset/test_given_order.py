"""Data sets with `order: given`: the row's number is its row_id, and the digest still covers what rows hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sparksplit.base.errors import InputError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.joined import open_joined
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.dataset.row_ids import row_checksum

ROWS = 500


def given(folder: Path, x: np.ndarray, y: np.ndarray, **options: object) -> PreparedDataSet:
    splits = {"train": (x[:400], y[:400]), "validation": (x[400:], y[400:])}
    return from_arrays(str(folder), splits, order="given", lanes=6, classes=7, **options)


def rows() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(ROWS, dtype=np.float32).reshape(-1, 1), np.arange(ROWS) % 7


def test_the_row_id_is_the_rows_number(tmp_path: Path) -> None:
    data = given(tmp_path / "data", *rows())
    assert data.manifest.order == "given"
    assert PreparedDataSet.open(data.path).manifest == data.manifest
    for name, numbers in (("train", range(400)), ("validation", range(400, ROWS))):
        found = {}
        with data.split(name).reader() as reader:
            for lane in range(6):
                for block in range(data.manifest.blocks(name, lane)):
                    part = reader.read(lane, block)
                    assert (part.row_ids % 6 == lane).all()
                    found |= dict(zip(part.row_ids.tolist(), part.tensors["x"][:, 0].tolist(), strict=True))
        assert found == {number: float(number) for number in numbers}
        assert data.manifest.splits[name].checksum == row_checksum(np.array(numbers, np.uint64))


def test_files_that_share_a_lane_have_equally_many_rows(tmp_path: Path) -> None:
    """Small numbers have equal high bits, by which hashes are dealt to files."""
    data = given(tmp_path / "data", *rows(), file_size=200)
    files = [pq.ParquetFile(f"{data.path}/{file}").metadata.num_rows for file in data.files("train")]
    assert len(files) >= 24 and sum(files) == 400 and max(files) - min(files) <= 2
    with data.split("train").reader() as reader:
        lane = [reader.read(1, block).row_ids for block in range(data.manifest.blocks("train", 1))]
        assert np.concatenate(lane).tolist() == list(range(1, 400, 6))
    assert "lane-001-part-0" in data.split("train").place_of(13)


def test_equal_rows_keep_their_places(tmp_path: Path) -> None:
    data = given(tmp_path / "data", np.zeros((ROWS, 1), np.float32), np.zeros(ROWS, np.int64))
    assert data.manifest.splits["train"].lane_rows == [67, 67, 67, 67, 66, 66]


def test_the_digest_covers_the_contents_and_their_places(tmp_path: Path) -> None:
    x, y = rows()
    whole = given(tmp_path / "whole", x, y)
    assert given(tmp_path / "again", x, y).digest == whole.digest
    one_value, one_label, swapped = x.copy(), y.copy(), x.copy()
    one_value[17] += 1
    one_label[450] = 6 - one_label[450] % 7
    swapped[[3, 4]] = swapped[[4, 3]]
    others = [(one_value, y), (x, one_label), (swapped, y)]
    digests = {given(tmp_path / f"{place}", *other).digest for place, other in enumerate(others)}
    assert len(digests | {whole.digest}) == 4


def test_the_manifest_of_other_data_sets_is_as_before(tmp_path: Path) -> None:
    x, y = rows()
    from_arrays(str(tmp_path / "hash"), {"train": (x, y)})
    text = (tmp_path / "hash" / "manifest.json").read_text()
    assert "content_checksum" not in text and "order" not in json.loads(text)
    assert PreparedDataSet.open(str(tmp_path / "hash")).manifest.order == "hash"


def test_rows_in_a_given_order_cannot_be_joined(tmp_path: Path) -> None:
    x, y = rows()
    paths = [given(tmp_path / "a", x, y).path, given(tmp_path / "b", x + 1, y).path]
    with pytest.raises(InputError, match=r"has `order: given`, so it cannot be read with other data sets as one"):
        open_joined(paths)
