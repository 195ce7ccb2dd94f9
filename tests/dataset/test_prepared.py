"""The prepared data set: written from arrays, read by blocks, and refused when it is damaged."""

from __future__ import annotations

import errno
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparksplit.base.errors import InputError, RunError
from sparksplit.dataset import prepared, row_ids
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.joined import check_alike
from sparksplit.dataset.prepared import BlockReader, PreparedDataSet


def arrays(rows: int = 500, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, 4, 3), dtype=np.uint8), rng.integers(0, 5, rows)


def write(path: Path, **settings: Any) -> PreparedDataSet:
    x, y = arrays()
    return from_arrays(
        f"{path}", {"train": (x, y), "test": (x[:30], y[:30])}, **{"lanes": 7, "block_size": 1024, **settings}
    )


def read_all(data: PreparedDataSet, split: str, **settings: Any) -> list[Any]:
    with BlockReader(data, split, **settings) as reader:
        return [
            (lane, reader.read(lane, block))
            for lane in range(data.manifest.lanes)
            for block in range(data.manifest.blocks(split, lane))
        ]


def test_every_row_is_read_once_in_its_lane_and_order(tmp_path: Path) -> None:
    written = write(tmp_path / "data", file_size=4000)
    data = PreparedDataSet.open(f"{tmp_path}/data")
    assert data.manifest == written.manifest
    assert data.manifest.block_rows == 36
    assert data.manifest.splits["train"].files == len(data.files("train")) == 4
    x, y = arrays()
    content = {row.tobytes() + bytes([label]): place for place, (row, label) in enumerate(zip(x, y, strict=True))}
    seen, last = [], (-1, -1)
    for lane, block in read_all(data, "train"):
        assert (row_ids.lane_of(block.row_ids, 7) == lane).all()
        for place, number in enumerate(block.row_ids.tolist()):
            assert last < (lane, number)
            last = (lane, number)
            seen.append(content[block.tensors["x"][place].tobytes() + bytes([int(block.label[place])])])
        assert block.tensors["x"].shape[1:] == (4, 3) and block.tensors["x"].dtype == np.uint8
        assert block.label.dtype == np.int64 and block.row_ids.dtype == np.uint64
    assert sorted(seen) == list(range(500))
    split = data.manifest.splits["train"]
    ids = np.concatenate([block.row_ids for _, block in read_all(data, "train")])
    assert split.checksum == row_ids.row_checksum(ids)
    assert split.rows == sum(split.lane_rows) == 500
    assert split.label_counts == np.bincount(y).tolist()
    assert split.statistics["x"].mean == pytest.approx(x.mean())


def test_the_order_of_the_input_does_not_matter(tmp_path: Path) -> None:
    x, y = arrays()
    order = np.random.default_rng(1).permutation(len(x))
    one = from_arrays(f"{tmp_path}/a", {"train": (x, y)}, lanes=5)
    two = from_arrays(f"{tmp_path}/b", {"train": (x[order], y[order])}, lanes=5)
    assert one.digest == two.digest
    for lane, (segment,) in one.segments("train").items():
        assert segment.crc32.tolist() == two.segments("train")[lane][0].crc32.tolist()
    assert one.digest != write(tmp_path / "c").digest


def test_the_digest_counts_the_weights_of_rows_although_row_ids_do_not(tmp_path: Path) -> None:
    """Otherwise a run on the old weights would be finished, or be resumed, on the new ones."""
    x, y = arrays()
    weight = np.random.default_rng(2).random(len(x)).astype(np.float32)
    weight[7] = 0
    signed, other = weight.copy(), weight.copy()
    signed[7] = -0.0
    other[[3, 4]] = other[[4, 3]]  # the same sum and mean

    def digest(name: str, given: npt.NDArray[Any] | None, rows: Any = slice(None), **settings: int) -> str:
        tensors = {"x": x[rows]} if given is None else {"x": x[rows], "weight": given[rows]}
        data = from_arrays(f"{tmp_path}/{name}", {"train": (tensors, y[rows])}, lanes=5, **settings)
        checksums.append(data.manifest.splits["train"].checksum)
        assert PreparedDataSet.open(data.path).digest == data.digest
        return data.digest

    checksums: list[int] = []
    order = np.random.default_rng(1).permutation(len(x))
    first = digest("a", weight)
    assert digest("b", weight, order, file_size=2000) == digest("f", signed) == first
    assert len({first, digest("c", other), digest("d", np.ones_like(weight)), digest("e", None)}) == 4
    assert len(set(checksums)) == 1


