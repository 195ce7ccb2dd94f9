"""Converts columns of numbers to a dtype, and finds the numbers that the dtype cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.prepare.tables.cells import WHOLE_FLOAT32, Bools, round_to


def numbers(column: pa.Array, dtype: np.dtype[Any], gaps: bool, rounds: bool) -> tuple[npt.NDArray[Any], Bools]:
    """Return (`column` as `dtype`, which values are bad), both [rows]. A bad value is 0.

    gaps: whether nulls and NaNs are missing values, stored as NaN in a float dtype.
    rounds: whether a number may lose the last digits of its whole part. Otherwise, it may lose only digits after the
        point.
    """
    raw = (column.fill_null(0) if column.null_count else column).to_numpy(zero_copy_only=False)
    if column.null_count == 0 and raw.dtype == dtype and (dtype.kind != "f" or np.isfinite(raw).all()):
        return raw, np.zeros(len(raw), np.bool_)
    empty = column.is_null().to_numpy(zero_copy_only=False)
    if raw.dtype.kind == "f":
        empty = empty | np.isnan(raw)
        raw = np.where(empty, raw.dtype.type(0), raw)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.kind == "f":
            values = round_to(raw, dtype)
            wrong = ~np.isfinite(values)
            large = np.flatnonzero(np.abs(raw.astype(np.float64)) >= WHOLE_FLOAT32) if not rounds else ()
            if len(large):
                # Exact for every 64-bit integer, if long doubles have 64 bits of precision.
                lost = np.abs(values[large].astype(np.longdouble) - raw[large].astype(np.longdouble)) >= 0.5
                wrong[large[lost]] = True
        else:
            limits = np.iinfo(dtype)
            # Compared with the float above the limit, because 2^63 - 1 is not a float.
            above = raw >= float(limits.max) + 1 if raw.dtype.kind == "f" else raw > min(limits.max, 2**63 - 1)
            wrong = (raw < max(limits.min, -(2**63))) | above | ~np.isfinite(raw)
            if raw.dtype.kind == "f":
                wrong |= raw != np.floor(raw)
            values = np.where(wrong, raw.dtype.type(0), raw).astype(dtype)
    values = np.where(wrong, dtype.type(0), values).astype(dtype, copy=False)
    if not gaps:
        return values, wrong | empty
    # One bit pattern for every missing value, because the row's hash covers the bits.
    return np.where(empty, dtype.type(np.nan), values), wrong & ~empty
