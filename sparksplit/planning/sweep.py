"""The sums that show what the network costs: how large they are. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.comparison.comparison_record import SweepPoint
from sparksplit.planning.deadline import LEAST

REPEATS = 6
"""Sums of each size."""
_BYTES = 16 << 20
"""The most bytes of a sum. A ring keeps two more buffers of each size."""
_SECONDS = 2.0
"""The most seconds of all sums of a size."""


def sweep_sizes(weights: int) -> list[int]:
    """Return the bytes of the sums, in ascending order. weights: the bytes of the weights, as an exchange has them."""
    most = min(weights, _BYTES)
    return sorted({1 << 10, 1 << 16, max(1 << 12, most // 2), max(1 << 13, most)})


def takes_long(points: Sequence[SweepPoint], size: int) -> bool:
    """Whether sums of `size` bytes would take too long after those of `points`. The fewest sizes never do."""
    if len(points) < LEAST:
        return False
    return REPEATS * points[-1].seconds * size / points[-1].bytes > _SECONDS