def test_duplicates_empty_lanes_and_empty_splits(tmp_path: Path) -> None:
    x = np.zeros((6, 2), dtype=np.float32)
    data = from_arrays(f"{tmp_path}/data", {"train": (x, [0, 0, 0, 1, 1, 1])}, lanes=50, classes=3)
    split = data.manifest.splits["train"]
    assert split.rows == 6 and split.lane_rows.count(0) >= 44
    assert split.label_counts == [3, 3, 0]
    ids = np.concatenate([block.row_ids for _, block in read_all(data, "train")])
    assert len(set(ids.tolist())) == 6
    assert data.manifest.splits["validation"].rows == 0
    assert data.manifest.splits["test"].files == 0 and data.files("test") == {}
    assert read_all(data, "test") == []
    with BlockReader(data, "test") as reader, pytest.raises(IndexError):
        reader.read(0, 0)
    empty = from_arrays(f"{tmp_path}/empty", {"train": (x[:0], np.zeros(0, dtype=np.int64))}, classes=2)
    assert PreparedDataSet.open(empty.path).manifest.splits["train"].rows == 0


@pytest.mark.parametrize("file_size", [300, 900, 2000])
def test_lanes_may_lie_in_several_files_that_end_within_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_size: int
) -> None:
    monkeypatch.setattr(prepared, "OPEN_FILES", 2)
    settings = {"lanes": 2, "block_size": 1024}
    whole, cut = (write(tmp_path / f"{size}", file_size=size, **settings) for size in (10**6, file_size))
    assert whole.manifest.splits["train"].files == 1 and cut.manifest.splits["train"].files > 4
    assert cut.digest == whole.digest and cut.manifest.preprocessing == whole.manifest.preprocessing
    statistics = [data.manifest.splits["train"].statistics["x"].model_dump() for data in (whole, cut)]
    assert statistics[0] == pytest.approx(statistics[1], rel=1e-12)
    for split in ("train", "test"):
        for (lane, one), (other, two) in zip(read_all(whole, split), read_all(cut, split), strict=True):
            assert lane == other
            np.testing.assert_array_equal(one.row_ids, two.row_ids)
            np.testing.assert_array_equal(one.tensors["x"], two.tensors["x"])
            np.testing.assert_array_equal(one.label, two.label)
        (first, *_), second = whole.segments(split)[1], cut.segments(split)[1]
        # Only a block that goes on in another file is two row groups, or more.
        assert len(first.crc32) <= sum(len(segment.crc32) for segment in second) <= len(first.crc32) + len(second) - 1
    only = cut.segments("train", range(1, 2))
    assert list(only) == [1] and len(only[1]) == len(cut.segments("train")[1])


