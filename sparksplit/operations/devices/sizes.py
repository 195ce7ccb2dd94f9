"""Sizes of measurements that fit a device, and the arithmetic of the device's speed. All functions are pure."""

from __future__ import annotations

from collections.abc import Sequence

FIRST_SIZE = 64
LARGEST_SIZE = 16384
PRODUCT_SECONDS = 0.1
"""After a product that took this many seconds, no larger product is tried."""
EXPONENT = 10
LARGEST_POWER = 10_000
"""Rows of the matrices of A^n + B^n in the chapter on devices."""

_FLOPS_PER_CYCLE = (
    ("avx512f", 64, "AVX-512 with two units"),
    ("fma", 32, "AVX2 and FMA with two units"),
    ("avx", 16, "AVX"),
    ("sse2", 8, "SSE"),
    ("asimd", 16, "NEON with two units"),
)
"""By instruction set, the widest first: float32 operations of a core per cycle, and a description."""


def next_size(n: int, seconds: float, free_bytes: float) -> int | None:
    """Return the size to try after products of n x n that took `seconds` each. None: there is no larger size to try.

    Sizes double. free_bytes: free bytes of the device. Three matrices take at most a quarter of them.
    """
    larger = 2 * n
    if seconds > PRODUCT_SECONDS or larger > LARGEST_SIZE or 3 * 4 * larger**2 > free_bytes / 4:
        return None
    return larger


def repeats(seconds: float, budget: float) -> int:
    """Return how often to repeat a measurement of `seconds` to fill about `budget` seconds: 2 to 200 times."""
    return max(2, min(200, int(budget / max(seconds, 1e-9))))


def product_gflops(n: int, seconds: float) -> float:
    """Return the GFLOP/s of a product of two n x n matrices."""
    return 2 * n**3 / seconds / 1e9


def power_size(gflops: float, seconds: float, free_bytes: float) -> int:
    """Return the largest n so that A^10 + B^10 take `seconds` on a device of `gflops` GFLOP/s. n is a multiple of 50.

    n is at most the chapter's 10,000 and at least 50. Eight matrices take at most a quarter of the free memory.
    """
    operations = gflops * 1e9 * seconds / (2 * (EXPONENT - 1))
    by_time = (operations / 2) ** (1 / 3)
    by_memory = (free_bytes / 4 / (8 * 4)) ** 0.5
    return max(50, int(min(by_time, by_memory, LARGEST_POWER)) // 50 * 50)


def copy_sizes(free_bytes: float) -> list[int]:
    """Return the bytes to copy: 4 KiB, and 64 KiB, 1 MiB, 16 MiB, 64 MiB, up to an eighth of the free memory."""
    return [size for size in (4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20) if size <= max(4 << 10, free_bytes / 8)]


def cpu_peak(instructions: Sequence[str], cores: int, gigahertz: float | None) -> tuple[float | None, str]:
    """Return (peak float32 GFLOP/s of `cores` cores, how the peak was computed). The peak is None if it is unknown.

    The peak is the most that the instruction set and the clock rate allow. Some processors have one unit instead of
    two, and clock rates change under load.
    """
    if gigahertz is None:
        return None, "unknown: the system does not report the clock rate"
    for name, flops, words in _FLOPS_PER_CYCLE:
        if name in instructions:
            how = f"computed: {cores} core{'' if cores == 1 else 's'} x {gigahertz:.2f} GHz x {flops} a cycle ({words})"
            return cores * gigahertz * flops, how
    return None, "unknown: the operations per cycle are not known for this core's instruction sets"


def median(values: Sequence[float]) -> float:
    """Return the middle value. For an even number of values, return the upper middle value."""
    return sorted(values)[len(values) // 2]
