"""Disks that are full or read-only, under what `preprocess` publishes: one line with the path, and nothing left."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.errors import InputError, Passing
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.prepared import PreparedDataSet
from tests.disks import small_disk

_ROWS = np.random.default_rng(1).integers(0, 255, (4000, 64), dtype=np.uint8), np.arange(4000) % 3


def test_a_data_set_that_does_not_fit_replaces_nothing(tmp_path: Path) -> None:
    """The old one stays; with more room the new one takes its place."""
    with small_disk(tmp_path / "disk", 200) as disk:
        small = from_arrays(f"{disk}/data", {"train": (_ROWS[0][:50], _ROWS[1][:50])}, lanes=4)
        with pytest.raises(Passing, match=rf"^{disk}/\S+: cannot be written: No space left on device$"):
            from_arrays(f"{disk}/data", {"train": _ROWS}, lanes=4)
        assert [path.name for path in disk.iterdir()] == ["data"]
        assert PreparedDataSet.open(f"{disk}/data").manifest == small.manifest
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        from_arrays(f"{disk}/data", {"train": _ROWS}, lanes=4)
        assert [path.name for path in disk.iterdir()] == ["data"]


def test_a_read_only_disk_is_a_mistake_in_what_was_given(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        filesystem.write_bytes(f"{disk}/here", b"x")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        attempts = {
            "cannot be written": lambda: filesystem.write_bytes(f"{disk}/new", b"x"),
            "cannot be made": lambda: filesystem.make_folder(f"{disk}/new"),
            "cannot be removed": lambda: filesystem.remove(f"{disk}/here"),
        }
        for problem, attempt in attempts.items():
            with pytest.raises(InputError, match=rf"^{disk}/\w+: {problem}: Read-only file system$"):
                attempt()
        with pytest.raises(InputError, match=rf"^{disk}/\S*: cannot be (written|made): Read-only file system$"):  # noqa: SIM117
            with Output(f"{disk}/out", "hash", "preprocess").claimed():
                raise AssertionError