def test_several_tensors_text_classes_numbers_and_no_labels(tmp_path: Path) -> None:
    x = {"image": np.arange(8, dtype=np.uint16).reshape(4, 2), "extra": np.arange(4, dtype=np.float64).reshape(4, 1)}
    data = from_arrays(f"{tmp_path}/text", {"train": (x, ["cat", "dog", "cat", "ant"])}, lanes=1)
    label = data.manifest.label
    assert label is not None and label.classes == ["ant", "cat", "dog"] and label.kind == "text"
    block = read_all(data, "train")[0][1]
    found = dict(zip(block.tensors["extra"][:, 0].tolist(), block.label.tolist(), strict=True))
    assert found == {0.0: 1, 1.0: 2, 2.0: 1, 3.0: 0}
    only = read_all(data, "train", columns=["extra"])[0][1]
    assert only.label is None and list(only.tensors) == ["extra"]
    data = from_arrays(f"{tmp_path}/number", {"train": (x["image"], [0.5, 1.5, 2.5, 3.5])}, lanes=1)
    assert sorted(read_all(data, "train")[0][1].label.tolist()) == [0.5, 1.5, 2.5, 3.5]
    assert data.manifest.splits["train"].label_counts is None
    data = from_arrays(f"{tmp_path}/none", {"train": (x["image"], None)}, lanes=1)
    assert data.manifest.label is None and read_all(data, "train")[0][1].label is None


