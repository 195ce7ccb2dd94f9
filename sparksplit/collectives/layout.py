"""The layout and the order of additions of a sum's arrays. Every collective with this layout gives the same bits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sparksplit.base.memory import ALIGNMENT
from sparksplit.collectives.base import Array

GAP = -1


class Piece(NamedTuple):
    """Elements `begin` to `end` of array `number`, which lie at `at`. number GAP: padding between arrays."""

    number: int
    begin: int
    end: int
    at: int


class Flat:
    """The arrays of one dtype laid end to end, each at an aligned offset, and cut into one slice for each node.

    Slice i is summed in the order of the ranks i, i + 1, ..., N - 1, 0, ..., i - 1, as in a ring. numbers: positions of
    these arrays among all arrays. total: elements, including gaps. share: elements of a slice; the last slices may have
    fewer, or none.
    """

    def __init__(self, arrays: Sequence[Array], numbers: Sequence[int], size: int) -> None:
        self.numbers, self.size = numbers, size
        self.dtype = arrays[numbers[0]].dtype
        self.step = ALIGNMENT // self.dtype.itemsize
        self._shapes = [arrays[number].shape for number in numbers]
        self._sizes = [arrays[number].size for number in numbers]
        self._offsets, self.total = [], 0
        for length in self._sizes:
            self._offsets.append(self.total)
            self.total += -(-length // self.step) * self.step
        self.share = -(-self.total // size)
        self._gap = np.zeros(self.step, self.dtype)

    def pieces(self, low: int, high: int, gaps: bool = False) -> list[Piece]:
        """Return the pieces from `low` to `high`, in order. gaps: include the gaps between arrays."""
        pieces = []
        for place in range(max(0, bisect_right(self._offsets, low) - 1), len(self._offsets)):
            offset, length = self._offsets[place], self._sizes[place]
            if offset >= high:
                break
            begin, end = max(low, offset) - offset, min(high, offset + length) - offset
            if begin < end:
                pieces.append(Piece(self.numbers[place], begin, end, offset + begin))
            after = max(low, offset + length)
            until = min(high, offset + -(-length // self.step) * self.step)
            if gaps and after < until:
                pieces.append(Piece(GAP, 0, until - after, after))
        return pieces

    def slice(self, place: int) -> list[Piece]:
        """Return the pieces of slice `place`."""
        return self.pieces(place * self.share, (place + 1) * self.share)

    def lay(self, pieces: Sequence[Piece], flat: Sequence[Array], out: Array) -> None:
        """Copy `pieces` (with gaps) of the one-dimensional arrays `flat` into `out`, end to end."""
        parts = [self._gap[:end] if number == GAP else flat[number][begin:end] for number, begin, end, _ in pieces]
        np.concatenate(parts, out=out)

    def views(self, buffer: Array) -> list[tuple[int, Array]]:
        """Return (number of the array, its view in `buffer`, in its shape). `buffer` has `total` elements."""
        return [
            (number, buffer[offset : offset + length].reshape(shape))
            for number, offset, length, shape in zip(
                self.numbers, self._offsets, self._sizes, self._shapes, strict=True
            )
        ]


def flats(arrays: Sequence[Array], size: int) -> list[Flat]:
    """Return the layouts of `arrays` for a sum over `size` nodes, one for each dtype."""
    by_dtype: dict[np.dtype[Any], list[int]] = {}
    for number, array in enumerate(arrays):
        by_dtype.setdefault(array.dtype, []).append(number)
    return [Flat(arrays, numbers, size) for numbers in by_dtype.values()]


def sent(layouts: Sequence[Flat], rank: int) -> int:
    """Return how many bytes node `rank` of a ring sends for a sum with these layouts."""
    count = 0
    for flat in layouts:
        sizes = [
            flat.dtype.itemsize * sum(piece.end - piece.begin for piece in flat.slice(i)) for i in range(flat.size)
        ]
        count += 2 * sum(sizes) - sizes[(rank + 1) % flat.size] - sizes[(rank + 2) % flat.size]
    return count
