"""What an executor does with the rows that it gets, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparksplit.base.errors import InputError, RunError
from sparksplit.dataset.description import LabelSpec, TensorSpec
from sparksplit.dataset.lane_files import FileFacts, Layout, merge_split
from sparksplit.dataset.plan import Plan
from sparksplit.features.encoder import Encoder
from sparksplit.prepare.passes.cut import Cut
from sparksplit.prepare.passes.identify import Identify
from sparksplit.prepare.passes.shuffle import Place, Writing
from tests.disks import small_disk

LAYOUT = Layout(
    [TensorSpec(name="x", dtype="uint8", shape=[2])],
    LabelSpec(dtype="int64", classes=["3", "5"], kind="integer"),
    [],
    block_rows=4,
)
PLAN = Plan.of({"train": 18, "validation": 0, "test": 0}, row_bytes=10, lanes=4, file_size=100)
PARTITIONS = np.array([70, -3], np.int32)
ENCODER = Encoder((), tuple(LAYOUT.tensors))
PLACE = Place(Identify(None), Cut(), PLAN, LAYOUT, ENCODER, ["tensor_0"], [], ["label"], PARTITIONS, 1_000_000)


def write(rows: Iterator[pa.RecordBatch], folder: str, attempt: int) -> list[FileFacts]:
    return list(Writing(folder, PLACE, np.zeros(2, np.int64)).write(rows, attempt))


def batches(sizes: list[int]) -> Iterator[pa.RecordBatch]:
    """Ten rows in lane 0, three in lane 1, five in lane 3, in no order, packed in batches of these sizes."""
    lanes = np.repeat([0, 1, 3], [10, 3, 5])
    order = np.random.default_rng(0).permutation(18)
    start = 0
    for size in sizes:
        rows = order[start : start + size]
        columns = [
            pa.array(4 * rows + lanes[rows]),
            pa.array([bytes([number, number]) for number in rows.tolist()], type=pa.binary()),
            pa.array(rows % 2),
        ]
        files = lanes[rows] // 2
        chosen, chunks = PLACE.codec.pack(columns, 30, files)
        yield pa.RecordBatch.from_arrays([pa.array(PARTITIONS[files[chosen]]), *chunks], schema=PLACE.schema)
        start += size


@pytest.mark.parametrize("sizes", [[18], [1] * 18, [5, 0, 6, 7], [10, 3, 5], [13, 5]])
def test_blocks_do_not_depend_on_the_batches(tmp_path: Path, sizes: list[int]) -> None:
    (tmp_path / "train").mkdir()
    facts = write(batches(sizes), f"{tmp_path}", attempt=7)
    assert [fact.path for fact in facts] == ["train/.lanes-000-001.parquet.7", "train/.lanes-002-003.parquet.7"]
    assert [fact.lanes for fact in facts] == [[(0, 10, 0), (1, 3, 3)], [(3, 5, 0)]]
    groups = [pq.ParquetFile(tmp_path / fact.path).metadata for fact in facts]
    assert [[group.row_group(place).num_rows for place in range(group.num_row_groups)] for group in groups] == [
        [4, 4, 2, 3],
        [4, 1],
    ]
    split, _ = merge_split(reversed(facts), LAYOUT, 4, [9, 9])
    assert split.lane_rows == [10, 3, 0, 5] and split.label_counts == [9, 9]
    assert split.files == 2 and split.bytes == sum(fact.bytes for fact in facts)


def test_an_attempt_that_fails_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()

    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches([6])
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        write(failing(), f"{tmp_path}", attempt=1)
    assert list((tmp_path / "train").iterdir()) == []


def test_an_attempt_that_finds_the_disk_full_says_so_and_leaves_no_file(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", kibibytes=4) as disk:
        (disk / "train").mkdir()
        (disk / "other").write_bytes(bytes(4096))
        full = r"/disk/train/\.lanes-000-001\.parquet\.1: cannot be written: No space left on device$"
        with pytest.raises(RunError, match=full):
            write(batches([18]), f"{disk}", attempt=1)
        assert list((disk / "train").iterdir()) == []


def test_an_attempt_does_not_bring_a_removed_folder_back(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        write(batches([18]), f"{tmp_path}/gone", attempt=1)
    assert list(tmp_path.iterdir()) == []


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert write(iter([]), f"{tmp_path}", attempt=1) == []
    assert list(tmp_path.iterdir()) == []
