"""The single file of a task: whole, or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparksplit.base.errors import Passing
from sparksplit.dataset import part_file
from sparksplit.dataset.part_file import PartFile, accept, attempt_name
from tests.disks import small_disk


def test_a_file_is_written_in_bounded_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_file, "_GROUP_BYTES", 24)
    table = pa.table({"row_id": np.arange(10)})
    with PartFile(str(tmp_path), "part") as file:
        for start in range(10):
            file.write(table.slice(start, 1))
        file.write(table.slice(0, 0))
    assert file.rows == 10
    assert pq.read_table(tmp_path / "part") == table
    assert pq.ParquetFile(tmp_path / "part").num_row_groups == 4


def test_a_file_without_rows_is_none(tmp_path: Path) -> None:
    with PartFile(str(tmp_path), "part") as file:
        file.write(pa.table({"x": pa.nulls(0)}))
    assert not file.rows and not list(tmp_path.iterdir())


def test_a_file_that_does_not_fit_is_removed(tmp_path: Path) -> None:
    rows = pa.table({"x": np.random.default_rng(1).random(20_000)})
    with small_disk(tmp_path / "disk", 64) as disk:
        for begin in (False, True):
            with (
                pytest.raises(Passing, match=rf"^{disk}/\.part\.0: cannot be written: No space left on device$"),
                PartFile(str(disk), ".part.0") as file,
            ):
                for _ in range(200 if begin else 1):  # as a row group, and at the end
                    file.write(rows)
            assert list(disk.iterdir()) == []


def test_a_file_that_cannot_be_removed_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDFS that is away, say: it cannot take the file's end, nor remove what there is of it."""

    def away(path: str) -> None:
        raise Passing(f"{path}: HDFS has failed for 120 s")

    monkeypatch.setattr(part_file.filesystem, "remove", away)
    with pytest.raises(ValueError, match="the first error"), PartFile(str(tmp_path), ".part.0") as file:
        file.write(pa.table({"x": [1.0]}))
        raise ValueError("the first error")


def test_the_driver_accepts_the_files_of_successful_attempts(tmp_path: Path) -> None:
    names = [attempt_name(part, attempt) for part, attempt in ((0, 5), (3, 6), (3, 7))]
    for name in names:
        with PartFile(str(tmp_path), name) as file:
            file.write(pa.table({"name": [name]}))
    accept(str(tmp_path), [names[0], names[2]])
    found = {file.name: pq.read_table(file)["name"].to_pylist() for file in tmp_path.iterdir()}
    assert found == {"part-00000.parquet": [names[0]], "part-00001.parquet": [names[2]]}
