"""Floats of 16 bits (float16, bfloat16): summed in float32, and rounded once, at the end.

Their sums of many nodes would otherwise be rounded at each addition, to 11 or 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def is_narrow(dtype: Any) -> bool:
    """Whether `dtype`, NumPy's or TensorFlow's, is one of them."""
    return dtype.name in ("float16", "bfloat16")


def widened(arrays: Sequence[Array]) -> list[Array]:
    """`arrays`, those of 16 bits as float32, which holds each of their numbers."""
    return [array.astype(np.float32) if _has_narrow(array) else array for array in arrays]


def narrowed(sums: Sequence[Array], like: Sequence[Array]) -> list[Array]:
    """`sums`, rounded to the dtypes of `like` where these are of 16 bits. What is too large for them is infinite."""
    with np.errstate(over="ignore"):
        return [
            found.astype(array.dtype) if _has_narrow(array) else found for found, array in zip(sums, like, strict=True)
        ]


def widened_tensors(tensors: Sequence[Any]) -> list[Any]:
    """`widened`, of tensors."""
    import tensorflow as tf

    return [tf.cast(tensor, tf.float32) if is_narrow(tensor.dtype) else tensor for tensor in tensors]


def narrowed_tensors(sums: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """`narrowed`, of tensors."""
    import tensorflow as tf

    return [
        tf.cast(found, tensor.dtype) if is_narrow(tensor.dtype) else found
        for found, tensor in zip(sums, like, strict=True)
    ]


def _has_narrow(array: Array) -> bool:
    return array.dtype.itemsize == 2 and is_narrow(array.dtype)  # NumPy makes a dtype's name in 3 us
