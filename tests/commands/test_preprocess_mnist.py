"""Real MNIST through both sources: the same rows, bit for bit."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparksplit.base.shipped import shipped
from sparksplit.commands import preprocess
from sparksplit.dataset.prepared import BlockReader, PreparedDataSet

pytestmark = pytest.mark.slow


def idx_values(path: Path, header: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(gzip.decompress(path.read_bytes())[header:], dtype=np.uint8)


def read(data: PreparedDataSet, split: str) -> tuple[np.ndarray[Any, Any], ...]:
    with BlockReader(data, split) as reader:
        blocks = [
            reader.read(lane, block)
            for lane in range(data.manifest.lanes)
            for block in range(data.manifest.blocks(split, lane))
        ]
    return (
        np.concatenate([block.row_ids for block in blocks]),
        np.concatenate([block.tensors["x"] for block in blocks]),
        np.concatenate([block.label for block in blocks if block.label is not None]),
    )


def test_idx_and_csv_give_the_same_rows(mnist: Path, data: Path, tmp_path: Path) -> None:
    """A tenth of the training rows, in another order, and all test rows."""
    folder = data / "mnist"
    images = idx_values(folder / "train-images-idx3-ubyte.gz", 16).reshape(60_000, 784)
    labels = idx_values(folder / "train-labels-idx1-ubyte.gz", 8)
    texts = [str(value) for value in range(256)]
    order = np.random.default_rng(0).permutation(60_000)[:6_000]
    with gzip.open(tmp_path / "train.csv.gz", "wt", compresslevel=1) as file:
        for row in order:
            file.write(",".join([texts[value] for value in images[row].tolist()]) + f",{labels[row]}\n")
    settings = [f"input.path={tmp_path}/train.csv.gz", f"input.test={folder}/h2o-csv/test.csv.gz"]
    arguments = [part for setting in (*settings, f"output={tmp_path}/csv") for part in ("--set", setting)]
    assert preprocess.main(["--config", shipped("conf/preprocess-mnist-csv.yaml"), *arguments]) == 0

    one, two = (PreparedDataSet.open(f"{folder}") for folder in (mnist, tmp_path / "csv"))
    assert one.description == two.description
    assert one.manifest.splits["test"] == two.manifest.splits["test"]
    assert two.manifest.splits["train"].rows + two.manifest.splits["validation"].rows == 6_000
    for split in one.manifest.splits:
        of_idx, of_csv = read(one, split), read(two, split)
        place = {row_id: number for number, row_id in enumerate(of_idx[0].tolist())}
        same = [place[row_id] for row_id in of_csv[0].tolist()]
        for found, other in zip(of_idx, of_csv, strict=True):
            assert found.dtype == other.dtype
            np.testing.assert_array_equal(found[same], other)

    sizes = {name: split.rows for name, split in one.manifest.splits.items()}
    assert sizes["test"] == 10_000 and sizes["train"] + sizes["validation"] == 60_000
    assert 5_700 < sizes["validation"] < 6_300
    assert one.manifest.label is not None and one.manifest.label.classes == [str(digit) for digit in range(10)]
    counts = {name: split.label_counts for name, split in one.manifest.splits.items()}
    assert counts["test"] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    both = np.add(counts["train"], counts["validation"])
    assert both.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    _, found_images, found_labels = read(one, "test")
    expected = idx_values(folder / "t10k-images-idx3-ubyte.gz", 16).reshape(10_000, 28, 28)
    expected_labels = idx_values(folder / "t10k-labels-idx1-ubyte.gz", 8)
    rows = sorted((image.tobytes(), int(label)) for image, label in zip(found_images, found_labels, strict=True))
    known = sorted((image.tobytes(), int(label)) for image, label in zip(expected, expected_labels, strict=True))
    assert rows == known
    scaled = one.manifest.preprocessing.apply("x", found_images)
    assert scaled.min() == 0 and scaled.max() == pytest.approx(1)
    used = one.manifest.splits["train"].lane_rows
    assert min(used) > 450 and max(used) < 700
