"""Approximate quantiles that depend only on the values, not on the tasks that read them or on the order of merging.

Values are counted in bins by the leading bits of their float64. Bins use all 64 bits at first. If there are too many
bins, bits are dropped until there are few enough. Fewer bits never make more bins, and more values never make fewer
bins. The number of bits therefore depends only on the set of all values.

Quantiles are exact while there are at most as many different values as bins. Otherwise a quantile's relative error is
less than `error`. Let the values lie in P different powers of two (2 to below 4 is one, above -4 to -2 another). Then
`error` is at most 2^-floor(log2(bins / P)). For 65,536 bins and numbers from a millionth to a million, this is 2^-10.

Spark's percentile_approx gives other values for other partitions, so two runs would have different fits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
BINS = 1 << 16
_SIGN = np.uint64(1 << 63)
_MANTISSA = 52
_DENOMINATOR = 10**6


class Quantiles:
    """The counts of the bins. They take 16 bytes per bin, and as much again while values are added.

    bins: largest number of bins
    """

    def __init__(self, bins: int = BINS) -> None:
        if bins < 2:
            raise ValueError("quantiles need two bins")
        self._bins = bins
        self._shift = 0
        self._keys: U64 = np.zeros(0, np.uint64)
        self._counts: I64 = np.zeros(0, np.int64)
        self._waiting: list[tuple[U64, I64, int]] = []
        self._size = 0

    def update(self, values: npt.NDArray[Any]) -> None:
        """Add numbers. NaN is ignored."""
        numbers = np.asarray(values, np.float64).reshape(-1)
        images = _images(numbers[~np.isnan(numbers)])
        self.add(images, np.ones(len(images), np.int64), 0)

    def merge(self, other: Quantiles) -> None:
        """Add the values of `other`."""
        self.add(*other.state())

    def add(self, keys: U64, counts: I64, shift: int) -> None:
        """Add bins from `state`, or some of them."""
        if len(keys):
            self._waiting.append((keys, counts, shift))
            self._size += len(keys)
            if self._size >= self._bins:
                self._settle()

    def state(self) -> tuple[U64, I64, int]:
        """Return (keys of the bins with values, ascending, the count of each bin, the number of dropped bits)."""
        self._settle()
        return self._keys, self._counts, self._shift

    @property
    def count(self) -> int:
        """The number of values."""
        return int(self.state()[1].sum())

    @property
    def error(self) -> float:
        """The limit of a quantile's relative error.

        For values below 1e-308, the absolute error is below 1e-308. 0: exact.
        """
        shift = self.state()[2]
        return min(1.0, 2.0 ** (shift - _MANTISSA)) if shift else 0.0

    def quantile(self, probability: float | Fraction) -> float:
        """Return the smallest value that at least this share of all values do not exceed; NaN without values.

        The result lacks the dropped bits of its bin. It is therefore not further from 0 than the exact quantile.

        probability: 0 to 1. A float stands for the nearest fraction with a denominator of up to a million. Raise
        ValueError outside 0 to 1.
        """
        keys, counts, shift = self.state()
        if not len(keys):
            return math.nan
        share = Fraction(probability).limit_denominator(_DENOMINATOR)
        if not 0 <= share <= 1:
            raise ValueError(f"a probability is from 0 to 1 (is {probability})")
        ends = np.cumsum(counts)
        rank = max(1, math.ceil(share * int(ends[-1])))
        return _value(int(keys[np.searchsorted(ends, rank)]), shift)

    def boundaries(self, buckets: int) -> list[float]:
        """Return where to cut the values into at most `buckets` buckets, with about equal numbers of rows.

        A boundary is the first value of a bucket, for all buckets except the first, ascending. Rows of equal value stay
        together, so a cut is below or above the value at a quantile. The side nearer to the quantile is used.

        No bucket is empty. Two values that each have a bucket's share of the rows never share a bucket.
        """
        keys, counts, shift = self.state()
        if not len(keys):
            return []
        ends = np.cumsum(counts)
        wanted = np.arange(1, buckets) * ends[-1]
        bins = np.searchsorted(ends * buckets, wanted)
        below, above = wanted - (ends - counts)[bins] * buckets, ends[bins] * buckets - wanted
        cuts = np.unique(np.where(below <= above, bins, bins + 1))
        return [_float(int(keys[cut]) << shift) for cut in cuts.tolist() if 0 < cut < len(keys)]

    def _settle(self) -> None:
        """Add the waiting bins to the counts."""
        if not self._waiting:
            return
        parts = [(self._keys, self._counts, self._shift), *self._waiting]
        self._waiting, self._size = [], 0
        shift = max(each for _, _, each in parts)
        keys = np.concatenate([keys >> np.uint64(shift - each) for keys, _, each in parts])
        keys, counts = _summed(keys, np.concatenate([counts for _, counts, _ in parts]))
        if less := _bits_too_many(keys, self._bins):
            shift += less
            keys, counts = _summed(keys >> np.uint64(less), counts)
        self._keys, self._counts, self._shift = keys, counts, shift


def pieces(state: tuple[U64, I64, int], bins: int) -> Iterator[tuple[U64, I64, int]]:
    """Yield a `state` in pieces of at most `bins` bins."""
    keys, counts, shift = state
    for start in range(0, len(keys), bins):
        yield keys[start : start + bins], counts[start : start + bins], shift


def _images(values: npt.NDArray[np.float64]) -> U64:
    """Return whole numbers in the order of the values. 0.0 and -0.0 have equal numbers."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)


def _value(key: int, shift: int) -> float:
    """Return the value of a bin that is nearest to 0."""
    image = key << shift
    if image < _SIGN:
        image += (1 << shift) - 1
    return _float(image)


def _float(image: int) -> float:
    """Return the value of an image (see `_images`)."""
    bits = image ^ int(_SIGN) if image >= _SIGN else ~image & (2**64 - 1)
    return float(np.array(bits, np.uint64).view(np.float64)) + 0.0


def _summed(keys: U64, counts: I64) -> tuple[U64, I64]:
    """Return (the different keys, ascending, the sum of the counts of each key)."""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(counts, starts)


def _bits_too_many(keys: U64, bins: int) -> int:
    """Return how many last bits the keys must lose, so that at most `bins` keys differ.

    keys: different and ascending.
    """
    if len(keys) <= bins:
        return 0
    # Two neighbours fall into one bin when all bits in which they differ are dropped.
    different = keys[1:] ^ keys[:-1]
    high, low = (different >> np.uint64(32)).astype(np.float64), (different & np.uint64(2**32 - 1)).astype(np.float64)
    length = np.where(high > 0, 32 + np.frexp(high)[1], np.frexp(low)[1])
    return int(np.partition(length, len(length) - bins)[len(length) - bins])
