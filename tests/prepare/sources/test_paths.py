"""What the driver sees of paths before it starts Spark."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sparksplit.base.errors import InputError
from sparksplit.prepare.config import InputConfig
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