def test_labels_at_several_places(tmp_path: Path) -> None:
    x = np.arange(40, dtype=np.uint16).reshape(20, 2)
    y = np.arange(60).reshape(20, 3) % 4
    data = from_arrays(f"{tmp_path}/classes", {"train": (x, y), "test": (x[:3], y[:3])}, lanes=3, block_size=1024)
    label = data.manifest.label
    assert label is not None and (label.dtype, label.shape, label.classes) == ("int64", [3], ["0", "1", "2", "3"])
    assert data.manifest.splits["train"].label_counts == [15] * 4
    blocks = [block for _, block in read_all(data, "train")]
    for block in blocks:
        assert (block.label == y[block.tensors["x"][:, 0] // 2]).all() and block.label.shape[1:] == (3,)
    content = np.concatenate([x[:1].view(np.uint8), y[:1].astype("<i8").view(np.uint8)], axis=1)
    assert row_ids.content_hash(content)[0, 0] in np.concatenate([block.row_ids for block in blocks])
    fortran = from_arrays(f"{tmp_path}/fortran", {"train": (x, np.asfortranarray(y)), "test": (x[:3], y[:3])}, lanes=3)
    assert fortran.manifest.splits["train"].checksum == data.manifest.splits["train"].checksum
    numbers = from_arrays(f"{tmp_path}/numbers", {"train": (x, y / 2)}, lanes=3)
    assert numbers.manifest.label is not None and numbers.manifest.label.shape == [3]
    for _, block in read_all(numbers, "train"):
        assert block.label.dtype == np.float32 and (block.label == y[block.tensors["x"][:, 0] // 2] / 2).all()


def test_arrays_of_numbers_keep_whole_digits_and_ids_whatever_their_float_type(tmp_path: Path) -> None:
    x = np.arange(8, dtype=np.uint8)[:, None]
    y = np.arange(8) / 10 + 0.1
    one, other = (from_arrays(f"{tmp_path}/{kind}", {"train": (x, y.astype(kind))}, lanes=2) for kind in ("f4", "f8"))
    assert one.manifest.label == other.manifest.label and one.manifest.splits == other.manifest.splits
    whole = y + 20241231235959
    data = from_arrays(f"{tmp_path}/whole", {"train": (x, y), "test": (x, whole)}, lanes=2)
    assert data.manifest.label is not None and data.manifest.label.dtype == "float64"
    assert data.manifest.splits["train"].checksum == one.manifest.splits["train"].checksum
    assert {label for _, block in read_all(data, "test") for label in block.label.tolist()} == set(whole.tolist())
    with pytest.raises(InputError, match=rf"has labels in .*; prepare {one.path} again with `fitted: {data.path}`"):
        check_alike(one, data)


def test_equal_arrays_of_other_weights_keep_their_ids_in_any_order(tmp_path: Path) -> None:
    """And have those of rows without weights."""
    x, y = np.repeat(np.arange(4, dtype=np.float32), 6), np.zeros(24, np.int64)
    weight = np.tile(np.array([5, 1, 256, 0.5, 1, 3], np.float32), 4)
    found = []
    for order in (np.arange(18), np.arange(18)[::-1]):
        tensors = {"x": x[:18][order], "weight": weight[:18][order]}
        rest = {"test": ({"x": x[18:], "weight": weight[18:]}, y[18:])}
        data = from_arrays(f"{tmp_path}/{len(found)}", {"train": (tensors, y[:18]), **rest}, lanes=2)
        blocks = [block for _, block in read_all(data, "train")]
        found.append(
            {
                row_id: (float(x), float(weight))
                for block in blocks
                for row_id, x, weight in zip(block.row_ids.tolist(), *block.tensors.values(), strict=True)
            }
        )
    assert found[0] == found[1] and len(found[0]) == 18
    plain = from_arrays(f"{tmp_path}/plain", {"train": (x[:18], y[:18]), "test": (x[18:], y[18:])}, lanes=2)
    assert {row_id for _, block in read_all(plain, "train") for row_id in block.row_ids.tolist()} == set(found[0])


def test_arrays_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    x, y = arrays(10)
    for splits in ({"test": (x, y)}, {"train": (x, y), "more": (x, y)}, {"train": (x, y[:5])}):
        with pytest.raises(ValueError):
            from_arrays(f"{tmp_path}/data", splits)
    with pytest.raises(ValueError, match="is not a class"):
        from_arrays(f"{tmp_path}/data", {"train": (x, y * 0), "test": (x, y * 0 + 1)})
    with pytest.raises(ValueError, match=r"test: the labels of a row have the shape \[1\], but \[\] in train"):
        from_arrays(f"{tmp_path}/data", {"train": (x, y), "test": (x, y[:, None])})
    with pytest.raises(ValueError, match="text labels must be one per row"):
        from_arrays(f"{tmp_path}/data", {"train": (x, np.full((10, 2), "a"))})
    with pytest.raises(ValueError, match="must be uint8"):
        from_arrays(f"{tmp_path}/data", {"train": (x, y), "test": (x.astype(np.float32), y)})
    weight = np.ones(10, np.float32)
    with pytest.raises(ValueError, match=r"tensor weight: must be one number a row, \[rows\] \(is \[rows, 1\]\)"):
        from_arrays(f"{tmp_path}/data", {"train": ({"x": x, "weight": weight[:, None]}, y)})
    for wrong in (-1.0, np.nan):
        other = np.where(np.arange(10) == 3, np.float32(wrong), weight)
        given = {"train": ({"x": x, "weight": weight}, y), "test": ({"x": x, "weight": other}, y)}
        with pytest.raises(ValueError, match=rf"test: tensor weight: row 3: must be .* 0 or more \(is {wrong}\)"):
            from_arrays(f"{tmp_path}/data", given)
    assert list(tmp_path.iterdir()) == []


def test_a_row_is_found_by_its_id(tmp_path: Path) -> None:
    """File, row group and row; the split and the id where it cannot be found."""
    data = write(tmp_path / "data", file_size=4000)
    split = data.split("train")
    for path in data.files("train"):
        file = pq.ParquetFile(f"{data.path}/{path}")
        for group in (0, file.num_row_groups - 1):
            for row, row_id in enumerate(file.read_row_group(group).column("row_id").to_pylist()):
                found = f"{data.path}/{path}: row group {group}, row {row} (row_id {row_id})"
                assert split.place_of(row_id % 2**64) == found
    assert split.place_of(2**64 - 5) == f"{data.path}, train: row_id -5"
    for path in data.files("train"):
        (tmp_path / "data" / path).unlink()
    assert split.place_of(row_id % 2**64) == f"{data.path}, train: row_id {row_id}"


def test_the_data_set_travels_to_nodes(tmp_path: Path) -> None:
    data = write(tmp_path / "data")
    assert repr(data) == f"PreparedDataSet(path='{tmp_path}/data')"
    other = pickle.loads(pickle.dumps(data))
    assert (other.path, other.manifest, other.digest) == (data.path, data.manifest, data.digest)
    assert PreparedDataSet.open(data.path, verify=False).digest == data.digest


def test_what_is_incomplete_or_damaged_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder not found"):
        PreparedDataSet.open(f"{tmp_path}/none")
    (tmp_path / "raw.csv").touch()
    with pytest.raises(InputError, match="not a prepared data set: it is a file"):
        PreparedDataSet.open(f"{tmp_path}/raw.csv")
    data = write(tmp_path / "data")
    folder = tmp_path / "data"
    (folder / "_SUCCESS").unlink()
    with pytest.raises(InputError, match="no _SUCCESS file"):
        PreparedDataSet.open(data.path)
    (folder / "_SUCCESS").touch()
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(json.dumps({**json.loads(text), "format_version": 99}))
    with pytest.raises(InputError, match=r"version 99; .* reads 3\. Make it again, or use the version that made it$"):
        PreparedDataSet.open(data.path)
    (folder / "manifest.json").write_text(text[:100])
    with pytest.raises(InputError, match="is not valid JSON"):
        PreparedDataSet.open(data.path)
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"no manifest\.json"):
        PreparedDataSet.open(data.path)
    (folder / "manifest.json").write_text(text)
    file = folder / next(iter(data.files("train")))
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(InputError, match=rf"lanes-000-006\.parquet: is damaged: it has {len(content) - 1} bytes"):
        PreparedDataSet.open(data.path)
    file.unlink()
    with pytest.raises(InputError, match="file not found, although the data set lists it"):
        PreparedDataSet.open(data.path)


def test_a_table_of_blocks_that_is_missing_or_damaged_is_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "data")
    table = tmp_path / "data" / "blocks" / "train.parquet"
    content = table.read_bytes()
    table.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"blocks/train\.parquet: is damaged: "):
        PreparedDataSet.open(data.path)
    table.unlink()
    for opened in (PreparedDataSet.open, lambda path: BlockReader(PreparedDataSet.open(path, verify=False), "train")):
        with pytest.raises(InputError, match=r"blocks/train\.parquet: does not exist$"):
            opened(data.path)


@pytest.mark.parametrize("where", ["values", "everywhere", "table"])
def test_a_block_with_another_checksum_is_refused(tmp_path: Path, where: str) -> None:
    data = write(tmp_path / "data")
    file = tmp_path / "data" / next(iter(data.files("train")))
    content = bytearray(file.read_bytes())
    if where == "values":
        row = read_all(data, "train")[0][1].tensors["x"][0].tobytes()
        found = bytes(content).find(row)
        assert found > 0
        content[found] ^= 1
    elif where == "everywhere":
        content[100:2000] = bytes(1900)
    else:
        table = pq.read_table(tmp_path / "data" / "blocks" / "train.parquet")
        rows = table.to_pylist()
        rows[0]["crc32"][0] ^= 1
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), tmp_path / "data" / "blocks" / "train.parquet")
    file.write_bytes(content)
    data = PreparedDataSet.open(data.path)
    with BlockReader(data, "train") as reader, pytest.raises(InputError, match=r"parquet: row group 0: is damaged"):
        reader.read(0, 0)
    with BlockReader(data, "test") as reader:
        lane = next(lane for lane, rows in enumerate(data.manifest.splits["test"].lane_rows) if rows)
        assert len(reader.read(lane, 0).row_ids)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_device_that_fails_is_not_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    data = write(tmp_path / "data")
    with BlockReader(data, "train") as reader:

        def fails(path: str) -> None:
            raise OSError(number, f"Error reading bytes from file. Detail: [errno {number}] {os.strerror(number)}")

        monkeypatch.setattr(reader, "_file", fails)
        with pytest.raises(RunError, match=rf"parquet: row group 0: cannot be read: {os.strerror(number)}$"):
            reader.read(0, 0)


def test_unknown_splits_and_columns_are_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "data")
    with pytest.raises(InputError, match="has no split 'dev'"):
        BlockReader(data, "dev")
    with pytest.raises(InputError, match="has no column 'y'"):
        BlockReader(data, "train", columns=["y"])
