"""Arrays that TensorFlow takes over without a copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

ALIGNMENT = 64
"""Bytes; TensorFlow copies arrays that are not aligned to it."""


def aligned(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised array [*shape] of `dtype` that begins at a multiple of ALIGNMENT."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def is_aligned(array: npt.NDArray[Any]) -> bool:
    """Whether `array` can be taken over as it is."""
    flags = array.flags
    return flags.c_contiguous and flags.writeable and array.ctypes.data % ALIGNMENT == 0 and array.dtype.kind in "fiu"
