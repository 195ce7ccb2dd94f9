"""Quotas, safe mode and folders of others on a real HDFS: one line with the path, nothing left, and on it goes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from hdfs_io import filesystem, hdfs_client
from sparksplit.base.errors import Passing
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.part_file import PartFile
from sparksplit.dataset.prepared import PreparedDataSet
from tests.hadoop.cluster import HadoopCluster

_ROWS = np.random.default_rng(1).integers(0, 255, (4000, 64), dtype=np.uint8)


@pytest.fixture
def folder(hadoop: HadoopCluster) -> Iterator[str]:
    """A new folder on HDFS."""
    path = f"{hadoop.uri}/full/{uuid.uuid4().hex}"
    filesystem.make_folder(path)
    yield path
    filesystem.remove(path)


@dataclass(frozen=True)
class Limit:
    """What `dfsadmin` is told to set a limit on a folder, and to lift it; what the error says, after the path."""

    set: list[str]
    lift: list[str]
    says: str


LIMITS = {
    "bytes": Limit(["-setSpaceQuota", "1m"], ["-clrSpaceQuota"], "The DiskSpace quota of {} is exceeded"),
    "names": Limit(["-setQuota", "5"], ["-clrQuota"], "The NameSpace quota .* of directory {} is exceeded"),
}


def data_set(folder: str) -> None:
    """What `preprocess` publishes."""
    from_arrays(f"{folder}/data", {"train": (_ROWS, np.arange(len(_ROWS)) % 3)}, lanes=4)


def small_file(folder: str) -> None:
    """What metrics, marks and descriptions are."""
    for name in "abcde":
        filesystem.write_bytes(f"{folder}/{name}", b"x")


def part_file(folder: str) -> None:
    """What a task of `predict` writes."""
    for part in range(5):
        with PartFile(folder, f".part-{part}") as file:
            file.write(pa.table({"x": np.arange(1000)}))


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_a_quota(hadoop: HadoopCluster, folder: str, limit: Limit) -> None:
    inner = folder.removeprefix(hadoop.uri)
    says = limit.says.format(inner)
    hadoop.admin(*limit.set, inner)
    for write in (data_set, part_file, small_file):
        with pytest.raises(Passing, match=f"^{folder}/.*: cannot be (written|made): {says}") as raised:
            write(folder)
        assert "\n" not in str(raised.value)
        # Nothing but files that are whole.
        found = filesystem.listing(folder)
        assert set(found) <= {*"abcde", *(f".part-{part}" for part in range(5))}
        assert all(size == 1 for name, size in found.items() if name in "abcde")
    hadoop.admin(*limit.lift, inner)
    for write in (data_set, part_file, small_file):
        write(folder)


def test_safe_mode_is_waited_for(hadoop: HadoopCluster, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_client, "PATIENCE", 2.0)
    hadoop.admin("-safemode", "enter")
    try:
        safe = rf"^{folder}.*: HDFS has failed for 2 s: .*[Nn]ame node is in safe mode"
        with pytest.raises(Passing, match=safe) as raised:
            data_set(folder)
        assert "\n" not in str(raised.value)
    finally:
        hadoop.admin("-safemode", "leave")
    assert filesystem.listing(folder) == {}
    data_set(folder)
    assert PreparedDataSet.open(f"{folder}/data").manifest.splits["train"].rows == len(_ROWS)
