"""Approximate quantiles that depend on the values alone: not on the tasks that see them, nor on the order of merging.

Values are counted by the leading bits of their float64, in at most a given number of bins: by all 64 bits, and where
that takes more bins, by one bit less, until it does not. Fewer bits make fewer bins of the same values, and more values
never fewer bins; so how many bits are left follows from the set of all values, in whatever parts and order they come.

While they are no more different values than bins, quantiles are exact. Otherwise they are off by less than the `error`
of their own value. Where the values lie in P different powers of two (2 to below 4 is one, above -4 to -2 another),
that is at most 2^-floor(log2(bins / P)): for 65,536 bins and numbers from a millionth to a million, 2^-10.

Spark's percentile_approx gives other values for other partitions: two runs would not fit the same.
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
    """The counts of the bins; takes 16 bytes for each of them, and as much again while values come.

    bins: how many there are at most
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
        """Take in numbers; NaN is no value."""
        numbers = np.asarray(values, np.float64).reshape(-1)
        images = _images(numbers[~np.isnan(numbers)])
        self.add(images, np.ones(len(images), np.int64), 0)

    def merge(self, other: Quantiles) -> None:
        """Take in what `other` has."""
        self.add(*other.state())

    def add(self, keys: U64, counts: I64, shift: int) -> None:
        """Take in bins, as `state` gives them, or some of them."""
        if len(keys):
            self._waiting.append((keys, counts, shift))
            self._size += len(keys)
            if self._size >= self._bins:
                self._settle()

    def state(self) -> tuple[U64, I64, int]:
        """(which bins have values, ascending, how many each has, how many bits less than 64 a bin has)"""
        self._settle()
        return self._keys, self._counts, self._shift

    @property
    def count(self) -> int:
        """How many values there are."""
        return int(self.state()[1].sum())

    @property
    def error(self) -> float:
        """A quantile is off by less than this part of the exact one; by less than 1e-308 below that. 0: exact."""
        shift = self.state()[2]
        return min(1.0, 2.0 ** (shift - _MANTISSA)) if shift else 0.0

    def quantile(self, probability: float | Fraction) -> float:
        """The smallest value that at least this part of all values do not exceed, without the bits that its bin does
        not have: so it is not further from 0 than the exact one. NaN where there are no values.

        probability: 0 to 1; a float stands for the fraction next to it with a denominator of up to a million
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
        """Where to cut the values into at most so many buckets of about as many rows each: the value that each bucket
        but the first begins with, ascending.

        Rows of one value stay together, so a cut may be below or above the value that has a quantile's row. Taken is
        the side that is nearer to the quantile. So no bucket is empty, and of two values that have a bucket's share of
        the rows each, no bucket has both.
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
        """Count what is waiting."""
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
    """A `state` in several with so many bins each."""
    keys, counts, shift = state
    for start in range(0, len(keys), bins):
        yield keys[start : start + bins], counts[start : start + bins], shift


def _images(values: npt.NDArray[np.float64]) -> U64:
    """Whole numbers in the order of the values; 0.0 and -0.0 have the same."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)


def _value(key: int, shift: int) -> float:
    """The value of a bin that is the nearest to 0."""
    image = key << shift
    if image < _SIGN:
        image += (1 << shift) - 1
    return _float(image)


def _float(image: int) -> float:
    """The value of an image."""
    bits = image ^ int(_SIGN) if image >= _SIGN else ~image & (2**64 - 1)
    return float(np.array(bits, np.uint64).view(np.float64)) + 0.0


def _summed(keys: U64, counts: I64) -> tuple[U64, I64]:
    """(the different keys, ascending, the sum of the counts of each)"""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(counts, starts)


def _bits_too_many(keys: U64, bins: int) -> int:
    """How many of their last bits keys, different and ascending, must lose for so few bins."""
    if len(keys) <= bins:
        return 0
    # Two neighbours fall into one bin when all the bits are gone in which they differ.
    different = keys[1:] ^ keys[:-1]
    high, low = (different >> np.uint64(32)).astype(np.float64), (different & np.uint64(2**32 - 1)).astype(np.float64)
    length = np.where(high > 0, 32 + np.frexp(high)[1], np.frexp(low)[1])
    return int(np.partition(length, len(length) - bins)[len(length) - bins])
