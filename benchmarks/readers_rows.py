"""The transform of benchmarks/readers.py: each row normalised and cropped at random, as a data loader's worker does.

`one_by_one` handles a row at a time and TIMES over, so that a row costs what it cost the article; `together` does the
same for many rows at once. Both give the same rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TIMES = 1
"""benchmarks/readers.py writes another number here."""
MEAN, DEVIATION = 0.1307, 0.3081
"""MNIST's, of pixels from 0 to 1."""
MARGIN = 2
"""How far a crop may be off the middle."""


def one_by_one(tensors: dict[str, Any], label: Any, seeds: Any) -> tuple[dict[str, Any], Any]:
    """{"x": float32 [rows, height, width]} normalised, and moved by the row's own random offset."""
    images = tensors["x"]
    height, width = images.shape[1:]
    cropped = np.empty_like(images)
    for number, (image, seed) in enumerate(zip(images, seeds.tolist(), strict=True)):
        for _ in range(TIMES):
            top, left = _offset(seed)
            padded = np.pad((image - np.float32(MEAN)) / np.float32(DEVIATION), MARGIN)
            cropped[number] = padded[top : top + height, left : left + width]
    return {"x": cropped}, label


def together(tensors: dict[str, Any], label: Any, seeds: Any) -> tuple[dict[str, Any], Any]:
    """Transform all rows at once."""
    images = tensors["x"]
    height, width = images.shape[1:]
    padded = np.pad((images - np.float32(MEAN)) / np.float32(DEVIATION), ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))
    top, left = _offset(seeds)
    return {"x": np.ascontiguousarray(windows[np.arange(len(images)), top, left])}, label


def _offset(seed: Any) -> tuple[Any, Any]:
    """Rows and columns to cut off before the crop, 0 to 2 * MARGIN, from a seed or an array of them."""
    places = 2 * MARGIN + 1
    return seed % places, seed // places % places
