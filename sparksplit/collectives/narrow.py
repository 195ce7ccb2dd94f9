"""16-bit floats (float16, bfloat16): sum them in float32, and round once at the end.

Otherwise each addition would round the sum to 11 or 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def is_narrow(dtype: Any) -> bool:
    """Whether `dtype`, of NumPy or TensorFlow, is float16 or bfloat16."""
    return dtype.name in ("float16", "bfloat16")


def widened(arrays: Sequence[Array]) -> list[Array]:
    """Return `arrays` with 16-bit floats as float32, which represents them exactly."""
    return [array.astype(np.float32) if _has_narrow(array) else array for array in arrays]


def narrowed(sums: Sequence[Array], like: Sequence[Array]) -> list[Array]:
    """Return `sums`, rounded to the 16-bit dtypes in `like`. Values that are too large become infinite."""
    with np.errstate(over="ignore"):
        return [
            total.astype(array.dtype) if _has_narrow(array) else total for total, array in zip(sums, like, strict=True)
        ]


def widened_tensors(tensors: Sequence[Any]) -> list[Any]:
    """`widened` for tensors."""
    import tensorflow as tf

    return [tf.cast(tensor, tf.float32) if is_narrow(tensor.dtype) else tensor for tensor in tensors]


def narrowed_tensors(sums: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """`narrowed` for tensors."""
    import tensorflow as tf

    return [
        tf.cast(total, tensor.dtype) if is_narrow(tensor.dtype) else total
        for total, tensor in zip(sums, like, strict=True)
    ]


def _has_narrow(array: Array) -> bool:
    return array.dtype.itemsize == 2 and is_narrow(array.dtype)  # size first: NumPy needs 3 us for a dtype's name
