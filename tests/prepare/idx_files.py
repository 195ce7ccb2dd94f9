"""IDX files for tests."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np

CODES = {"uint8": 8, "int8": 9, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}


def idx(array: np.ndarray[Any, Any]) -> bytes:
    """The IDX file of an array."""
    header = bytes([0, 0, CODES[array.dtype.name], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def digits(rows: int, seed: int = 0, classes: int = 3) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images uint8 [rows, 4, 3] and labels uint8 [rows], all classes among them."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (rows, 4, 3), dtype=np.uint8)
    return images, (np.arange(rows) % classes).astype(np.uint8)


def write_folder(
    folder: Path, train: tuple[Any, Any], test: tuple[Any, Any] | None = None, compressed: bool = False
) -> Path:
    """An IDX folder with the standard file names."""
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, part in (("train", train), ("t10k", test)):
        if part is None:
            continue
        for name, array in ((f"{prefix}-images-idx3-ubyte", part[0]), (f"{prefix}-labels-idx1-ubyte", part[1])):
            content = idx(array)
            if compressed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
            else:
                (folder / name).write_bytes(content)
    return folder
